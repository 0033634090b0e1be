#!/bin/bash
# Cloud kubernetes on a real cluster of three nodes on this machine (loopback.sh): TAP.
#
#	tests/kubernetes/cluster.sh [PART]...	default: all but `figures`; the parts are the functions part_NAME in parts/*.sh
#
# KUBE_CACHE: where build.sh has put Kubernetes; default: ~/.cache/espalier-kube. JOB_IMAGE: see parts/job.sh. KILLS=50: how often drivers are killed;
# SERVER_AWAY=60: seconds without the API server; KEEP=1: keeps the files, and prints where.
here=$(cd "$(dirname "$0")" && pwd)
all="search gang stores job rights revoked token refusals quota namespace expiry away server busy old kubelet node idle evict preempt kill"
export KUBE_CACHE=${KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier-kube} KILLS=${KILLS:-50}
export KUBE_BIN=$KUBE_CACHE/bin
parts=${*:-$all}
if [ -z "${KUBE_DIR-}" ]; then	# outside of the namespaces of the cluster
	why=$("$here/loopback.sh" why-not)
	[ -z "$why" ] || { echo "1..0 # SKIP $why"; exit 0; }
	KUBE_DIR=$(mktemp -d /tmp/ec-XXXXXX) || exit 99
	export KUBE_DIR
	"$here/loopback.sh" run "$0" $parts &
	inside=$!
	end_inside() {
		kill -KILL $inside 2>/dev/null
		wait $inside 2>/dev/null
		"$here/loopback.sh" stop "$KUBE_DIR/cluster"	# only cgroups can be left
		[ -n "${KEEP-}" ] && echo "# kept: $KUBE_DIR" || rm -rf --one-file-system "$KUBE_DIR"
	}
	trap 'end_inside; exit 99' INT TERM HUP
	wait $inside
	status=$?
	end_inside
	exit $status
fi
. "$here/../runs/tap.sh"
cluster=$KUBE_DIR/cluster
PATH=$KUBE_BIN:$PATH
mkdir "$KUBE_DIR/tmp" "$KUBE_DIR/flag"
export TMPDIR=$KUBE_DIR/tmp KUBECONFIG=$cluster/kubeconfig
cd "$KUBE_DIR" && rm -rf "$work" && work=$KUBE_DIR || exit 99
trap - EXIT	# the files go when all has ended
loopback() { "$here/loopback.sh" "$1" "$cluster" "${@:2}"; }
begun=$SECONDS
run env NODES=3 "$here/loopback.sh" start "$cluster"
[ $rc -eq 0 ] || { echo "Bail out! the cluster does not start: $err"; exit 1; }
"$here/loopback.sh" rootfs root && "$here/loopback.sh" image root tools:local tools.tar && loopback load tools.tar || exit 99
rm -rf root
echo "# the cluster has started: $((SECONDS - begun)) s"

# ---- a search ---------------------------------------------------------------------------------
# The nodes share the folder `flag`, and nothing else of this test's. After iteration 5 trials wait while `flag/hold` is there.
write_real
sed -i "s|sleep .*|sleep \"\${STEP:-0.02}\"; while [ \$i -gt 5 ] \&\& [ -e /flag/hold ]; do sleep 0.1; done|
	1i echo \"\$ESPALIER_TRIAL \$ESPALIER_ITERATION \$(uname -n)\" >>/flag/starts" train.sh
sed -i 's/trials = 9; iterations_min = 1; iterations_max = 9/trials = 27; iterations_min = 3; iterations_max = 27/; s/"train.sh" \];/"train.sh" ]; files = [ "train.sh" ]; env = { STEP = "0.02"; };/; s/gpus = 4; };/gpus = 6; };/' real.cfg
cat >pod.json <<-END
	{ "spec": { "containers": [ { "name": "espalier", "volumeMounts": [ { "name": "flag", "mountPath": "/flag" } ] } ],
	  "volumes": [ { "name": "flag", "hostPath": { "path": "$KUBE_DIR/flag" } } ] } }
	END
cloud() {	# [OPTION]...: three pods of two slots
	echo "cloud = { use = \"kubernetes\"; image = \"${image:-tools:local}\"; template = \"pod.json\"; gpus = 2; gpu_type = \"cpu\";
	  gpu_resource = \"nvidia.com/gpu\"; cpus = \"100m\"; nodes_max = 3; $* };"
}
write_cloud() {	# FILE [OPTION]...
	sed "/^cloud/d; s/0.02/${step:-0.02}/" real.cfg >"$1"
	cloud "${@:2}" >>"$1"
}
sed 's|/flag/|'"$KUBE_DIR"'/flag/|g' train.sh >train-here.sh
sed 's/train.sh/train-here.sh/g; s/nodes = 2/nodes = 3/' real.cfg >local.cfg
run timeout 120 "$ESPALIER" run local.cfg --dir local
check "the search on this machine, to compare with" exits 0
# What every trial came to (state, iterations, scores, parameters), and the best one.
table() {
	"$ESPALIER" export "$1" --format csv --table trials | cut -d , -f 1-4,8,9,15
	"$ESPALIER" best "$1" --json | sed 's/.*"best": {\([^}]*\)}.*/\1/'
}
same() {	# DIR: as on this machine, with the best checkpoint here
	local best
	exits 0 && finished 27 && [ "$(table "$1")" = "$(table local)" ] || return 1
	best=$("$ESPALIER" best "$1" --json | jq .best.trial)
	[ "$(cat "$1/trials/$best/checkpoint-27/state")" = 27 ]
}
pods() { kubectl get pods --all-namespaces -l app=espalier -o name "$@" 2>/dev/null; }
first_pod() { kubectl get pods -l app=espalier -o json | jq -r '[.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null)][0] |
	"\(.metadata.name) \(.spec.nodeName)"'; }
until_done() {	# SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.2
	done
}
no_pods() { [ -z "$(pods)" ]; }
nothing_runs() { [ -z "$(pods --field-selector=status.phase=Running)" ]; }
nothing_left() {	# no pod, no kubectl, no socket
	is_clean() { no_pods && ! pgrep -x kubectl >/dev/null && [ -z "$(ls tmp)" ]; }
	until_done 60 is_clean && return
	err="left: $(kubectl get pods --all-namespaces -l app=espalier -o wide 2>&1; pgrep -a kubectl; ls tmp)"
	return 1
}
begin() {	# NAME [OPTION]...: a run in the background whose trials wait; $driver
	write_cloud "$1.cfg" "${@:2}"
	start_driver "$1" run "$1.cfg" --dir "$1.run"
	trains_or_ends() { grep -qs "at iteration 4, " "$1.out" || has_ended; }
	until_done 120 trains_or_ends "$1" && ! has_ended && return
	err=$(cat "$1.err")
	check "run $1 trains" false
}
start_driver() {	# NAME ARGUMENT...
	: >flag/hold
	: >flag/starts
	"$ESPALIER" "${@:2}" >"$1.out" 2>"$1.err" &
	driver=$!
}
has_ended() { ! kill -0 $driver 2>/dev/null; }
finish() {	# NAME
	rm -f flag/hold
	until_done "${LIMIT:-300}" has_ended || kill -KILL $driver
	wait $driver 2>/dev/null
	rc=$? out=$(cat "$1.out") err=$(cat "$1.err")
}
kill_driver() { kill -KILL $driver; wait $driver 2>/dev/null; }
until_said() { until_done "$3" grep -aqs "$2" "$1.out" "$1.err"; }	# NAME TEXT SECONDS
started_once() { [ -z "$(sed 's/ [^ ]*$//' flag/starts | sort | uniq -d)" ]; }	# no trial was started again where it was before
audited() {	# EXPRESSION OF JQ: how many requests about pods are such
	jq -s "map(select($1)) | length" "$cluster/log/audit.log"
}
restart_server() { loopback kill-server && loopback start-server; }

for file in "$here"/parts/*.sh; do . "$file"; done
for part in $parts; do
	begun=$SECONDS
	part_"$part"
	rm -f flag/hold
	echo "# $part: $((SECONDS - begun)) s"
done
programs_run() {	# of the cluster; zombies have no arguments
	grep -lE "^(etcd|kube|containerd|runc)" /proc/[0-9]*/comm 2>/dev/null | sed 's/comm$/cmdline/' | xargs -r cat 2>/dev/null | tr '\0' ' '
}
run loopback stop
check "the cluster is stopped" eval 'exits 0 && [ -z "$(programs_run)" ]'
done_testing
