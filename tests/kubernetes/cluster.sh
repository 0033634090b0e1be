#!/bin/bash
# Cloud kubernetes on a real cluster (docs/kubernetes.md): a search, gangs, killed drivers, evictions and preemption, and
# exactly the published rights. Not part of `make check`.
#
#	IMAGE=debian:local tests/kubernetes/cluster.sh [PART]...
#
# KUBECONFIG is that of an administrator; the cluster has two GPUs (nvidia.com/gpu, also made-up ones) on each node, and IMAGE
# has bash. KILLS=N (default 5): how often drivers are killed. Some parts need the cluster's own program in TOOL and its
# folder in CLUSTER: `$TOOL kill-node NAME $CLUSTER`, start-node, sa-kubeconfig NAMESPACE NAME, and $CLUSTER/run/apiserver.pid.
. "$(dirname "$0")/../runs/tap.sh"
[ -n "${IMAGE-}" ] || { echo "1..0 # SKIP no IMAGE"; exit 0; }
export TMPDIR=/tmp
write_real
sed -i "s/trials = 9/trials = 27/; s/\"train.sh\" \];/\"train.sh\" ]; files = [ \"train.sh\" ]; env = ( { name = \"STEP\"; value = \"STEP_\"; } );/" real.cfg
write_cloud() {	# FILE STEP [OPTION]...
	sed "/^cloud/d; s/STEP_/$2/" real.cfg >"$1"
	echo "cloud = { use = \"kubernetes\"; image = \"$IMAGE\"; gpus = 2; gpu_type = \"cpu\"; gpu_resource = \"nvidia.com/gpu\"; cpus = \"100m\";
	  nodes_max = 2; ${*:3} };" >>"$1"
}
sed 's/files = .*);//' real.cfg >local.cfg
run "$ESPALIER" run local.cfg --dir local
check "the search on this machine, to compare with" exits 0
table() { "$ESPALIER" export "$1" --format csv --table trials | cut -d , -f 1-4,8,9,15
	"$ESPALIER" best "$1" --json | sed 's/.*"best": {\([^}]*\)}.*/\1/'; }
same() { exits 0 && says "27 completed" && [ "$(table "$1")" = "$(table local)" ] && [ -f "$(echo "$1"/trials/20/checkpoint-9/state)" ]; }
pods() { kubectl get pods -l app=espalier -o name "$@"; }
nothing_left() {
	for i in $(seq 60); do [ -z "$(pods)" ] && return; sleep 0.5; done
	err="left: $(kubectl get pods -l app=espalier -o wide)"
	return 1
}
begin() {	# NAME STEP [OPTION]...: a run in the background that trains; $driver
	write_cloud "$1.cfg" "${@:2}"
	"$ESPALIER" run "$1.cfg" --dir "$1.run" >"$1.out" 2>"$1.err" &
	driver=$!
	for i in $(seq 600); do grep -qs "at iteration 1, " "$1.out" && return; sleep 0.1; done
}
finish() { wait $driver; rc=$? out=$(cat "$1.out") err=$(cat "$1.err"); }
until_said() { for i in $(seq "$3"); do grep -aqs "$2" "$1.out" "$1.err" && return; sleep 0.1; done; return 1; }

part_search() {
	write_cloud two.cfg 0.02
	run timeout 120 "$ESPALIER" run two.cfg --dir two.run
	check "a search on two pods, with its best checkpoint here" same two.run
	check "no pod is left" nothing_left
}
part_gang() {
	sed 's/gpus_max = 1/gpus_max = 4/; s/gpus = 4; }/gpus = 4; }/' real.cfg >gang.cfg
	sed "/^cloud/d; /^algorithm/d; /^trial/d" real.cfg >gang.cfg
	cat >>gang.cfg <<-END
		trial = { command = [ "bash", "gang.sh" ]; files = [ "gang.sh" ]; gpus_min = 4; gpus_max = 4; };
		algorithm = { use = "random"; trials = 1; iterations_max = 2; };
		cloud = { use = "kubernetes"; image = "$IMAGE"; gpus = 2; gpu_type = "cpu"; gpu_resource = "nvidia.com/gpu"; cpus = "100m";
		  nodes_max = 2; };
	END
	sed '1i env | grep "^ESPALIER_" | sort; uname -n' train.sh >gang.sh
	run timeout 120 "$ESPALIER" run gang.cfg --dir gang.run
	check "a gang of four ranks on two pods" eval 'exits 0 && says "on 4 slots" && says "at most 2 nodes"'
	check "no pod is left by the gang" nothing_left
}
part_kill() {
	for k in $(seq "${KILLS:-5}"); do
		begin "kill$k" 0.4
		sleep "$((RANDOM % 4)).$((RANDOM % 10))"
		kill -KILL $driver
		wait $driver 2>/dev/null
		run timeout 200 "$ESPALIER" resume "kill$k.run"
		check "driver killed, $k: resumed, and trials that ran run on" eval "same kill$k.run && complains 'kept running without this program'"
	done
	check "no pod is left by killed drivers" nothing_left
}
part_away() {	# a pod nobody asks for
	begin orphan 5 'idle = "10s"; linger = "5s";'
	kill -KILL $driver
	wait $driver 2>/dev/null
	for i in $(seq 60); do [ -z "$(pods --field-selector=status.phase=Running)" ] && break; sleep 1; done
	err="after $i s: $(kubectl get pods -l app=espalier)"
	check "the driver is killed for good: its pods end by themselves ($i s)" [ -z "$(pods --field-selector=status.phase=Running)" ]
	espalier nodes --release orphan.run
	check "nodes --release deletes what is left of them" nothing_left
}
part_evict() {
	begin evict 0.4 'grace = "6s";'
	pod=$(pods | head -n 1)
	printf '{"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "%s", "namespace": "default"}}' "${pod#pod/}" |
		kubectl create --raw "/api/v1/namespaces/default/pods/${pod#pod/}/eviction" -f - >/dev/null
	finish evict
	check "a pod is evicted" eval 'same evict.run && says "Kubernetes takes its pod away"'
	begin hand 0.4 'grace = "1s";'
	kubectl delete --wait=false "$(pods | head -n 1)" >/dev/null
	finish hand
	check "a pod is deleted by hand" eval 'same hand.run && nothing_left'
}
part_preempt() {
	kubectl apply -f - >/dev/null <<-'END'
		{ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "hi" }, "value": 1000 }
	END
	begin preempt 0.6 'grace = "4s"; wait = "2m";'
	for i in 1 2 3; do
		printf '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hi%s"}, "spec": {"priorityClassName": "hi", "containers": [{"name": "c",
		  "image": "%s", "command": ["sleep", "4"], "resources": {"limits": {"nvidia.com/gpu": 2}}}], "restartPolicy": "Never"}}' $i "$IMAGE" |
			kubectl create -f - >/dev/null
	done
	finish preempt
	check "pods are preempted by a higher class" eval 'same preempt.run && says "Kubernetes takes its pod away"'
	kubectl delete pod hi1 hi2 hi3 --wait=false --grace-period=1 >/dev/null
	check "no pod of the run is left" nothing_left
}
part_refusals() {
	IMAGE=none:none write_cloud bad.cfg 0.02
	sed -i 's/none:none";/none:none"; template = "never.json";/' bad.cfg
	echo '{"spec": {"containers": [{"imagePullPolicy": "Never"}]}}' >never.json
	run timeout 60 "$ESPALIER" run bad.cfg --dir bad.run
	check "an image that is not there" eval 'exits 4 && complains ErrImageNeverPull'
	kubectl create quota pods --hard=pods=0 >/dev/null
	sleep 2
	write_cloud quota.cfg 0.02
	"$ESPALIER" run quota.cfg --dir quota.run >quota.out 2>quota.err &
	driver=$!
	check "a quota is quoted" until_said quota "exceeded quota" 300
	kubectl delete quota pods >/dev/null
	kill -TERM $driver
	finish quota
	write_cloud full.cfg 0.02 'wait = "2s";'
	sed -i 's/gpus = 2; gpu_type/gpus = 9; gpu_type/' full.cfg
	"$ESPALIER" run full.cfg --dir full.run >full.out 2>full.err &
	driver=$!
	check "the words of the scheduler" until_said full "Insufficient nvidia.com/gpu" 300
	kill -TERM $driver
	finish full
	check "no pod is left by them" nothing_left
}
part_rights() {
	[ -n "${TOOL-}" ] || { skip "the published Role" "no TOOL"; return; }
	kubectl create namespace ours >/dev/null
	kubectl -n ours apply -f "$top/examples/clouds/kubernetes/role.yaml" >/dev/null
	sleep 2
	"$TOOL" sa-kubeconfig ours espalier "$CLUSTER" >account
	write_cloud rights.cfg 0.02 'namespace = "ours";'
	KUBECONFIG=$work/account run timeout 120 "$ESPALIER" run rights.cfg --dir rights.run
	check "a search with exactly the rights of the published Role" same rights.run
	for right in create get list watch delete exec; do
		kubectl -n ours get role espalier -o json | jq --arg r "$right" 'if $r == "exec" then .rules |= map(select(.resources != ["pods/exec"]))
			else .rules |= map(if .resources == ["pods"] then .verbs -= [$r] else . end) end' | kubectl -n ours replace -f - >/dev/null
		sleep 1
		KUBECONFIG=$work/account espalier check rights.cfg
		[ $right = exec ] && text='create pods/exec' || text="$right pods"
		[ $right = list ] && text='cannot list resource "pods"'
		check "without the right to $right the message names it" eval '! exits 0 && complains "$text"'
		kubectl -n ours apply --force -f "$top/examples/clouds/kubernetes/role.yaml" >/dev/null 2>&1
	done
	kubectl delete namespace ours --wait=false >/dev/null
}
part_server() {
	[ -n "${CLUSTER-}" ] || { skip "the API server dies" "no CLUSTER"; return; }
	begin server "${SERVER_STEP:-3}"
	pid=$(cat "$CLUSTER/run/apiserver.pid")
	mapfile -d '' -t command <"/proc/$pid/cmdline"
	kill -KILL "$pid"
	sleep "${SERVER_AWAY:-60}"
	setsid "${command[@]}" </dev/null >>"$CLUSTER/log/apiserver.log" 2>&1 &
	echo $! >"$CLUSTER/run/apiserver.pid"
	finish server
	check "the API server is killed for ${SERVER_AWAY:-60} s" eval 'same server.run && complains "the API server answers again after "'
	check "no pod is left after that" nothing_left
	echo "# lost time: $(echo "$out" | grep -a "slots  ")"
}
part_node() {
	[ -n "${TOOL-}" ] || { skip "a node dies" "no TOOL"; return; }
	begin node 1
	node=$(kubectl get pods -l app=espalier -o jsonpath='{.items[0].spec.nodeName}')
	"$TOOL" kill-node "$node" "$CLUSTER"
	finish node
	check "a node dies for good: its trials move" same node.run
	"$TOOL" start-node "$node" "$CLUSTER"
	check "no pod is left when it is back" nothing_left
}
for part in ${*:-search gang kill away evict preempt refusals rights server node}; do
	begun=$SECONDS
	part_$part
	echo "# $part: $((SECONDS - begun)) s"
done
done_testing
