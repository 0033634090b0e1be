#!/bin/sh
# Cloud command: machines that are only directories, on this machine. A pattern for providers of your own.
#   local.sh acquire|release|list    JSON on standard input and output (docs/command.md)
#   local.sh reach ID COMMAND...     runs a command "on" a machine
# MACHINES names the directory that stands for the provider.
set -eu
machines=${MACHINES:-${XDG_RUNTIME_DIR:-/tmp}/espalier-machines-$(id -u)}
umask 077
mkdir -p "$machines"

# member NAME: a string of the object on standard input, which is one line
member() { printf '%s' "$input" | sed -n "s/.*\"$1\": *\"\([A-Za-z0-9._-]*\)\".*/\1/p"; }
# row TOKEN RUN [MORE]: MORE begins with a comma
row() { printf '{"id": "%s", "token": "%s", "run": "%s", "address": "localhost", "state": "ready"%s}' "$1" "$1" "$2" "${3-}"; }
# request: reads it. One that did not arrive whole must not make a machine that nobody can find, nor end one.
request() {
	input=$(cat)
	token=$(member token)
	if [ -z "$token" ]; then
		echo "local.sh: the request names no token" >&2
		exit 2
	fi
}

case $1 in
acquire)	# the directory is named after the token: asked again, it is the same machine
	request
	mkdir -p "$machines/$token"
	printf ', "offer": "%s", "market": "%s"' "$(member offer)" "$(member market)" >"$machines/$token/offer"
	member run >"$machines/$token/run.new"
	mv "$machines/$token/run.new" "$machines/$token/run"
	row "$token" "$(member run)" ;;
release)	# whatever runs on the machine ends with it
	request
	for file in $(grep -lzsx "ESPALIER_MACHINE=$token" /proc/[0-9]*/environ); do
		process=${file#/proc/}
		kill -KILL "${process%/environ}" 2>/dev/null || :
	done
	rm -rf "$machines/${token:?}"
	echo '{}' ;;
list)
	printf '{"machines": ['
	comma=
	for machine in "$machines"/*/run; do
		[ -f "$machine" ] || continue
		token=${machine%/run}
		printf '%s' "$comma"
		age=$(($(date +%s) - $(stat -c %Y "$machine")))
		row "${token##*/}" "$(cat "$machine")" "$(cat "$token/offer"), \"age_s\": $age"
		comma=', '
	done
	echo ']}' ;;
reach)
	[ -d "$machines/$2" ] || { echo "there is no machine $2" >&2; exit 1; }
	export ESPALIER_MACHINE="$2"
	shift 2
	exec "$@" ;;
*)
	echo "usage: local.sh acquire|release|list|reach ID COMMAND..." >&2
	exit 2 ;;
esac
