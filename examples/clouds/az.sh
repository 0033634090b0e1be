#!/bin/sh
# Cloud command: virtual machines of Azure, by the program az, which must be logged in.
#   az.sh acquire|release|list    JSON on standard input and output (docs/command.md)
# The name of an offer is a size. A machine is named after its token, so that there is never a second one.
# Set in the environment of espalier:
#   AZ_GROUP    a resource group that is for espalier's machines alone; required
#   AZ_CREATE   more arguments of `az vm create`: --image is required; also the network, the disk, --custom-data
set -eu
: "${AZ_GROUP:?set AZ_GROUP to a resource group}" "${AZ_CREATE:?set AZ_CREATE, for example to \"--image Ubuntu2204\"}"

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
	echo "az.sh: the request names no token" >&2
	exit 2 ;;
esac
case $1 in
acquire)
	set -- --resource-group "$AZ_GROUP" --name "$token" --size "$(member offer)" --no-wait --only-show-errors \
		--nic-delete-option Delete --os-disk-delete-option Delete --tags "espalier-run=$run" "espalier-token=$token"
	if [ "$(member market)" = spot ]; then
		set -- "$@" --priority Spot --eviction-policy Delete
	fi
	# AZ_CREATE is split into words.
	# shellcheck disable=SC2086
	if ! said=$(az vm create "$@" $AZ_CREATE 2>&1); then
		case $said in
		*SkuNotAvailable* | *AllocationFailed* | *OverconstrainedAllocationRequest*) refuse capacity "$said" ;;
		*QuotaExceeded* | *"exceeding approved"*) refuse quota "$said" ;;
		*AuthorizationFailed* | *ResourceGroupNotFound* | *InvalidParameter*) refuse permanent "$said" ;;
		esac
		printf '%s\n' "$said" >&2
		exit 1
	fi
	printf '{"id": "%s", "state": "booting"}\n' "$token" ;;
release)
	said=$(az vm delete --resource-group "$AZ_GROUP" --name "$token" --yes --only-show-errors 2>&1) || case $said in
	*ResourceNotFound* | *"was not found"*) ;;
	*) printf '%s\n' "$said" >&2; exit 1 ;;
	esac
	echo '{}' ;;
list)
	rows=$(az vm list --resource-group "$AZ_GROUP" --show-details --only-show-errors --output tsv --query \
		"[?tags.\"espalier-token\"].[name, tags.\"espalier-run\", powerState, provisioningState, privateIps]")
	printf '{"machines": ['
	comma=
	printf '%s\n' "$rows" | while IFS="$(printf '\t')" read -r name its power made address; do
		{ [ -n "$name" ] && { [ -z "$run" ] || [ "$its" = "$run" ]; }; } || continue
		state='"booting"'
		case $power,$made in
		*,Failed) state='"ended", "reason": "fault"' ;;
		"VM running",*) if answers "$name" "$address"; then state='"ready"'; fi ;;
		"VM stopping",* | *,Deleting) state='"notice", "ends_in_s": 30' ;;
		"VM deallocated",* | "VM stopped",*) state='"ended", "reason": "interrupted"' ;;
		esac
		printf '%s{"id": "%s", "token": "%s", "run": "%s", "address": "%s", "state": %s}' "$comma" "$name" "$name" \
			"$its" "$address" "$state"
		comma=', '
	done
	echo ']}' ;;
*)
	echo "usage: az.sh acquire|release|list" >&2
	exit 2 ;;
esac
