#!/bin/sh
# Runs a Criterion program: TAP on standard output.  Criterion passes a test whose worker leaks or
# meets undefined behaviour, since its result was sent before; so what a sanitizer wrote counts too.
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
echo 'leak:libcriterion' >"$t/suppressions"	# its own worker's pipe, now and then
ASAN_OPTIONS="log_path=$t/san:${ASAN_OPTIONS-}" \
UBSAN_OPTIONS="log_path=$t/san:halt_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS-}" \
LSAN_OPTIONS="suppressions=$t/suppressions:print_suppressions=0:${LSAN_OPTIONS-}" \
	"$@" --tap=-
rc=$?
set -- "$t"/san.*
# A thread that was just ending when leaks were looked for is said, and is none.
if [ -e "$1" ] && cat "$@" | grep -v 'Unable to get registers from thread' | grep -q .; then
	cat "$@" >&2
	echo "Bail out! sanitizer report"
	rc=1
fi
exit $rc
