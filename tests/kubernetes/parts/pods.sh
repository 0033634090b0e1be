# Pods that end before they should, or do not come to be.

part_evict() {
	local pod
	step=0.5 begin evict 'grace = "6s";'
	pod=$(first_pod | cut -d ' ' -f 1)
	printf '{"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "%s", "namespace": "default"}}' "$pod" |
		kubectl create --raw "/api/v1/namespaces/default/pods/$pod/eviction" -f - >/dev/null
	until_said evict "Kubernetes takes its pod away" 60
	finish evict
	check "a pod is evicted: its trials save, and continue in others" eval 'same evict.run &&
		printf "%s\n" "$out" | grep -q "starts on 1 slot at iteration [4-8] of 9" && complains "Kubernetes takes its pod away"'
	begin hand 'grace = "1s";'
	pod=$(first_pod | cut -d ' ' -f 1)
	kubectl delete pod "$pod" >/dev/null
	finish hand
	check "a pod is deleted by hand: it is replaced" eval 'same hand.run && [ "$(audited ".verb == \"create\" and
		.objectRef.subresource == null and .user.username == \"admin\" and .responseStatus.code == 201 and (.objectRef.name // \"\" |
		startswith(\"${pod%-*}-\"))")" -ge 4 ]'
	begin force
	pod=$(first_pod | cut -d ' ' -f 1)
	kubectl delete pod "$pod" --grace-period=0 --force >/dev/null 2>&1
	finish force
	check "a pod is deleted without grace: its trials continue from their checkpoints" same force.run
	check "no pod is left by them" nothing_left
}
part_preempt() {
	local i
	kubectl apply -f - >/dev/null <<-'END'
		{ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "hi" }, "value": 1000 }
	END
	begin preempt 'grace = "4s"; wait = "5m";'
	for i in 1 2 3; do
		printf '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hi%s"}, "spec": {"priorityClassName": "hi", "containers": [{"name": "c",
		  "image": "busybox:local", "command": ["sleep", "4"], "resources": {"limits": {"nvidia.com/gpu": 2}}}], "restartPolicy": "Never"}}' $i |
			kubectl create -f - >/dev/null
	done
	until_said preempt "Kubernetes takes its pod away" 60
	rm -f flag/hold
	finish preempt
	check "all pods are preempted by a higher class, and the search ends when there is room again" eval 'same preempt.run &&
		complains "Kubernetes takes its pod away" && complains "Insufficient nvidia.com/gpu"'
	kubectl delete pod hi1 hi2 hi3 --grace-period=1 >/dev/null
	check "no pod of the run is left" nothing_left
}
part_refusals() {
	image=none:none write_cloud bad.cfg
	jq '.spec.containers[0].imagePullPolicy = "Never"' pod.json >never.json
	sed -i 's/pod.json/never.json/' bad.cfg
	run timeout 120 "$ESPALIER" run bad.cfg --dir bad.run
	check "an image that is not there, and may not be pulled" eval 'exits 4 && complains "ErrImageNeverPull: Container image \"none:none\" is not present"'
	image=127.0.0.1:1/none:none write_cloud pull.cfg
	run timeout 300 "$ESPALIER" run pull.cfg --dir pull.run --set cloud.give_up=1
	check "a registry that does not answer is quoted" eval 'exits 4 && complains "ErrImagePull" && complains "connection refused"'
	write_cloud full.cfg 'wait = "2s";'
	sed -i 's/gpus = 2; gpu_type/gpus = 9; gpu_type/' full.cfg
	start_driver full run full.cfg --dir full.run
	check "the words of the scheduler" until_said full "0/3 nodes are available: 3 Insufficient nvidia.com/gpu" 60
	kill -TERM $driver
	finish full
	kubectl create -f - >/dev/null <<-'END'
		{ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "small" }, "spec": { "limits": [ { "type": "Container", "max": { "cpu": "10m" } } ] } }
	END
	write_cloud range.cfg
	run timeout 120 "$ESPALIER" run range.cfg --dir range.run
	check "what an admission controller refuses is quoted" eval 'exits 4 && complains "maximum cpu usage per Container is 10m"'
	kubectl delete limitrange small >/dev/null
	check "no pod is left by them" nothing_left
}
part_quota() {
	kubectl create quota pods --hard=pods=0 >/dev/null
	until_done 20 eval '[ -n "$(kubectl get quota pods -o jsonpath={.status.hard.pods})" ]'
	write_cloud quota.cfg
	start_driver quota run quota.cfg --dir quota.run
	check "an exceeded quota is quoted" until_said quota "exceeded quota: pods" 120
	kubectl delete quota pods >/dev/null
	finish quota
	check "it is raised: the search is done" same quota.run
	kubectl create quota pods --hard=pods=1 >/dev/null
	until_done 20 eval '[ -n "$(kubectl get quota pods -o jsonpath={.status.hard.pods})" ]'
	write_cloud one.cfg
	rm -f flag/hold
	run timeout 280 "$ESPALIER" run one.cfg --dir one.run
	check "a quota of one pod: the search is done on that" same one.run
	kubectl delete quota pods >/dev/null
	check "no pod is left by them" nothing_left
}
part_namespace() {
	kubectl create namespace theirs >/dev/null
	begin namespace 'namespace = "theirs"; grace = "1s";'
	kubectl delete namespace theirs --wait=false >/dev/null
	until_done 200 has_ended
	finish namespace
	check "the namespace is deleted: the run ends, and says so" eval 'exits 4 && { complains "namespaces \"theirs\" not found" ||
		complains "namespace theirs because it is being terminated"; }'
	until_done 60 eval '! kubectl get namespace theirs >/dev/null 2>&1'
	kubectl create namespace theirs >/dev/null
	until_done 20 eval 'kubectl -n theirs get serviceaccount default >/dev/null 2>&1'
	run timeout 200 "$ESPALIER" resume namespace.run
	check "it is there again: the run is resumed" same namespace.run
	check "no pod is left" nothing_left
	kubectl delete namespace theirs --wait=false >/dev/null
}
part_expiry() {
	begin notice 'time = "40s"; notice = "25s"; grace = "2s";'
	until_said notice "the time limit of its pod is near" 60
	finish notice
	check "the time limit comes near: trials save, and move to new pods" eval 'same notice.run && complains "the time limit of its pod is near"'
	begin limit 'time = "20s"; notice = "0s"; grace = "2s";'
	until_said limit "the time limit of its pod is reached" 120
	finish limit
	check "the time limit is reached: trials continue from their checkpoints" eval 'same limit.run && complains "the time limit of its pod is reached"'
	check "no pod is left by them" nothing_left
}
