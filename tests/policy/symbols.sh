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

# What executor, model and policies may import: of the C library what depends on its arguments alone,
# what compilers put in, and one another.  A line of the list below: object (or any), more that it may.
pure='malloc|calloc|realloc|free|abort|qsort|bsearch|mem(cpy|move|set|cmp|chr|rchr|mem)|v?snprintf'
pure="$pure|str(len|nlen|cmp|ncmp|chr|rchr|str|spn|cspn|pbrk|dup|ndup)"
pure="$pure|fabs|floor|ceil|trunc|l?l?round|l?l?rint|nearbyint|f(min|max|mod)|frexp|ldexp|scalbn|modf|copysign|nextafter"
pure="$pure|sqrt|cbrt|hypot|exp(2|m1)?|log(2|10|1p|b)?|pow|a?(sin|cos|tan)h?|atan2|erfc?|tgamma"
pure="$pure|_GLOBAL_OFFSET_TABLE_|__([a-z]*san|gcov|sanitizer|sancov|llvm)_.*|__stack_chk_(fail|guard)"
pure="$pure|__[a-z]+[dt][fi][a-z]*[234]?|espl_.*"
also() {	# object
	case $1 in
	*/exec/*journal.o) echo '__errno_location|open|read|close|lseek|fstat|ftruncate|fdatasync|unlink|espl__write_all' ;;
	*/model/*profile.o) echo 'json_(loadb|delete|[a-z]+_(value|size|get)|object_iter[a-z_]*)|espl__(file_read|tree_load)' ;;
	*/model/*curves.o) echo 'espl__file_read' ;;
	*/exec/*executor.o | */policy/*call.o) echo 'espl__log|espl__quantiles_add(_many)?' ;;
	*) echo none ;;
	esac
}
# Of the core's own: what touches files, the clock or the terminal.
touches="$(globals $(objects core/base | grep -E '/(file|log|tick)\.o$')) espl__tree_load"
reach() {	# folder...
	for folder; do
		own=$(globals $(objects "$folder"))
		for f in $(objects "$folder"); do
			"$NM" -u "$f" | awk -v own="$own" -v touches="$touches" '
				BEGIN { n = split(own, a); for (i = 1; i <= n; i++) known[a[i]] = 1
					n = split(touches, a); for (i = 1; i <= n; i++) barred[a[i]] = 1 }
				{ name = $NF; sub(/@.*/, "", name) }
				name ~ /^__.*_chk$/ && name !~ /^__stack/ { sub(/^__/, "", name); sub(/_chk$/, "", name) }
				!(name in known) { print (name in barred ? "touches " : "") name }' |
			grep -vxE "$pure" | sed 's/^touches //' | grep -vxE "$(also "$f")" | sed "s|^|$f: |"
		done
	done
}
report 'executor, model and policies reach nothing outside themselves' "$(
	reach core/exec core/model core/policy plugins/algorithms plugins/allocators plugins/placers)"
exit $failed
