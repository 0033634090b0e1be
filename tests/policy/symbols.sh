#!/bin/sh
# TAP: who may name what, and what policy must not reach.
# - a global symbol of the core begins with espl__
# - a plugin exports its descriptor and nothing else, and shares no global with another
# - executor, model and policy code call no clock, environment, file, network or random source
build=${abs_top_builddir:-.}
NM=${NM:-nm}
cd "$build" || exit 99
failed=0
number=0
report() {	# name, offenders
	number=$((number + 1))
	if [ -z "$2" ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		echo "$2" | sed 's/^/# /'
		failed=1
	fi
}
# Compilers and their run-time libraries begin theirs with two underscores.
globals() { "$NM" -g --defined-only "$@" 2>/dev/null | awk 'NF == 3 && $3 !~ /^__/ { print $3 }' | LC_ALL=C sort -u; }

objects() { find "$@" -name '*.o' 2>/dev/null | LC_ALL=C sort; }

echo 1..5
# shellcheck disable=SC2046
if globals $(objects core/base) | grep -q '^espl__panic$'; then
	report 'the objects are here' ''
else
	report 'the objects are here' "nothing in $build/core/base, or $NM cannot read it"
fi
report 'global symbols of the core begin with espl__' "$(
	for f in $(objects core); do
		globals "$f" | grep -v -e '^espl__' -e '^main$' | sed "s|^|$f: |"
	done)"

loadable=$(find plugins -path '*/.libs/*.so' -type f | LC_ALL=C sort)
report 'a plugin file exports its descriptor alone' "$(
	for f in $loadable; do
		name=$(basename "$f" .so)
		exported=$("$NM" -D --defined-only "$f" | awk '$3 !~ /^__/ { print $3 }')
		[ "$exported" = "${name}_LTX_espalier_plugin" ] || echo "$f:" $exported
	done)"

# Libtool may have compiled an object twice, in a folder and in its .libs; test programs may have
# compiled a plugin for themselves: the name tells.
report 'no global symbol stands in two plugins, so that all can be linked in' "$(
	for f in $(objects plugins examples | grep '_la-[^/]*$'); do
		globals "$f" | sed "s|$| $(basename "$f" .o)|"
	done | LC_ALL=C sort -u | awk '$1 == last { print $1 ": " object " and " $2 } { last = $1; object = $2 }')"

forbidden='clock_gettime|gettimeofday|time|clock|times|localtime|localtime_r|getenv|secure_getenv|setenv|putenv'
forbidden="$forbidden|fopen|fopen64|freopen|open|open64|openat|openat64|creat|creat64|opendir|tmpfile|mkstemp|mkstemp64"
forbidden="$forbidden|rand|srand|rand_r|random|srandom|drand48|lrand48|arc4random|getrandom|getentropy"
forbidden="$forbidden|sleep|usleep|nanosleep|clock_nanosleep|poll|select|socket|connect|getpid|gethostname"
forbidden="$forbidden|system|popen|fork|vfork|execve|execvp|posix_spawn|pthread_create|dlopen|setlocale"
forbidden="$forbidden|printf|puts|putchar|__printf_chk|stdout|stderr"
# The journal is the one file that the executor writes; journal.c alone opens it.
report 'executor, model and policies reach nothing outside themselves' "$(
	for f in $(objects core/exec core/model core/policy plugins/algorithms plugins/allocators plugins/placers); do
		"$NM" -u "$f" | awk '{ sub(/@.*/, "", $NF); print $NF }' | grep -E -x "$forbidden" | sed "s|^|$f: |"
	done | grep -v '/journal\.o: open\(64\)\?$')"
exit $failed
