# The API server: it dies, is busy, or forgets.

part_server() {
	local before
	begin server
	before=$(pods -o jsonpath='{.items[*].metadata.uid}')
	loopback kill-server
	until_said server "the API server does not answer" 120
	sleep "${SERVER_AWAY:-60}"
	loopback start-server
	check "the API server is killed for ${SERVER_AWAY:-60} s: it is waited for" until_said server "the API server answers again after" 120
	until_said server "is reachable again" 60
	check "the pods are the same" [ "$before" = "$(pods -o jsonpath='{.items[*].metadata.uid}')" ]
	finish server
	check "no trial has noticed" eval 'same server.run && started_once'
	check "no pod is left" nothing_left
}
# Each list is 12 MB, and the server serves four requests of a kind at a time. It refuses none to the group system:masters, that
# of the administrator here: the driver and those who list have accounts.
part_busy() {
	local i fair before lists
	begin_rights busy
	kubectl create serviceaccount lister >/dev/null
	kubectl create clusterrole lister --verb=list --resource=configmaps >/dev/null
	kubectl create clusterrolebinding lister --clusterrole=lister --serviceaccount=default:lister >/dev/null
	loopback account default lister >lister
	head -c 500000 /dev/zero | tr '\0' x >big
	for i in $(seq 24); do kubectl create configmap "big$i" --from-file=big >/dev/null; done
	refused() { audited '.responseStatus.code == 429 and .user.username == "system:serviceaccount:busy:espalier"'; }
	for fair in false true; do
		KUBECONFIG=$KUBE_DIR/account begin "busy-$fair" 'namespace = "busy";'
		kill_driver
		loopback kill-server
		MAX_INFLIGHT=4 APF=$fair loopback start-server
		before=$(refused)
		rm -f calm
		lists=
		for i in $(seq 12); do
			while [ ! -e calm ]; do KUBECONFIG=$KUBE_DIR/lister kubectl get --raw /api/v1/configmaps >/dev/null 2>&1; done &
			lists="$lists $!"
		done
		sleep 3
		KUBECONFIG=$KUBE_DIR/account start_driver "busy-$fair" resume "busy-$fair.run"
		sleep 40
		rm -f flag/hold
		sleep 20
		: >calm
		wait $lists
		finish "busy-$fair"
		echo "# APF=$fair: 429 to the driver: $(($(refused) - before)); $(grep -c "limits the rate" "busy-$fair.err") messages"
		check "a server that has too much to do (APF=$fair): the search is resumed and done" same "busy-$fair.run"
		if [ $fair = false ]; then	# a node that cannot be reached for 20 s loses its trials
			check "it answered 429, and the message says so" eval '[ "$(refused)" -gt "$before" ] &&
				complains "the API server limits the rate of requests: Too many requests"'
		else
			check "it is fair to the driver: no trial has noticed" eval 'started_once &&
				complains "6 of 6 running trials kept running"'
		fi
		restart_server
	done
	for i in $(seq 24); do kubectl delete configmap "big$i" >/dev/null; done
	kubectl delete namespace busy --wait=false >/dev/null
	check "no pod is left" nothing_left
}
part_old() {
	local before
	loopback kill-server
	COMPACT=5s loopback start-server
	begin old
	before=$(audited '.verb == "list" and .objectRef.resource == "pods" and .user.username == "admin" and (.requestURI | test("espalier%2Frun"))')
	kubectl create configmap change --from-literal=a=b >/dev/null
	loopback kill-server
	until_said old "the API server does not answer" 120
	COMPACT=5s loopback start-server
	until_said old "the API server answers again" 120
	finish old
	check "the watch began before what the server still knows (410): the pods are listed again" eval 'same old.run && [ "$(audited ".verb ==
		\"list\" and .objectRef.resource == \"pods\" and .user.username == \"admin\" and (.requestURI | test(\"espalier%2Frun\"))")" -gt "$before" ]'
	check "no trial has noticed" started_once
	kubectl delete configmap change >/dev/null
	restart_server
	check "no pod is left" nothing_left
}
