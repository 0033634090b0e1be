#!/bin/sh
# TAP: configure's three states of every optional part, names of plugins that do not exist, a 32-bit machine, a path with a blank.
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
cd "$t" || exit 99
failed=0
check() {	# number, name, wanted exit status (0 or 1), wanted text, arguments of configure
	number=$1 name=$2 status=$3 text=$4
	shift 4
	"$top/configure" --cache-file="$t/cache" --disable-tests "$@" >out 2>&1
	rc=$?
	[ "$rc" -eq 0 ] || rc=1
	if [ "$rc" -eq "$status" ] && grep -q -e "$text" out; then
		echo "ok $number - $name"
	else
		echo "not ok $number - $name"
		tail -n 5 out | sed 's/^/# /'
		failed=1
	fi
}
if [ ! -x "$top/configure" ]; then
	echo '1..0 # SKIP there is no configure here'
	exit 0
fi
if [ -f "$top/config.status" ]; then
	echo '1..0 # SKIP the source tree itself is configured, which forbids other build folders'
	exit 0
fi
echo 1..16
check 1 '--without-cuda is obeyed and said' 0 'CUDA  *no: not asked for' --without-cuda
check 2 '--with-cuda=PATH fails where there is none' 1 'with-cuda=/nonexistent: no complete CUDA' --with-cuda=/nonexistent
check 3 '--with-nccl needs CUDA' 1 'NCCL needs the CUDA toolkit' --without-cuda --with-nccl
check 4 'an unknown builtin plugin is an error' 1 "no plugin 'algorithm_nonesuch'" --without-cuda \
	--enable-builtin-plugins=algorithm/nonesuch
check 5 '--without-cbc is obeyed and said' 0 'CBC  *no: not asked for' --without-cuda --without-cbc
# As on a 32-bit machine: what the compiler says there, then, where it can build for one, a real one.
words='error: espalier needs a 64-bit machine'
check 6 'a compiler without 128-bit integers is refused' 1 "$words" --cache-file=/dev/null ac_cv_type___int128=no
name='a 32-bit build is refused'
if echo 'int main(void) { return 0; }' >m32.c && ${CC:-gcc} -m32 -o m32 m32.c 2>/dev/null; then
	check 7 "$name" 1 "$words" --cache-file=/dev/null CC="${CC:-gcc} -m32"
else
	echo "ok 7 - $name # SKIP the compiler cannot build for 32 bits (Debian: gcc-multilib)"
fi
# A tree in a folder whose path has a blank: each object is compiled with that path in its flags.
name='a source path with a blank builds'
mkdir 'my tree' 'my tree/build' && for f in "$top"/*; do
	case ${f##*/} in build*) [ "${f##*/}" = build-aux ] || continue ;; esac
	ln -s "$f" 'my tree/'
done
(cd 'my tree/build' && ../configure --cache-file="$t/cache" --disable-tests --without-cuda && make base/text.lo) >out 2>&1
if [ $? -eq 0 ] && [ -s 'my tree/build/base/text.lo' ]; then
	echo "ok 8 - $name"
else
	echo "not ok 8 - $name"
	tail -n 5 out | sed 's/^/# /'
	failed=1
fi
check 9 '--with-cbc takes no path' 1 'with-cbc=/nonexistent: give yes, no or auto' --without-cuda --with-cbc=/nonexistent
check 10 'what is not wanted is not built, and that is said' 0 'AWS  *not built: --without-expat' --without-cuda --enable-tests --without-openblas \
	--without-expat --without-microhttpd --without-criterion
said=$(grep -c 'not built: --without-' out)
[ "$said" = 4 ] || { echo "not ok 11 - ... of each part"; failed=1; }
[ "$said" != 4 ] || echo "ok 11 - ... of each part"
number=11
for lib in openblas expat microhttpd; do
	check $((number + 1)) "--with-$lib takes no path" 1 "with-$lib=/nonexistent: give yes, no or auto" --without-cuda "--with-$lib=/nonexistent"
done
number=14
for lib in microhttpd; do	# a whole configure each: one stands for all, by ESPL_OPTIONAL
	check $((number + 1)) "--with-$lib fails where it is missing" 1 "with-$lib: .* is missing (Debian: lib" --cache-file=/dev/null \
		--without-cuda "--with-$lib" PKG_CONFIG_LIBDIR="$t/none" LIBCONFIG_LIBS=-lconfig LIBCONFIG_CFLAGS=-I. JANSSON_LIBS=-ljansson \
		JANSSON_CFLAGS=-I. CURL_LIBS=-lcurl CURL_CFLAGS=-I. NETTLE_LIBS=-lnettle NETTLE_CFLAGS=-I. UV_LIBS=-luv UV_CFLAGS=-I. \
		SQLITE_LIBS=-lsqlite3 SQLITE_CFLAGS=-I. PCRE2_LIBS=-lpcre2-8 PCRE2_CFLAGS=-I.
done
check 16 'an option that does not exist is an error' 1 'unrecognized options: --with-nonesuch' --without-cuda --with-nonesuch --enable-option-checking=fatal
exit $failed
