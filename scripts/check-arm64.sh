#!/usr/bin/env bash
# Cross-builds the Debian packages for arm64 in a clean Debian system, installs them in an arm64 root file system whose
# programs run by qemu-user, runs the tests of the packages there, and compares simulations and plans with the records of
# amd64.  Needs root, debootstrap, Debian's qemu-user-static, binfmt_misc, 5 GB of disk, the network, an hour or two.
#
#   scripts/check-arm64.sh
#   SUITE=NAME                         of Debian; default: bookworm
#   OUT=FOLDER                         keeps the packages and the records of arm64 there
#   DEBIAN_MIRROR=URL DEBIAN_BASE=FOLDER    see roots.sh; the folder is the system that builds
#   KEEP=1                             keeps the root file systems, and says where
#
# It tests what is committed.  The last line counts the checks.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=scripts/roots.sh
. "$top/scripts/roots.sh"
needs_tools debootstrap git unshare qemu-aarch64-static
suite=${SUITE:-bookworm}
begin_checks arm64
make=$work/make use=$work/use # the system that builds, and the emulated one

# The kernel starts arm64 programs by the emulator; F: it is opened now, so that it need not be in the root file system.
binfmt=/proc/sys/fs/binfmt_misc
emulate() {
	[ -e $binfmt/register ] || mount -t binfmt_misc binfmt_misc $binfmt || return
	[ -e $binfmt/espalier-arm64 ] || [ -e $binfmt/qemu-aarch64 ] || printf '%s' \
		':espalier-arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$(command -v qemu-aarch64-static)"':F' \
		>$binfmt/register
}
make_builder() {
	make_root "$suite" "$make" && make_user "$make" &&
		git -c advice.detachedHead=false clone -q --no-hardlinks "file://$top" "$make/home/user/espalier" &&
		inside "$make" sh -ec 'dpkg --add-architecture arm64 && apt-get -q update
			apt-get install -y --no-install-recommends crossbuild-essential-arm64 fakeroot git
			apt-get build-dep -y --no-install-recommends -aarm64 -Pcross,nocheck /home/user/espalier
			chown -R user: /home/user'
}
build_packages() {
	as_user "$make" sh -ec 'cd /home/user/espalier && dpkg-buildpackage -b -aarm64 -Pcross,nocheck -us -uc'
}
are_arm64() {
	inside "$make" sh -ec 'mkdir /tmp/x && dpkg-deb -x /home/user/espalier_*_arm64.deb /tmp/x
		for file in /tmp/x/usr/bin/espalier /tmp/x/usr/lib/aarch64-linux-gnu/espalier/plugins/*.so; do
			aarch64-linux-gnu-readelf -h $file | grep -q AArch64 || { echo "not for arm64: $file"; exit 1; }
		done'
}
make_emulated() {
	debootstrap --arch=arm64 --foreign --variant=minbase --include=ca-certificates "$suite" "$use" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} &&
		chroot "$use" /debootstrap/debootstrap --second-stage &&
		mkdir -p "$use/dev/shm" "$use/dev/pts" "$use/packages" && cp /etc/resolv.conf "$use/etc/" &&
		cp "$make"/home/user/*.deb "$use/packages/" && rm -f "$use"/packages/*-dbgsym_* &&
		make_user "$use" && inside "$use" apt-get -q update
}
install_packages() {
	inside "$use" sh -c 'apt-get install -y --no-install-recommends /packages/*.deb python3 procps \
		autoconf automake build-essential libtool pkgconf'
}
copy_sources() {
	cp -r "$make/home/user/espalier" "$use/home/user/source" && inside "$use" chown -R user: /home/user
}
# qemu 7.2 knows no prctl(PR_SET_CHILD_SUBREAPER): a wrapper answers that it succeeded. So orphans are not tested here.
wrap_prctl() {
	cat >"$use/packages/prctl.c" <<-'EOF'
	#include <stdarg.h>
	#include <sys/prctl.h>
	#include <sys/syscall.h>
	#include <unistd.h>
	int prctl(int option, ...)
	{
		va_list list;
		unsigned long a[4];
		va_start(list, option);
		for (int i = 0; i < 4; i++)
			a[i] = va_arg(list, unsigned long);
		va_end(list);
		return option == PR_SET_CHILD_SUBREAPER ? 0 : (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
	}
	EOF
	inside "$use" cc -shared -fPIC -o /packages/prctl.so /packages/prctl.c
}
run_tests() {	# NAME: debian/tests, as autopkgtest runs them
	as_user "$use" sh -c "rm -rf /home/user/$1 && mkdir /home/user/$1 && cd /home/user/source &&
		export LD_PRELOAD=/packages/prctl.so && AUTOPKGTEST_TMP=/home/user/$1 debian/tests/$1"
}
# What differs is listed: the mathematical library of another architecture may round the last digit differently.
save_records() {
	as_user "$use" sh -ec 'export ESPALIER=/usr/bin/espalier ESPALIER_PLUGIN_PATH= ESPALIER_LIBEXEC=
		cd /home/user/source && tests/golden/golden.sh --quick --files save /home/user/golden'
}
compare_records() {	# PATTERN: those whose names match
	grep -E "$1" "$top/tests/golden/hashes" >"$work/amd64"
	grep -E "$1" "$use/home/user/golden/hashes" >"$work/arm64"
	echo "$(wc -l <"$work/amd64") records, $(diff "$work/amd64" "$work/arm64" | grep -c '^>') differ:"
	diff "$work/amd64" "$work/arm64" | sed -n 's/^> [0-9a-f]*  //p'
	cmp -s "$work/amd64" "$work/arm64"
}

check_arm64() {
	echo "== arm64 ($suite)"
	check "programs for arm64 can be emulated" emulate &&
		check "a system that builds for arm64" make_builder &&
		check "dpkg-buildpackage for arm64" build_packages || return 1
	check "the program and every plugin are for arm64" are_arm64
	[ -z "${OUT-}" ] || { mkdir -p "$OUT" && cp "$make"/home/user/*.deb "$OUT"; }
	check "an arm64 system" make_emulated && check "the packages are installed" install_packages || return 1
	check "the sources" copy_sources
	check "simulations and plans are recorded" save_records
	[ -z "${OUT-}" ] || cp -r "$use/home/user/golden" "$OUT"
	check "plans equal those of amd64" compare_records '/plan.json$'
	check "journals of simulations equal those of amd64" compare_records '/journal$'
	check "all other records equal those of amd64" compare_records '/(resume|report.html|text|run.cfg|tables.csv|events.json|explain)$'
	check "a wrapper for what the emulator lacks" wrap_prctl
	check "the README's search runs, for a user" run_tests quick-start
	check "a package of plugins is built, checked and tested" run_tests plugin-template
}

check_arm64
[ ! -e $binfmt/espalier-arm64 ] || echo -1 >$binfmt/espalier-arm64
end_checks
