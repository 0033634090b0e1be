# tap.sh - what the scripts beside it share: TAP lines, a folder to work in, the program under test.
#
#   check NAME COMMAND...    one test: passes if the command succeeds
#   run COMMAND...           keeps $rc, $out (standard output) and $err
#   says TEXT / complains TEXT      is TEXT in $out / $err?
#   needs_python3            else the whole script is skipped
#   told NAME SCRIPT ARGUMENT...    a test for each line "pass ..." or "fail ..." of a Python script, and one for its end
#   serve ARGUMENT...        `espalier serve` in the background; its address is in the file `address`
#   served SIGNAL            ends it: $rc, $err
#   render PAGE.html         runs the script of a page of `espalier report`: PAGE.xml is what a browser shows
#   drawn NAME COMMAND...    a test that looks into such a PAGE.xml: skipped without node
# A script calls `done_testing` at its end.
# Whoever starts the tests in the background of a script ignores SIGINT, and so would all programs under test.
case $(trap -p INT) in
*"''"*) exec env --default-signal=INT,QUIT bash "$0" "$@" ;;
esac
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${abs_top_builddir:-$top}
: "${ESPALIER:=$build/espalier}" "${ESPALIER_PLUGIN_PATH:=$build/plugins}" "${ESPALIER_LIBEXEC:=$build}"
: "${PYTHON3=$(command -v python3)}" "${NODE=$(command -v node)}"
export ESPALIER_PLUGIN_PATH ESPALIER_LIBEXEC
# Trials start the same one.
case $PYTHON3 in /*) [ "$(command -v python3)" = "$PYTHON3" ] || PATH=${PYTHON3%/*}:$PATH ;; esac
PATH=$build/lab:$PATH	# espalier-market and its like
unset NO_COLOR
export TERM=dumb
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
export XDG_CACHE_HOME=$work/.cache	# no profile that the user keeps
export ESPALIER_SLOTS=	# tests run beside one another, and may use more slots than there are
count=0 failed=0

check() {
	local name=$1
	shift
	count=$((count + 1))
	if "$@"; then
		echo "ok $count - $name"
	else
		echo "not ok $count - $name"
		{ echo "failed: $*"; echo "exit status: ${rc-}"; echo "out: ${out-}"; echo "err: ${err-}"; } |
			head -40 | sed 's/^/# /'
		failed=$((failed + 1))
	fi
}
skip() {
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}
drawn() {
	if [ -z "$NODE" ]; then skip "$1" "no node"; else check "$@"; fi
}
render() { [ -z "$NODE" ] || "$NODE" "$top/tests/runs/render.js" "$1" >"${1%.html}.xml"; }
needs_python3() {	# a status other than 0 would be an error to the TAP driver
	[ -n "$PYTHON3" ] || { echo "1..0 # SKIP no python3"; exit 0; }
}
done_testing() {
	echo "1..$count"
	exit $((failed > 0))
}
run() {
	"$@" >"$work/.out" 2>"$work/.err"
	rc=$?
	out=$(cat "$work/.out") err=$(cat "$work/.err")
	return 0
}
espalier() { run "$ESPALIER" "$@"; }
exits() { [ "$rc" -eq "$1" ]; }
says() { case $out in *"$1"*) ;; *) return 1 ;; esac; }
complains() { case $err in *"$1"*) ;; *) return 1 ;; esac; }
# N trials have finished: completed or stopped early.
finished() { says ", $1 completed" || says ", $1 finished ("; }
silent() { [ -z "$out" ]; }
told() {
	local name=$1
	shift
	run "$PYTHON3" "$@"
	printf '%s\n' "$out" >told.out
	while IFS= read -r line; do
		case $line in
		"pass "* | "fail "*) check "${line#* }" [ "${line%% *}" = pass ] ;;
		"#"*) echo "$line" ;;
		esac
	done <told.out
	check "$name" exits 0
}
serve() {
	: >address
	(trap - INT; exec "$ESPALIER" serve "$@" >address 2>serve.err) &
	server=$!
	for i in $(seq 300); do
		grep -q token address && break
		sleep 0.1
	done
}
served() {
	kill "-$1" $server
	wait $server
	rc=$? err=$(cat serve.err)
}
# fetch URL [BODY]: what a stand-in answers, by the shell alone: tests ask it many times a second
fetch() {
	local host=${1#http://} method=GET status line connection LC_ALL=C
	local path=/${host#*/}
	host=${host%%/*}
	[ $# -gt 1 ] && method=POST
	exec {connection}<>"/dev/tcp/${host%:*}/${host##*:}" || return
	printf '%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s' "$method" "$path" "$host" "${#2}" "${2-}" >&$connection
	IFS= read -r status <&$connection
	while IFS= read -r line <&$connection && [ "$line" != $'\r' ]; do :; done
	cat <&$connection
	exec {connection}>&-
	case $status in *" 200"*) ;; *) return 1 ;; esac
}
# Every line of $out is a JSON value, and the expression holds; `all` are the values, `last` the last.
json() {
	printf '%s\n' "$out" | "$PYTHON3" -S -E -c '
import json, sys
all = [json.loads(line) for line in sys.stdin]
last = all[-1]
sys.exit(0 if eval(sys.argv[1]) else 1)' "$1"
}
check_json() {
	if [ -n "$PYTHON3" ]; then check "$1" json "$2"; else skip "$1" "no python3"; fi
}
# A simulated search that takes no time; its lines are numbered from 1.
write_sim() {
	cat >sim.cfg <<-'END'
	experiment = { name = "pear"; metric = "loss"; goal = "minimize"; seed = 3; };
	trial = { trainable = "branin"; gpus_max = 4;
	  profile = { iteration = { mean = "4s"; }; scaling = ( (1, 1.0), (2, 1.9), (4, 3.4) ); start = "2s"; }; };
	space = { x1 = { type = "real"; low = -5.0; high = 10.0; }; x2 = { type = "real"; low = 0.0; high = 15.0; }; };
	algorithm = { use = "sha"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3; };
	allocator = { use = "static"; gpus = 8; };
	cloud = { use = "sim"; offers = ( { name = "big"; gpus = 4; price = 12.24; provision = "15s"; } ); nodes_max = 4; };
	END
}
# A search without a limit on widths, up to its cloud: write_wide FILE.
write_wide() {
	cat >"$1" <<-'END'
	experiment = { name = "plum"; metric = "loss"; goal = "minimize"; seed = 5; };
	trial = { trainable = "sleep"; options = { iteration_s = 0.5; }; };
	space = { x = { type = "real"; low = 0.0; high = 1.0; }; };
	algorithm = { use = "sha"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3; };
	allocator = { use = "fair"; };
	END
}
# hardly_longer DIR THAN: did the search take at most 1.2 times as long as the other, and three seconds of starting?
hardly_longer() {
	local a b
	a=$("$ESPALIER" status "$1" --json | sed 's/.*"jct_s": *\([0-9.]*\).*/\1/') b=$("$ESPALIER" status "$2" --json | sed 's/.*"jct_s": *\([0-9.]*\).*/\1/')
	echo "# $1: $a s; $2: $b s"
	awk "BEGIN { exit !($a <= 1.2 * $b + 3) }"
}
# charged DIR HELD MOST: is the cost of a run, at a dollar for each second of a machine, what its machines were held for, but for
# the seconds (MOST in all) between a machine's start and the agent's, and between a release and its end?  Two machines' last
# seconds count whole.
charged() {
	local cost
	cost=$("$ESPALIER" status "$1" --json | sed 's/.*"cost_usd": *\([0-9.]*\).*/\1/')
	err="$err; cost $cost, held $2 s"
	awk "BEGIN { exit !($cost > 0 && $cost <= $2 + 2 && $2 <= $cost + $3) }"
}
# A real search: trials are a shell script that takes $STEP seconds an iteration.
write_real() {
	cat >train.sh <<-'END'
	i=$ESPALIER_ITERATION
	x=$(sed 's/.*"x": *\([0-9]*\).*/\1/' "$ESPALIER_PARAMS")
	[ "${FAIL-}" = "$x" ] && { echo "no good" >&2; exit 3; }
	while :; do
		i=$((i + 1))
		sleep "${STEP:-0.02}"
		echo "{\"iteration\": $i, \"metrics\": {\"score\": $((x * 10 + i)), \"more\": $i}}" >&$ESPALIER_REPORT_FD
		while read -r word rest <&$ESPALIER_REPORT_FD || exit 1; do
			case $word in
			stop) exit 0 ;;
			checkpoint|pause)
				mkdir -p "$ESPALIER_SAVE" && echo $i >"$ESPALIER_SAVE/state"
				echo "{\"saved\": $i}" >&$ESPALIER_REPORT_FD
				[ "$word" = pause ] && exit 0
				break ;;
			*) break ;;
			esac
		done
	done
	END
	cat >real.cfg <<-'END'
	experiment = { name = "plum"; metric = "score"; goal = "maximize"; seed = 5; };
	trial = { command = [ "bash", "train.sh" ]; gpus_max = 1; grace = "2s"; retries = 0; };
	space = { x = { type = "int"; low = 0; high = 99; }; };
	algorithm = { use = "sha"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3; };
	allocator = { use = "static"; gpus = 4; };
	cloud = { use = "local"; nodes = 2; gpus = 2; device = "cpu"; };
	END
}
# A pool of three jobs, one more than its nodes: pool.cfg.
write_pool() {
	cat >job.sh <<-'END'
	[ "${RANK:-0}" = 0 ] || exit 0
	i=$ESPALIER_ITERATION
	while :; do
		sleep 0.2
		i=$((i + 1))
		echo "{\"iteration\": $i, \"metrics\": {}}" >&$ESPALIER_REPORT_FD
		while read -r word rest <&$ESPALIER_REPORT_FD || exit 1; do
			case $word in
			stop) exit 0 ;;
			checkpoint|pause)
				mkdir -p "$ESPALIER_SAVE" && echo $i >"$ESPALIER_SAVE/state"
				echo "{\"saved\": $i}" >&$ESPALIER_REPORT_FD
				[ "$word" = pause ] && exit 0 ;;
			*) break ;;
			esac
		done
	done
	END
	printf 'job,arrives_s,work_s,nodes_min,nodes_max\n--help,0,300,1,1\ntwo,0,300,1,1\nthree,0,300,1,1\n' >jobs.csv
	cat >pool.cfg <<-'END'
	experiment = { name = "basket"; seed = 1; };
	workload = { trace = "jobs.csv"; iteration = "1s"; };
	trial = { command = [ "bash", "job.sh" ]; grace = "2s"; };
	allocator = { use = "fair"; };
	cloud = { use = "local"; nodes = 2; gpus = 1; device = "cpu"; };
	END
}
