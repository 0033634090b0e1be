# Nodes: their kubelet dies and comes back, they die for good, their streams are cut.

part_kubelet() {
	local node before
	begin kubelet
	before=$(pods -o jsonpath='{.items[*].metadata.uid}')
	node=$(first_pod | cut -d ' ' -f 2)
	loopback kill-kubelet "$node"
	until_done 60 eval '[ "$(kubectl get node "$node" -o json | jq -r ".status.conditions[] | select(.type == \"Ready\").status")" = Unknown ]'
	until_said kubelet "is unreachable" 60
	loopback start-kubelet "$node"
	check "kubelet is killed and comes back: its node is reachable again" until_said kubelet "is reachable again" 120
	check "its pod is the same" [ "$before" = "$(pods -o jsonpath='{.items[*].metadata.uid}')" ]
	finish kubelet
	check "no trial has noticed" eval 'same kubelet.run && started_once'
	check "no pod is left" nothing_left
}
part_node() {
	local node
	begin node 'grace = "2s";'
	node=$(first_pod | cut -d ' ' -f 2)
	loopback kill-node "$node"
	until_said node "Kubernetes takes its pod away\|its pod was deleted" 120
	finish node
	check "a node dies for good: its trials continue on others" same node.run
	check "no pod is left, although the node is not there" nothing_left
	loopback start-node "$node"
}
part_idle() {
	local node
	for node in n1 n2 n3; do
		loopback kill-node $node
		STREAM_IDLE=10s loopback start-node $node
	done
	kubectl run quiet --image=busybox:local --restart=Never -- sleep 1000 >/dev/null
	kubectl wait --for=condition=Ready pod/quiet --timeout=60s >/dev/null
	mkfifo silence
	begun_at=$SECONDS
	timeout 60 kubectl exec -i quiet -- cat <silence >/dev/null 2>&1 &
	exec 8>silence
	wait $!
	[ $((SECONDS - begun_at)) -lt 40 ]
	check "a stream that is idle for 10 s is cut here" [ $? = 0 ]
	exec 8>&-
	begin idle
	sleep 25	# all trials wait: nothing but heartbeats is sent
	finish idle
	check "those of a search are not: nothing is unreachable" eval 'same idle.run && ! complains "is unreachable" && started_once'
	check "no pod is left" nothing_left
	kubectl delete pod quiet --grace-period=1 >/dev/null
	for node in n1 n2 n3; do
		loopback kill-node $node
		loopback start-node $node
	done
}
