#!/bin/sh
# Cloud command: virtual machines of Google Cloud, by the program gcloud, which must be logged in.
#   gcloud.sh acquire|release|list    JSON on standard input and output (docs/command.md)
# The name of an offer is a machine type. A machine is named after its token, so that there is never a second one.
# Set in the environment of espalier:
#   GCLOUD_ZONE     for example us-central1-a; required
#   GCLOUD_CREATE   more arguments of `gcloud compute instances create`: image, network, disk, startup script
set -eu
: "${GCLOUD_ZONE:?set GCLOUD_ZONE to a zone, for example us-central1-a}"

# member NAME: a string of the object on standard input, which is one line
member() { printf '%s' "$input" | sed -n "s/.*\"$1\": *\"\([A-Za-z0-9._-]*\)\".*/\1/p"; }
# A machine that runs is ready once it accepts ssh. The name of its host key is its own: addresses are used again.
answers() {
	ssh -oBatchMode=yes -oConnectTimeout=3 -oStrictHostKeyChecking=accept-new -oHostKeyAlias="$1" "$2" true </dev/null >/dev/null 2>&1
}
# refuse KIND TEXT
refuse() {
	printf '{"error": "%s", "kind": "%s"}\n' "$(printf '%s' "$2" | tr -d '\\"' | tr '\n\t' '  ' | cut -c 1-300)" "$1"
	exit 0
}

input=$(cat)
token=$(member token) run=$(member run)
# A request that did not arrive whole must not make a machine that nobody can find, nor end one.
case $1,$token in
acquire, | release,)
	echo "gcloud.sh: the request names no token" >&2
	exit 2 ;;
esac
case $1 in
acquire)
	set -- "$token" --zone="$GCLOUD_ZONE" --machine-type="$(member offer)" --quiet \
		--labels="espalier-run=$run,espalier-token=$token" --format='value(networkInterfaces[0].networkIP)'
	if [ "$(member market)" = spot ]; then
		set -- "$@" --provisioning-model=SPOT --instance-termination-action=DELETE
	fi
	# GCLOUD_CREATE is split into words.
	# shellcheck disable=SC2086
	if ! said=$(gcloud compute instances create "$@" ${GCLOUD_CREATE-} 2>&1); then
		case $said in
		*"already exists"*) printf '{"id": "%s", "state": "booting"}\n' "$token"; exit ;;
		*ZONE_RESOURCE_POOL_EXHAUSTED* | *"does not have enough resources"*) refuse capacity "$said" ;;
		*[Qq]uota*) refuse quota "$said" ;;
		*"Required '"*"' permission"* | *"was not found"* | *"Invalid value for field"*) refuse permanent "$said" ;;
		esac
		printf '%s\n' "$said" >&2
		exit 1
	fi
	printf '{"id": "%s", "address": "%s", "state": "booting"}\n' "$token" "$(printf '%s\n' "$said" | tail -n 1)" ;;
release)
	said=$(gcloud compute instances delete "$token" --zone="$GCLOUD_ZONE" --quiet 2>&1) || case $said in
	*"was not found"*) ;;
	*) printf '%s\n' "$said" >&2; exit 1 ;;
	esac
	echo '{}' ;;
list)
	filter='labels.espalier-token:*'
	[ -z "$run" ] || filter="labels.espalier-run=$run"
	rows=$(gcloud compute instances list --zones="$GCLOUD_ZONE" --filter="$filter" \
		--format='csv[no-heading](name,labels.espalier-run,status,networkInterfaces[0].networkIP)')
	printf '{"machines": ['
	comma=
	printf '%s\n' "$rows" | while IFS=, read -r name its status address; do
		[ -n "$name" ] || continue
		state='"booting"'
		case $status in
		RUNNING) if answers "$name" "$address"; then state='"ready"'; fi ;;
		STOPPING) state='"notice", "ends_in_s": 30' ;;
		STOPPED | TERMINATED | SUSPENDED) state='"ended", "reason": "interrupted"' ;;
		esac
		printf '%s{"id": "%s", "token": "%s", "run": "%s", "address": "%s", "state": %s}' "$comma" "$name" "$name" \
			"$its" "$address" "$state"
		comma=', '
	done
	echo ']}' ;;
*)
	echo "usage: gcloud.sh acquire|release|list" >&2
	exit 2 ;;
esac
