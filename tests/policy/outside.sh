#!/bin/sh
# TAP: plugins build outside the tree with the installed headers, kit and pkg-config alone, export
# nothing but their descriptor, and pass the installed `espalier check-plugin`; and their tests pass.  Run by
# make installcheck, which sets DESTDIR, bindir, libdir, pkgconfigdir, CC, CFLAGS and PKG_CONFIG.
# Argument: the folder of the templates.
from=${1:?usage: outside.sh FOLDER}
: "${bindir:?}" "${pkgconfigdir:?}"
DESTDIR=${DESTDIR-} CC=${CC:-cc} CXX=${CXX:-c++} NM=${NM:-nm} PKG_CONFIG=${PKG_CONFIG:-pkg-config}
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
PKG_CONFIG_PATH=$DESTDIR$pkgconfigdir${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
if [ -n "$DESTDIR" ]; then
	PKG_CONFIG_SYSROOT_DIR=$DESTDIR
	export PKG_CONFIG_SYSROOT_DIR
fi
failed=0
kits=0
number=0
report() {	# status, name, file of the output
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number - $2"
	else
		echo "not ok $number - $2"
		sed 's/^/# /' "$3"
		failed=1
	fi
}
set --
for f in "$from"/*_*.c; do
	case $(basename "$f") in
	algorithm_* | allocator_* | cloud_* | placer_* | trainable_* | sampler_*) [ -f "$f" ] && set -- "$@" "$f" ;;
	esac
done
echo "1..$((5 + 3 * $#))"
flags=$("$PKG_CONFIG" --cflags espalier 2>"$t/out") &&
	kit_flags=$("$PKG_CONFIG" --cflags espalier-kit 2>"$t/out") &&
	kit_libs=$("$PKG_CONFIG" --libs espalier-kit 2>"$t/out")
report $? 'pkg-config knows espalier and its kit' "$t/out"
for f; do
	name=$(basename "$f" .c)
	# Not quoted: a compiler may carry arguments, flags are several words.
	# shellcheck disable=SC2086
	if grep -q '<espalier/kit/' "$f"; then
		$CC ${CFLAGS-} -Wall -Wextra -Werror -shared -fPIC $kit_flags \
			-o "$t/$name.so" "$f" $kit_libs >"$t/out" 2>&1
		report $? "$name builds with the kit" "$t/out"
		kits=$((kits + 1))
	else
		$CC ${CFLAGS-} -Wall -Wextra -Werror -shared -fPIC $flags -o "$t/$name.so" "$f" >"$t/out" 2>&1
		report $? "$name builds alone" "$t/out"
	fi
	"$NM" -D --defined-only "$t/$name.so" 2>&1 | awk '$3 !~ /^__/ { print $3 }' >"$t/out"
	[ "$(cat "$t/out")" = "${name}_LTX_espalier_plugin" ]
	report $? "$name exports its descriptor alone" "$t/out"
	"$DESTDIR$bindir/espalier" check-plugin "$t/$name.so" >"$t/out" 2>&1
	report $? "$name passes check-plugin" "$t/out"
done
# In C++20, also without -fvisibility: then the templates of its library are exported.
name=algorithm_cxx
# shellcheck disable=SC2086
if ! echo 'struct s { int a, b; } s = { .b = 1 };' >"$t/try.cc" || ! $CXX -std=c++20 -fsyntax-only "$t/try.cc" >/dev/null 2>&1; then
	number=$((number + 2))
	echo "ok $((number - 1)) - $name builds # SKIP no C++20 compiler"
	echo "ok $number - $name passes check-plugin # SKIP no C++20 compiler"
else
	$CXX -std=c++20 -Wall -Wextra -Wno-missing-field-initializers -Werror -O0 -shared -fPIC $flags -o "$t/$name.so" "$from/$name.cc" >"$t/out" 2>&1
	report $? "$name builds" "$t/out"
	"$DESTDIR$bindir/espalier" check-plugin "$t/$name.so" >"$t/out" 2>&1
	report $? "$name passes check-plugin" "$t/out"
fi
# The test kit is a shared library that is not installed for good.
libraries=$DESTDIR${libdir:?}
# shellcheck disable=SC2046,SC2086
$CC ${CFLAGS-} -Wall -Wextra -Werror $("$PKG_CONFIG" --cflags espalier-testkit) -o "$t/test_mine" \
	"$from/test_mine.c" $("$PKG_CONFIG" --libs espalier-testkit) >"$t/out" 2>&1 &&
	PLUGINS=$t LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$t/test_mine" >"$t/out" 2>&1
report $? 'the tests of the templates pass with the test kit' "$t/out"
echo "$kits of $# templates" >"$t/out"
[ "$kits" -gt 0 ]
report $? 'a template uses the kit' "$t/out"
if [ $# -eq 0 ]; then
	echo "# no template in $from"
	failed=1
fi
exit $failed
