#!/usr/bin/env bash
# Builds the release tarball and the Debian packages in a clean Debian system; checks them with lintian; installs them in
# another, runs the README's search and a package of plugins there, and purges them: nothing may be left.  Needs root,
# debootstrap, 4 GB of disk, the network, 15 minutes.
#
#   scripts/check-deb.sh
#   SUITE=NAME                         of Debian; default: bookworm
#   OUT=FOLDER                         keeps the tarball and the packages there
#   DEBIAN_MIRROR=URL DEBIAN_BASE=FOLDER    see roots.sh
#   KEEP=1                             keeps the root file systems, and says where
#
# It tests what is committed.  The last line counts the checks.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=scripts/roots.sh
. "$top/scripts/roots.sh"
needs_tools debootstrap git unshare
suite=${SUITE:-bookworm}
begin_checks deb
make=$work/make use=$work/use # the system that builds, and the one that only uses

make_systems() {
	make_root "$suite" "$work/base" && cp -a "$work/base" "$make" && cp -a "$work/base" "$use" &&
		make_user "$make" && make_user "$use" &&
		git -c advice.detachedHead=false clone -q --no-hardlinks "file://$top" "$make/home/user/espalier" &&
		inside "$make" apt-get install -y --no-install-recommends lintian build-essential fakeroot git &&
		inside "$make" apt-get build-dep -y --no-install-recommends /home/user/espalier &&
		inside "$make" chown -R user: /home/user
}
# The tarball holds every file under version control but debian/, which distributions have of their own, and .gitignore.
make_tarball() {
	as_user "$make" sh -ec '
		cd /home/user/espalier && ./autogen.sh && mkdir build-dist && cd build-dist && ../configure --quiet --disable-tests &&
			make -s dist && version=$(sed -n "s/^PACKAGE_VERSION = //p" Makefile) &&
			cp espalier-$version.tar.xz /home/user/ && cd /home/user &&
			ln -s espalier-$version.tar.xz espalier_$version.orig.tar.xz && tar -xf espalier-$version.tar.xz &&
			git -C espalier ls-files | grep -v "^debian/\|^.gitignore\$" | while read -r file; do
				[ -e espalier-$version/$file ] || echo "not in the tarball: $file"
			done >missing && cat missing && [ ! -s missing ]'
}
build_packages() {
	as_user "$make" sh -ec 'cd /home/user/espalier-*/ && cp -r ../espalier/debian . && dpkg-buildpackage -us -uc'
}
run_lintian() { as_user "$make" sh -c 'lintian --fail-on error,warning --info /home/user/espalier_*.changes'; }

# What is installed before espalier: what its packages depend on, and the tools of the tests.
install_depends() {
	mkdir "$use/packages" && cp "$make"/home/user/*.deb "$use/packages/" && rm -f "$use"/packages/*-dbgsym_* &&
		inside "$use" sh -ec '
			apt-get install -s --no-install-recommends /packages/*.deb >/tmp/plan
			apt-get install -y --no-install-recommends $(awk "/^Inst/ && !/espalier/ { print \$2 }" /tmp/plan) \
				autoconf automake build-essential libtool pkgconf
			rm /tmp/plan'
}
# All but what packages and users are expected to write: logs, caches, the lists of apt and dpkg, and /run, which ends
# with the system.
list_files() {
	find "$use" -xdev \( -path "$use/var/log" -o -path "$use/run" -o -path "$use/var/cache" -o -path "$use/var/lib/dpkg" -o -path "$use/var/lib/apt" \
		-o -path "$use/home" -o -path "$use/tmp" -o -path "$use/packages" -o -path "$use/etc/ld.so.cache" \) -prune \
		-o -printf '%P %y %m %U:%G %l' \( ! -type d -printf ' %s' -o -true \) -printf '\n' | LC_ALL=C sort
}
install_packages() { inside "$use" sh -c 'apt-get install -y --no-install-recommends /packages/*.deb'; }
# debian/tests, as autopkgtest runs them.
run_tests() {	# NAME
	rm -rf "$use/home/user/$1" && mkdir -p "$use/home/user/$1" && cp -r "$make/home/user/espalier" "$use/home/user/$1/source" &&
		inside "$use" chown -R user: "/home/user/$1" &&
		as_user "$use" sh -c "mkdir /home/user/$1/tmp && cd /home/user/$1/source && AUTOPKGTEST_TMP=/home/user/$1/tmp debian/tests/$1"
}
purge_packages() {
	inside "$use" sh -c 'apt-get purge -y $(dpkg-query -W -f "\${Package}\n" | grep espalier) && ! dpkg-query -W | grep espalier'
}
compare_files() { list_files >"$work/after" && diff "$work/before" "$work/after"; }

check_deb() {
	echo "== Debian packages ($suite)"
	check "two clean systems" make_systems &&
		check "make dist: a tarball with every file" make_tarball &&
		check "dpkg-buildpackage, from the tarball" build_packages || return 1
	check "lintian: no errors, no warnings" run_lintian
	check "what the packages depend on" install_depends && list_files >"$work/before" &&
		check "the packages are installed" install_packages || return 1
	check "the README's search runs, for a user" run_tests quick-start
	check "a package of plugins is built, checked and tested" run_tests plugin-template
	check "the packages are purged" purge_packages && check "nothing is left" compare_files
}

check_deb
[ -z "${OUT-}" ] || { mkdir -p "$OUT" && cp "$make"/home/user/*.{deb,dsc,changes,tar.xz} "$OUT"; }
end_checks
