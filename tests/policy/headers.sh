#!/bin/sh
# TAP: every header that plugins may include compiles by itself and with all others, in C11 and in C++20, without a
# warning; is installed; and is told of in docs/plugin-authors.md.
# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 99
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
CC=${CC:-cc} CXX=${CXX:-c++}
headers=$(find sdk/include/espalier sdk/kit/include/espalier -name '*.h' | LC_ALL=C sort)
# Not quoted: a compiler may carry arguments.
# shellcheck disable=SC2086
compile() {	# file, compiler and its arguments
	source=$1
	shift
	for h in $headers sdk/testkit/testkit.h sdk/c/espalier_trial.h; do
		printf '#include "%s"\n#include "%s"\n' "$top/$h" "$top/$h" >"$t/$source"
		"$@" -Wall -Wextra -Werror -D_GNU_SOURCE -Isdk/include -Isdk/kit/include -fsyntax-only "$t/$source" 2>&1
	done
	for h in $headers sdk/testkit/testkit.h; do
		printf '#include "%s"\n' "$top/$h"
	done >"$t/$source"
	"$@" -Wall -Wextra -Werror -D_GNU_SOURCE -Isdk/include -Isdk/kit/include -fsyntax-only "$t/$source" 2>&1
}

echo 1..4
# shellcheck disable=SC2086
report 'C11 takes each header alone, twice, and all together' "$(compile try.c $CC -std=c11 -pedantic)"
# Designated initialisers, in the macros of abi.h, came to C++ in 2020.
echo 'struct s { int a, b; } s = { .b = 1 };' >"$t/try.cc"
# shellcheck disable=SC2086
if $CXX -std=c++20 -fsyntax-only "$t/try.cc" >/dev/null 2>&1; then
	report 'C++20 too' "$(compile try.cc $CXX -std=c++20)"
else
	number=$((number + 1))
	echo "ok $number - C++20 too # SKIP no C++20 compiler"
fi
report 'each is installed' "$(
	for h in $headers; do
		grep -qw "$h" sdk/sdk.am || echo "$h is not in sdk/sdk.am"
	done)"
report 'each is told of to authors of plugins' "$(
	for h in $headers; do
		name=${h#*include/}
		grep -q "$name" docs/plugin-authors.md || echo "docs/plugin-authors.md says nothing of $name"
	done)"
exit $failed
