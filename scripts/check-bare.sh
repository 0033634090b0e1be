#!/usr/bin/env bash
# Runs the README's two commands, and its own search, on clean Debian systems: root file systems made by debootstrap, with nothing
# installed that the commands do not install themselves.  Needs root, debootstrap, 4 GB of disk each, the network.
#
#   scripts/check-bare.sh [SUITE]...     suites of Debian; default: bookworm trixie
#   DEBIAN_MIRROR=URL                    a mirror other than debootstrap's own
#   KEEP=1                               keeps the root file systems, and says where
#
# It tests what is committed.  Each suite ends with a line of its own; the last line counts all tests.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
[ $# -gt 0 ] || set -- bookworm trixie

# shellcheck source=scripts/roots.sh
. "$top/scripts/roots.sh"
needs_tools debootstrap git unshare
work=$(mktemp -d "${TMPDIR:-/var/tmp}/espalier-bare-XXXXXX") || exit 1
finish() { [ -n "${KEEP-}" ] && echo "kept: $work" >&2 || rm -rf --one-file-system "$work"; }
trap finish EXIT

# What the README says to paste into a shell.
own_search='cd /srv/espalier && awk "/^\`\`\`/ { on = /sh\$/; next } on" README.md >/tmp/own.sh && bash -e /tmp/own.sh && rm -r first'

passed=0 failed=0 skipped=0
check_suite() {
	local suite=$1 root=$work/$1 line rc=0
	echo "== Debian $suite"
	if ! make_root "$suite" "$root" >"$work/$suite.log" 2>&1; then
		tail -n 5 "$work/$suite.log" >&2
		return 1
	fi
	git -c advice.detachedHead=false clone -q --no-hardlinks "file://$top" "$root/srv/espalier" || return 1
	inside "$root" sh -c 'cd /srv/espalier && scripts/try.sh' 2>&1 | tee "$work/$suite-try.log" | tail -n 12
	if [ "${PIPESTATUS[0]}" -ne 0 ] || ! grep -q 'best *trial' "$work/$suite-try.log"; then
		echo "error: Debian $suite: scripts/try.sh failed" >&2
		rc=1
	fi
	if ! inside "$root" bash -c "$own_search" >"$work/$suite-own.log" 2>&1; then
		tail -n 5 "$work/$suite-own.log" >&2
		echo "error: Debian $suite: the README's own search failed" >&2
		rc=1
	fi
	inside "$root" sh -c 'cd /srv/espalier && scripts/check.sh' >"$work/$suite-check.log" 2>&1 || rc=1
	line=$(tail -n 1 "$work/$suite-check.log")
	grep -aE '^(FAIL|ERROR)' "$work/$suite-check.log" | head -n 40
	if ! [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		tail -n 20 "$work/$suite-check.log" >&2
		echo "error: Debian $suite: scripts/check.sh did not count its tests" >&2
		return 1
	fi
	passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
	echo "Debian $suite: $line"
	return $rc
}

status=0
for suite; do
	check_suite "$suite" || status=1
	[ -n "${KEEP-}" ] || rm -rf --one-file-system "$work/$suite"
done
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed, $skipped skipped"
exit $status
