#!/usr/bin/env bash
# The first thing to run: installs what is missing, builds into build/ and tunes a network on
# Fashion-MNIST, with a live view on a terminal.  Arguments go to `espalier run`; BUILD names the build folder.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
"$top/scripts/install-packages.sh" build || exit 1
build=${BUILD:-$top/build}
"$top/scripts/build.sh" "$build" || exit 1
echo
exec "$build/espalier" run "$top/examples/fashion-mnist/search.cfg" "$@"
