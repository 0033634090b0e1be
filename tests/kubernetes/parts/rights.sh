# What the driver may do: exactly the published Role, rights that are missing, and credentials that end.

role=$top/deploy/kubernetes/role.yaml
begin_rights() {	# NAMESPACE: with the Role; the kubeconfig of its account is the file `account`
	kubectl create namespace "$1" >/dev/null
	kubectl -n "$1" apply -f "$role" >/dev/null
	loopback account "$1" espalier >account
}
change_role() {	# JQ: the Role without something
	kubectl -n ours get role espalier -o json | jq "$1" | kubectl -n ours replace -f - >/dev/null
}
as_account() { KUBECONFIG=$KUBE_DIR/account "$@"; }
part_rights() {
	local right text
	begin_rights ours
	write_cloud rights.cfg 'namespace = "ours";'
	as_account run timeout 200 "$ESPALIER" run rights.cfg --dir rights.run
	check "a search with exactly the rights of the published Role" same rights.run
	for right in create get list watch delete exec; do
		text="$right pods"
		case $right in
		exec)
			text='create pods/exec'
			change_role '.rules |= map(select(.resources != ["pods/exec"]))' ;;
		*) change_role ".rules |= map(if .resources == [\"pods\"] then .verbs -= [\"$right\"] else . end)" ;;
		esac
		is_named() { as_account espalier check rights.cfg; ! exits 0 && { complains "$text" || { [ $right = list ] && complains 'cannot list resource "pods"'; }; }; }
		check "without the right to $right the message names it" until_done 10 is_named
		kubectl -n ours replace --force -f "$role" >/dev/null 2>&1
		loopback account ours espalier >account
	done
	kubectl delete namespace ours --wait=false >/dev/null
}
part_revoked() {
	begin_rights revoked
	KUBECONFIG=$KUBE_DIR/account begin gone 'namespace = "revoked";'
	kubectl -n revoked delete rolebinding espalier >/dev/null
	restart_server	# ends the watch and the streams, whose rights were looked at when they began
	check "rights are revoked during a run: the message names one" until_said gone "a right is missing: .*cannot .*pods" 120
	kubectl -n revoked apply -f "$role" >/dev/null
	finish gone
	check "they are given again: the run ends as it should" eval 'same gone.run && started_once'
	check "no pod is left" nothing_left
	kubectl delete namespace revoked --wait=false >/dev/null
}
part_token() {
	begin_rights login
	KUBECONFIG=$KUBE_DIR/account begin token 'namespace = "login";'
	kubectl -n login delete "$(kubectl -n login get secret -o name | grep espalier-token)" >/dev/null
	restart_server
	check "the token is revoked: the message says so" until_said token "does not accept your credentials" 120
	loopback account login espalier >account.new
	mv account.new account
	until_said token "the API server answers again" 120
	finish token
	check "there is another: it is read, and the run ends as it should" eval 'same token.run && started_once'
	check "no pod is left" nothing_left
	kubectl delete namespace login --wait=false >/dev/null
}
