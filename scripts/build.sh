#!/usr/bin/env bash
# Builds espalier in a folder of its own.  Arguments: the folder, then arguments of configure.
# A folder that is already configured is only brought up to date.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
build=${1:?usage: build.sh FOLDER [CONFIGURE-ARGUMENT]...}
shift

if [ -f "$top/config.status" ]; then
	echo "error: $top itself is configured, which forbids other build folders" >&2
	echo "hint: make -C $top distclean" >&2
	exit 1
fi
if [ ! -x "$top/configure" ]; then
	"$top/autogen.sh" || exit 1
fi
mkdir -p "$build" && cd "$build" || exit 1
if [ ! -f config.status ]; then
	"$top/configure" --quiet "$@" || exit 1
fi
exec make -j"$(nproc)" --no-print-directory
