#!/usr/bin/env bash
# Installs what building and testing espalier needs and is missing (Debian and its kin).
# Argument: build (what a build and the example need, the default) or check (and the tests).
set -u

packages=(build-essential autoconf automake libtool libltdl-dev pkgconf libconfig-dev libjansson-dev
	libcurl4-openssl-dev libuv1-dev libsqlite3-dev libopenblas-dev zlib1g-dev dataset-fashion-mnist)
[ "${1:-build}" = check ] && packages+=(libcriterion-dev python3 python3-numpy)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "No apt-get here: assuming that the equivalents of these are installed:" >&2
	echo "    ${packages[*]}" >&2
	exit 0
fi

missing=()
for package in "${packages[@]}"; do
	state=$(dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | head -n 1)
	[ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "error: these packages are missing, and only an administrator can install them:" >&2
		echo "    apt-get install ${missing[*]}" >&2
		exit 1
	fi
	sudo=(sudo)
fi

echo "Installing: ${missing[*]}" >&2
apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q)
"${apt[@]}" update >&2 || echo "warning: apt-get update failed; going on with what is known" >&2
if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2; then
	echo "error: could not install: ${missing[*]}" >&2
	exit 1
fi
