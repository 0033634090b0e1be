#!/usr/bin/env bash
# Makes a self-contained wheel, and the sdist, of the Python package; `make wheel` calls it.
#
#   scripts/build-wheel.sh PROGRAM LIBEXECDIR PLUGINDIR OUT
#
# Into the wheel go the program, its helpers, the plugins, and every shared library that they need except glibc's, found
# by ldd; each file finds the others relative to itself ($ORIGIN).  The platform tag names the glibc that the symbols
# really need.  Examples that need OpenBLAS or CUDA, and the CUDA device of trainables in C, are left out.
# PYTHON3 and PATCHELF name these programs.
set -eu
program=$1 libexec=$2 plugins=$3 out=$4
python=${PYTHON3:-python3} patchelf=${PATCHELF:-patchelf}
source=$(cd "$(dirname "$0")/../sdk/python" && pwd)

fail() { echo "make wheel: error: $*" >&2; exit 1; }
for tool in "$python" "$patchelf" ldd readelf strip; do
	command -v "$tool" >/dev/null || fail "'$tool' is missing (Debian: apt-get install python3 patchelf binutils)"
done
tree=$(mktemp -d "${TMPDIR:-/tmp}/espalier-wheel-XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/bin" "$tree/lib/espalier/plugins" "$tree/libexec/espalier" "$tree/licenses"
cp "$program" "$tree/bin/espalier"
cp "$libexec"/espalier-* "$tree/libexec/espalier/"
for plugin in "$plugins"/*.so; do
	[ -e "$plugin" ] || continue			# linked into the program
	case $plugin in */trainable_fashion_*) continue ;; esac
	cp -L "$plugin" "$tree/lib/espalier/plugins/"
done
# Programs and libraries; two are scripts.
own() { find "$tree/bin" "$tree/lib" "$tree/libexec" -type f ! -name espalier-init ! -name espalier-fill ! -name espalier-warm; }

# ldd follows the needs of needs.
glibc='^(linux-vdso|ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util|anl|mvec|nsl|nss_.*))\.so'
own | while read -r file; do ldd "$file"; done >"$tree/needs"
grep -q 'not found' "$tree/needs" && fail "not found: $(grep 'not found' "$tree/needs" | sort -u)"
awk '$2 == "=>" { print $1, $3 }' "$tree/needs" | sort -u | grep -vE "$glibc" >"$tree/libraries"
while read -r name path; do
	cp -L "$path" "$tree/lib/$name"
	path=$(readlink -f "$path")
	package=$( (dpkg-query -S "$path" || dpkg-query -S "${path#/usr}") 2>/dev/null | sed -n '1s/:.*//p')
	if [ -n "$package" ] && [ -e "/usr/share/doc/$package/copyright" ]; then
		cp -L "/usr/share/doc/$package/copyright" "$tree/licenses/$package"
	else
		echo "make wheel: warning: the license of $path is not known here, and not in the wheel" >&2
	fi
done <"$tree/libraries"
rm "$tree/needs" "$tree/libraries"

own | while read -r file; do
	chmod u+w "$file"
	strip --strip-unneeded "$file"
	case $file in
	"$tree"/bin/*) way="\$ORIGIN/../lib" ;;
	"$tree"/libexec/*) way="\$ORIGIN/../../lib" ;;
	"$tree"/lib/espalier/plugins/*) way="\$ORIGIN/../.." ;;
	*) way="\$ORIGIN" ;;
	esac
	"$patchelf" --force-rpath --set-rpath "$way" "$file"
	stray=$(ldd "$file" | awk '$2 == "=>" && $3 !~ "^'"$tree"'/" { print $1 }' | grep -vE "$glibc" || true)
	[ -z "$stray" ] || fail "$file would be loaded with the system's $stray"
done

# Relative relocations (DT_RELR) came with glibc 2.36.
version=$(own | while read -r file; do readelf -VW "$file"; done | grep -oE 'GLIBC_([0-9.]+|ABI_DT_RELR)' |
	sed 's/^GLIBC_//; s/ABI_DT_RELR/2.36/' | sort -uV | tail -n 1)
case $version in 2.*) ;; *) fail "which glibc is needed is not known: '$version'" ;; esac
machine=$(readelf -h "$tree/bin/espalier" | sed -n 's/^ *Machine: *//p')
case $machine in
*X86-64*) machine=x86_64 ;;
*AArch64*) machine=aarch64 ;;
*) fail "no name of a platform for '$machine' is known" ;;
esac
mkdir -p "$out"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source "$python" -c '
import sys, espalier_build as build
tree, tag, out = sys.argv[1:]
print(build.build_wheel(out, {"program": tree, "platform": tag}))
print(build.build_sdist(out))' "$tree" "manylinux_${version/./_}_$machine" "$out"
echo "needs glibc $version or later, on $machine"
