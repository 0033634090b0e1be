#!/usr/bin/env bash
# Installs what building and testing espalier needs and is missing (Debian and its kin).
# Argument: build (what a build and the example need, the default) or check (and the tests).
set -u

packages=(build-essential autoconf automake libtool libltdl-dev pkgconf libconfig-dev libjansson-dev
	libcurl4-openssl-dev nettle-dev libuv1-dev libsqlite3-dev libpcre2-dev libopenblas-dev zlib1g-dev dataset-fashion-mnist)
[ "${1:-build}" = check ] && packages+=(libcriterion-dev python3 python3-numpy openssh-server openssh-client)
optional=(coinor-libcbc-dev libexpat1-dev libmicrohttpd-dev)	# an oracle of tests; cloud aws; `espalier serve`; a build does without
[ "${1:-build}" = build ] && optional+=(python3)	# trials in Python, such as the README's own search
[ "${1:-build}" = check ] && optional+=(nodejs)	# runs the script of a report; tests are skipped without
# A browser that looks at the pages.
[ "${1:-build}" = check ] && [ -n "${ESPALIER_TEST_BROWSER-}" ] && optional+=(chromium fonts-dejavu-core)
[ "${1:-build}" = check ] && optional+=(zsh fish)	# tests of completion
[ "${1:-build}" = check ] && optional+=(iproute2)	# a bad network, made by a test
[ "${1:-build}" = check ] && optional+=(abigail-tools)	# compares the types of the ABI
# A Slurm cluster for a test of its cloud, which is skipped without.
[ "${1:-build}" = check ] && optional+=(munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins)
# Continuous integration builds twice from the same sources.
[ "${1:-build}" = check ] && [ -n "${CHECK_CCACHE-}" ] && optional+=(ccache)
# PyTorch, pandas and matplotlib, for the examples in PyTorch and for figures: 200 MB to load, 1 GB installed.
[ "${1:-build}" = check ] && [ -n "${CHECK_PYTHON-}" ] && optional+=(python3-torch python3-pandas python3-matplotlib)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "No apt-get here: assuming that the equivalents of these are installed:" >&2
	echo "    ${packages[*]}" >&2
	exit 0
fi

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | head -n 1)" = installed ]; }
missing=() wanted=()
for package in "${packages[@]}"; do
	installed "$package" || missing+=("$package")
done
for package in "${optional[@]}"; do
	installed "$package" || wanted+=("$package")
done
[ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		[ ${#missing[@]} -eq 0 ] && exit 0
		echo "error: these packages are missing, and only an administrator can install them:" >&2
		echo "    apt-get install ${missing[*]}" >&2
		exit 1
	fi
	sudo=(sudo)
fi

apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q)
if [ ${#missing[@]} -gt 0 ]; then
	echo "Installing: ${missing[*]}" >&2
	"${apt[@]}" update >&2 || echo "warning: apt-get update failed; going on with what is known" >&2
	if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2; then
		echo "error: could not install: ${missing[*]}" >&2
		exit 1
	fi
fi
for package in "${wanted[@]}"; do
	echo "Installing: $package (optional)" >&2
	"${apt[@]}" install -y --no-install-recommends "$package" >&2 ||
		echo "warning: could not install $package; going on without it" >&2
done
