# roots.sh - root file systems of Debian, for the checks beside it; sourced by bash.
#
#   needs_tools TOOL...       ends the script unless it is root's and has these
#   make_root SUITE ROOT      a minimal system by debootstrap, with a fresh list of packages
#   inside ROOT COMMAND...    runs a command there; its mounts and processes end with it
#   as_user ROOT COMMAND...   the same as the user `user`, whom make_user has made
#   begin_checks NAME         a folder, $work, that is removed at the end (KEEP=1: it stays)
#   check NAME COMMAND...     one check, with a line of its own; shows what a failed command printed
#   end_checks                counts them, and ends the script
#   DEBIAN_MIRROR=URL         a mirror other than debootstrap's own
#   DEBIAN_BASE=FOLDER        a root file system made by debootstrap earlier, which is copied instead
fail() { echo "error: $*" >&2; exit 1; }
needs_tools() {
	local tool
	[ "$(id -u)" -eq 0 ] || fail "only root can make a root file system"
	for tool; do
		command -v "$tool" >/dev/null || fail "'$tool' is missing (Debian: apt-get install debootstrap git util-linux)"
	done
}

# Mounts and processes are in name spaces of their own: they end with the command.
inside() {	# ROOT COMMAND...
	unshare --mount --pid --fork --kill-child --propagation private bash -c '
		root=$1
		shift
		mount -t proc proc "$root/proc" && mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" &&
			mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" &&
			exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
				DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} "$@"' bash "$@" </dev/null
}
make_user() { inside "$1" useradd -m user; }
as_user() { inside "$1" runuser -u user -- env HOME=/home/user DEB_BUILD_OPTIONS="parallel=$(nproc)" "${@:2}"; }

make_root() {	# SUITE ROOT
	local suite=$1 root=$2
	if [ -n "${DEBIAN_BASE-}" ]; then
		cp -a --reflink=auto "$DEBIAN_BASE" "$root"
	else
		debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
	fi || { echo "error: debootstrap $suite failed" >&2; return 1; }
	mkdir -p "$root/dev/shm" "$root/dev/pts"
	[ -e "$root/dev/ptmx" ] || ln -s pts/ptmx "$root/dev/ptmx"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	inside "$root" apt-get -q update || { echo "error: apt-get update failed" >&2; return 1; }
}

passed=0 failed=0
begin_checks() {
	work=$(mktemp -d "${TMPDIR:-/var/tmp}/espalier-$1-XXXXXX") || exit 1
	trap 'if [ -n "${KEEP-}" ]; then echo "kept: $work" >&2; else rm -rf --one-file-system "$work"; fi' EXIT
}
check() {	# NAME COMMAND...
	local name=$1 log=$work/log
	shift
	if "$@" >"$log" 2>&1; then
		echo "ok - $name"
		passed=$((passed + 1))
	else
		echo "not ok - $name"
		tail -n 30 "$log" | cut -c 1-300 | sed 's/^/# /'
		failed=$((failed + 1))
		return 1
	fi
}
end_checks() { echo "$passed passed, $failed failed, 0 skipped"; exit $((failed > 0)); }
