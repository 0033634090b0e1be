#!/usr/bin/env bash
# Builds espalier in a folder of its own.  Arguments: the folder, then arguments of configure.
# A folder that is already configured is brought up to date: configured anew if arguments are given,
# or if packages came or went since (what was missing may be there now).
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
build=${1:?usage: build.sh FOLDER [CONFIGURE-ARGUMENT]...}
shift

if [ -f "$top/config.status" ]; then
	echo "error: $top itself is configured, which forbids other build folders" >&2
	echo "hint: make -C $top distclean" >&2
	exit 1
fi
if ! mkdir -p "$build"; then
	echo "hint: BUILD=FOLDER says where to build" >&2
	exit 1
fi
if [ ! -x "$top/configure" ] && [ ! -w "$top" ]; then
	# What autogen.sh makes lies beside the sources: where they cannot be written, a copy of them can.
	copy=$(cd "$build" && pwd)/source
	mkdir -p "$copy" && (cd "$top" && tar -cf - --exclude=./build --exclude=./.git .) | tar -C "$copy" -xf - &&
		chmod -R u+w "$copy" || exit 1
	top=$copy
fi
if [ ! -x "$top/configure" ]; then
	"$top/autogen.sh" || exit 1
fi
cd "$build" || exit 1
# configure refuses a blank in the path that it is called by: within $top the relative path has none.
from=$top
case $top in *[[:space:]]*) from=$(realpath --relative-to=. "$top") || exit 1 ;; esac
if [ ! -f config.status ]; then
	"$from/configure" --quiet "$@" || exit 1
elif grep -Eqx "HAVE_CRITERION_TRUE='#'|PYTHON3=''" config.log; then
	# What was missing when it was configured may have been installed since.
	./config.status --recheck >/dev/null && ./config.status >/dev/null || exit 1
fi
exec make -j"$(nproc)" --no-print-directory
