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
# Each list is 12 MB, and the server serves four requests at a time.
part_busy() {
	local i before lists
	head -c 500000 /dev/zero | tr '\0' x >big
	for i in $(seq 24); do kubectl create configmap "big$i" --from-file=big >/dev/null; done
	loopback kill-server
	MAX_INFLIGHT=4 APF=false loopback start-server
	before=$(audited '.responseStatus.code == 429')
	lists=
	for i in $(seq 24); do
		while [ ! -e calm ]; do kubectl get --raw /api/v1/configmaps >/dev/null 2>&1; done &
		lists="$lists $!"
	done
	write_cloud busy.cfg
	rm -f flag/hold
	run timeout 400 "$ESPALIER" run busy.cfg --dir busy.run
	: >calm
	wait $lists
	check "the server answers 429 most of the time: the search is done" same busy.run
	echo "# 429 to requests about pods: $(($(audited '.responseStatus.code == 429') - before))"
	check "requests about pods were among those" [ "$(audited '.responseStatus.code == 429')" -gt "$before" ]
	for i in $(seq 24); do kubectl delete configmap "big$i" >/dev/null; done
	restart_server
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
