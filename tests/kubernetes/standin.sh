# standin.sh - for the scripts in tests/runs that use the stand-in of a Kubernetes cluster, after tap.sh.
#
#   start_api FOLDER [SETTING=VALUE]...    an API server; $KUBE_STANDIN names the one that `kubectl` uses
#   write_cloud FILE [OPTION]...           the search of real.cfg on two pods of two slots
#   begin NAME [OPTION]...                 such a run in the background, $driver, whose trials wait while there is `hold`
#   finish NAME                            lets it end: $rc, $out, $err
#   same DIR                               is it complete, with the results of the search in `local`?
#   state, holds, until_is EXPRESSION      of what the API server knows; `s` is all of it
#   nothing_left                           no pod, no process of one, no proxy
needs_python3
servers=()
short=$(mktemp -d /tmp/ek-XXXXXX)	# a socket must have a short path
trap 'kill "${servers[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$work" "$short"' EXIT
ln -s "$short" tmp
export PYTHONDONTWRITEBYTECODE=1 TMPDIR=$short KUBE_STANDIN=$work/api
unset KUBE_CONTEXT KUBE_HIDE ESPALIER_KUBE_ACCOUNT
mkdir bin
printf '#!/bin/sh\nexec %s %s/kubectl.py "$@"\n' "$PYTHON3" "$top/tests/kubernetes" >bin/kubectl
chmod +x bin/kubectl
PATH=$work/bin:$PATH
start_api() {
	mkdir "$1"
	"$PYTHON3" "$top/tests/kubernetes/api.py" "$@" 2>"$1.err" &
	servers+=($!)
	for i in $(seq 200); do [ -S "$1/api" ] && break; sleep 0.05; done
}
# One small process: a test asks many times a second.
state() {
	"$PYTHON3" -S -E -c '
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(os.environ["KUBE_STANDIN"] + "/api")
server.sendall(b"GET /_/state HTTP/1.0\r\n\r\n")
s = json.loads(b"".join(iter(lambda: server.recv(65536), b"")).split(b"\r\n\r\n", 1)[1])
print(eval(sys.argv[1]))' "$1"
}
holds() { [ "$(state "$1")" = True ] || { err="$err; the server says: $(kubectl state | head -c 1500)"; return 1; }; }
pods() { state '" ".join(s["pods"])'; }
until_is() { for i in $(seq 1200); do [ "$(state "$1")" = True ] && return; sleep 0.05; done; return 1; }
marked() { grep -lzas "^ESPALIER_POD=$KUBE_STANDIN/" /proc/[0-9]*/environ; }
nothing_left() {
	for i in $(seq 200); do
		[ -z "$(pods)$(marked)$(ls -d "$short"/espalier-kube-* 2>/dev/null)" ] && return
		sleep 0.05
	done
	err="left: $(pods) $(marked) $(ls "$short"); $err"
	return 1
}
write_real
sed -i 's/trials = 9/trials = 27/' real.cfg
# Promoted trials wait while there is the file `hold`: what a test does then comes in their middle.
sed -i "s|sleep .*|sleep 0.02; while [ \$i -gt 2 ] \&\& [ -e $work/hold ]; do sleep 0.05; done|" train.sh
write_cloud() {
	sed '/^cloud/d' real.cfg >"$1"
	echo "cloud = { use = \"kubernetes\"; image = \"any\"; gpus = 2; gpu_type = \"cpu\"; nodes_max = 2; ${*:2} };" >>"$1"
}
best() { "$ESPALIER" best "$1" --json | sed 's/.*"best": {\([^}]*\)}.*/\1/'; }
# What every trial came to: state, iterations, scores and parameters, and the best one.
table() { "$ESPALIER" export "$1" --format csv --table trials | cut -d , -f 1-4,8,9,15; best "$1"; }
same() { exits 0 && finished 27 && [ "$(table "$1")" = "$(table local)" ]; }
run "$ESPALIER" run real.cfg --dir local
check "the search on this machine, to compare with" exits 0

until_said() { for i in $(seq 1200); do grep -aqs "$2" "$1.out" "$1.err" && return; sleep 0.05; done; return 1; }	# NAME TEXT
begin() {
	write_cloud "$1.cfg" "${@:2}"
	: >hold
	"$ESPALIER" run "$1.cfg" --dir "$1.run" >"$1.out" 2>"$1.err" &
	driver=$!
	until_said "$1" "at iteration 2, "
}
again() {	# NAME: resumes it in the background
	"$ESPALIER" resume "$1.run" >"$1.out" 2>"$1.err" &
	driver=$!
}
finish() { rm -f hold; wait $driver; rc=$? out=$(cat "$1.out") err=$(cat "$1.err"); }
kill_driver() { kill -KILL $driver; wait $driver 2>/dev/null; }
