#!/bin/sh
# TAP: the types of the ABI are those of the kept headers (abi_types.txt): libabigail compares them all, also what
# functions take and return, which abi_golden.txt does not say.  New structs are no difference.
#
# After a field was appended, or with a new major: abidiff.sh --print >abi_types.txt
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 99
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
CC=${CC:-cc}

# The declarations of sdk/include, without comments and macros.
declarations() {
	# util.h holds inline helpers alone: they are compiled into plugins.
	(cd sdk/include && printf '#include <%s>\n' espalier/*.h | grep -v /util.h) >"$t/all.c"
	echo '/* The declarations of sdk/include/espalier as they were kept: tests/policy/abidiff.sh --print. */'
	echo '#include <stddef.h>'
	echo '#include <stdint.h>'
	# Not quoted: a compiler may carry arguments.
	# shellcheck disable=SC2086
	$CC -E -Isdk/include "$t/all.c" |
		awk '/^# [0-9]+ "/ { ours = $3 ~ /sdk\/include\/espalier/; next } ours && NF && !/^#/'
}
if [ "${1-}" = --print ]; then
	declarations
	exit
fi

# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
if ! command -v abidiff >/dev/null; then
	echo "1..0 # SKIP abidiff is not installed (Debian: abigail-tools)"
	exit 0
fi
# A library with a function for each struct, so that its debugging information has all types.
library() {	# HEADER LIBRARY
	{
		printf '#include "%s"\n' "$1"
		grep -oE '^struct espl_[a-z_0-9]+ *[{]' "$1" | awk '{ print $2 }' | sort -u | awk '{
			print "void abi_" $1 "(const struct " $1 " *);"
			print "void abi_" $1 "(const struct " $1 " *p) { (void)p; }"
		}'
	} >"$2.c"
	# shellcheck disable=SC2086
	$CC -g -shared -fPIC -o "$2" "$2.c"
}
echo 1..2
declarations >"$t/now.h"
report 'the headers can be compared' "$({ library "$top/tests/policy/abi_types.txt" "$t/base.so" && library "$t/now.h" "$t/now.so"; } 2>&1)"
if changes=$(abidiff --no-added-syms "$t/base.so" "$t/now.so" 2>&1); then changes=; fi
report 'what was in the ABI is still there, unchanged' "$changes"
exit $failed
