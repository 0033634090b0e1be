# session.sh - what the tests of sessions share, beside sshd.sh: $red and $blue are the ports of its hosts, $blue may be empty.
#
#   write_search FILE STEP [OPTION OF THE CLOUD]...   logs every iteration that is trained in FILE.trained; no trial
#                                                     reports while FILE.trained.hold exists
#   ours REGEX              processes of this test whose command line begins like this; kill_ours SIGNAL REGEX
#   await CONDITION         for a minute at most
write_real
sed -i 's/^sleep.*/&\necho "$ESPALIER_TRIAL $i" >>"$TRAINED"\nwhile [ -e "$TRAINED.hold" ]; do sleep 0.05; done/' train.sh
write_search() {
	write_cloud "$1" "$(host red "$red")${blue:+, $(host blue "$blue")}" "${@:3}"
	sed -i "s|grace = |env = { STEP = \"$2\"; TRAINED = \"$work/$1.trained\"; }; grace = |" "$1"
}
await() {	# CONDITION, for a minute at most
	local i
	for i in $(seq 600); do eval "$1" && return 0; sleep 0.1; done
	echo "# waited in vain for: $1"
	return 1
}
trained() { [ ! -e "$1.trained" ] && echo 0 || wc -l <"$1.trained"; }
await_trained() { await "[ \"\$(trained $1)\" -ge $2 ]"; }	# FILE COUNT
ours() {
	local file line
	for file in /proc/[0-9]*/cmdline; do
		line=$(tr '\0' ' ' 2>/dev/null <"$file") || continue
		[[ $line =~ ^$1 && $line == *"$work"* ]] && echo "${file//[^0-9]/}"
	done 2>/dev/null
}
kill_ours() { local pids; pids=$(ours "$2"); [ -n "$pids" ] && kill -"$1" $pids 2>/dev/null; }
twice() { sort "$1.trained" | uniq -d; }

