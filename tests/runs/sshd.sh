# sshd.sh - what the tests of cloud ssh share: real sshds on loopback, with keys, ports and configuration of their own.
#
#   start_host NAME [LINE]...        sets $port and $server; $listen is its address, $inside a command it runs in
#   serve NAME                       starts its sshd again: $server
#   write_cloud FILE HOSTS [OPTION]...   the search of real.cfg on hosts made by `host NAME PORT`
#   nothing_left                     no connection and no process of a host within 10 s
#   trials_end [TENTHS]              the same without connections, within TENTHS of a second (default 100)
PATH=$PATH:/usr/sbin:/sbin
skip_all() { echo "1..0 # SKIP $1"; exit 0; }
for program in ssh sshd ssh-keygen flock; do
	command -v $program >/dev/null || skip_all "no $program (packages openssh-server, openssh-client, util-linux)"
done
[ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd	# sshd demands it of root
mkdir tmp
export TMPDIR=$work/tmp	# for the sockets of shared connections
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT

# ---- hosts ------------------------------------------------------------------------------------
chmod 700 "$work"
for key in key wrong; do ssh-keygen -q -t ed25519 -N '' -f $key; done
cp key.pub authorized
cat >ssh_config <<-END
	UserKnownHostsFile $work/known
	GlobalKnownHostsFile /dev/null
	IdentityAgent none
	END
sed "s:$work/known:$work/known.none:" ssh_config >ssh_config.none
sed "s:$work/known:$work/known.other:" ssh_config >ssh_config.other
: >known.none
declare -A address_of	# port: address
listen=127.0.0.1 inside=
serve() {	# NAME
	rm -f "$1/pid"
	$inside "$(command -v sshd)" -D -f "$work/$1/conf" -E "$work/$1/log" &
	server=$!
	for k in $(seq 50); do
		[ -s "$1/pid" ] && return
		kill -0 $server 2>/dev/null || break
		sleep 0.1
	done
	kill $server 2>/dev/null
	return 1
}
# start_host NAME [LINE]...: an sshd with these lines in its configuration.  The key exchange that OpenSSH prefers takes a
# quarter of a second of processor time for each connection, and is not what is tested; nor is what the user's ~/.bashrc does
# (bash reads it for a connection, but not inside of another shell).
start_host() {
	local name=$1 line
	shift
	mkdir -p "$name/run"
	[ -f "$name/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$name/key"
	for i in 1 2 3 4 5 6 7 8; do
		port=$((20000 + RANDOM % 12000))
		cat >"$name/conf" <<-END
			Port $port
			ListenAddress $listen
			HostKey $work/$name/key
			PidFile $work/$name/pid
			AuthorizedKeysFile $work/authorized
			StrictModes no
			UsePAM no
			PasswordAuthentication no
			KbdInteractiveAuthentication no
			PermitRootLogin prohibit-password
			KexAlgorithms curve25519-sha256
			SetEnv XDG_RUNTIME_DIR=$work/$name/run SHLVL=1 "PATH=$PATH"
			END
		for line in "$@"; do echo "$line" >>"$name/conf"; done
		serve "$name" && break
	done
	servers+=($server) address_of[$port]=$listen
	echo "[$listen]:$port $(cut -d ' ' -f 1,2 "$name/key.pub")" >>known
	echo "[$listen]:$port $(cut -d ' ' -f 1,2 wrong.pub)" >>known.other
}
can_log_in() {	# PORT: else the whole script is skipped
	ssh -F ssh_config -i key -p "$1" -oBatchMode=yes -oConnectTimeout=10 "${address_of[$1]}" true 2>login.err ||
		skip_all "cannot log in through an sshd of our own: $(tail -n 1 login.err; tail -n 1 ./*/log)"
}

host() {	# NAME PORT [OPTION]...: a row of hosts
	echo "{ name = \"$1\"; address = \"${address_of[$2]-127.0.0.1}\"; port = $2; key = \"$work/key\"; gpus = 2; gpu_type = \"cpu\"; ${*:3} }"
}
write_cloud() {	# FILE HOSTS [OPTION]...: the search of real.cfg on these hosts
	sed '/^cloud/d' real.cfg >"$1"
	echo "cloud = { use = \"ssh\"; ssh = ( \"ssh\", \"-F\", \"$work/ssh_config\" ); hosts = ( $2 ); ${*:3} };" >>"$1"
}
parents() { cat /proc/[0-9]*/stat 2>/dev/null | sed 's/(.*)/x/' | awk -v parent="$1" '$4 == parent { print $1 }'; }
# Every connection is a child of an sshd, every process on a "host" has the variable that only these sshd set.
left_on() {
	for server in "${servers[@]}"; do parents "$server"; done
	grep -lza "^XDG_RUNTIME_DIR=$work/" /proc/[0-9]*/environ 2>/dev/null
}
nothing_left() {
	local left
	for i in $(seq 100); do
		left=$(left_on)
		[ -z "$left" ] && return 0
		sleep 0.1
	done
	err="left: $left"
	return 1
}
best() { "$ESPALIER" best "$1" --json | sed 's/.*"best": {\([^}]*\)}.*/\1/'; }
trials_end() {	# [TENTHS OF A SECOND]: connections that short commands share may stay for a minute
	for i in $(seq "${1:-100}"); do
		[ -z "$(grep -lza "^XDG_RUNTIME_DIR=$work/" /proc/[0-9]*/environ 2>/dev/null)" ] && return 0
		sleep 0.1
	done
	return 1
}
