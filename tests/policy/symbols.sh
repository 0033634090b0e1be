#!/bin/sh
# TAP: who may name what, and what policy must not reach.
# - a global symbol of espalier's own begins with espl__
# - a layer names nothing of a layer above it
# - a plugin exports its descriptor and nothing else, and shares no global with another or the kit
# - a global symbol of the kit begins with espl_ and is hidden
# - executor, model, kit and policy code call no clock, environment, file, network or random source
# - a shared object has all of espalier's own that it names
# - what is built does not tell where that was
# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
build=${abs_top_builddir:-.}
NM=${NM:-nm} READELF=${READELF:-readelf}
cd "$build" || exit 99
# Compilers and their run-time libraries begin theirs with two underscores.
globals() { "$NM" -g --defined-only "$@" 2>/dev/null | awk 'NF == 3 && $3 !~ /^__/ { print $3 }' | LC_ALL=C sort -u; }

# Not those made anew for a test program, with calls of the test's in place of the library's.
objects() { find "$@" -name '*.o' ! -name 'tests_*' 2>/dev/null | LC_ALL=C sort; }

echo 1..9
# shellcheck disable=SC2046
if globals $(objects base) | grep -q '^espl__panic$'; then
	report 'the objects are here' ''
else
	report 'the objects are here' "nothing in $build/base, or $NM cannot read it"
fi
report 'global symbols of the layers begin with espl__' "$(
	for f in $(objects base core driver node sdk/check); do
		globals "$f" | grep -v -e '^espl__' -e '^main$' | sed "s|^|$f: |"
	done)"

# layer, folders whose symbols it may name (and its own)
below() {
	own=$(globals $(objects "$@") | tr '\n' ' ')
	"$NM" -A -u $(objects "$1") | own=$own awk '
		BEGIN { n = split(ENVIRON["own"], list, " "); for (i = 1; i <= n; i++) known[list[i]] = 1 }
		$NF ~ /^espl__/ && !($NF in known) && $NF != "espl__builtin_plugins" { print $1 " " $NF }'
}
# shellcheck disable=SC2046
report 'a layer names nothing of a layer above it' "$(
	below base
	below core/config base
	below core/plugin core/config base
	below core base
	below node/checkpoint base
	below node/listen base
	below node/comm base
	below node/session node/wire.o node/.libs/wire.o base
	below node/transfer node/checkpoint node/wire.o node/.libs/wire.o base
	below node/courier node/checkpoint node/transfer node/wire.o node/.libs/wire.o base
	below node/agent node/session node/checkpoint node/transfer node/wire.o node/.libs/wire.o base
	below node core base
	below sdk/check sdk/testkit core base
	below driver/input node/listen node/checkpoint core base
	below driver/sim sdk/check driver/input driver/compute.o driver/.libs/compute.o core base
	below driver/real node/listen driver/compute.o driver/.libs/compute.o node/transfer node/wire.o node/.libs/wire.o core base
	below driver/report driver/input core base
	below driver/serve driver/report driver/input core base
	below driver sdk/check node/listen node/checkpoint node/transfer node/wire.o node/.libs/wire.o core base)"

loadable=$(find plugins -path '*/.libs/*.so' -type f | LC_ALL=C sort)
report 'a plugin file exports its descriptor alone' "$(
	for f in $loadable; do
		name=$(basename "$f" .so)
		exported=$("$NM" -D --defined-only "$f" | awk '$3 !~ /^__/ { print $3 }')
		[ "$exported" = "${name}_LTX_espalier_plugin" ] || echo "$f:" $exported
	done)"

report 'global symbols of the kit begin with espl_ and are hidden' "$(
	archive=sdk/kit/.libs/libespalier-kit.a
	"$READELF" -sW "$archive" | awk '
		$5 == "GLOBAL" && $7 != "UND" && $8 !~ /^__/ {
			count++
			if ($8 !~ /^espl_[a-z]/ || $6 != "HIDDEN") print $8 ": " $6
		}
		END { if (count < 50) print count + 0 " global symbols in '"$archive"'" }')"

# Nobody offers what is missing there: loading it would fail, on the machine that has the device.
report 'a shared object lacks nothing of espalier'"'"'s own' "$(
	for f in $loadable $(find .libs node -path '*.libs/*.so' -type f 2>/dev/null | LC_ALL=C sort); do
		"$NM" -D --undefined-only "$f" | awk '$NF ~ /^espl__/ { print $NF }' | sed "s|^|$f: |"
	done)"

# Libtool may have compiled an object twice, in a folder and in its .libs; test programs may have
# compiled a plugin for themselves: the name tells.
report 'no global symbol stands in two plugins or in the kit, so that all can be linked in' "$(
	for f in $(objects plugins examples sdk/kit | grep '_la-[^/]*$'); do
		globals "$f" | sed "s|$| $(basename "$f" .o)|"
	done | LC_ALL=C sort -u | awk '$1 == last { print $1 ": " object " and " $2 } { last = $1; object = $2 }')"

# What executor, model and policies may import: of the C library what depends on its arguments alone,
# what compilers put in, one another, and what is listed for an object.
pure='malloc|calloc|realloc|free|abort|qsort|bsearch|mem(cpy|move|set|cmp|chr|rchr|mem)|v?snprintf'
pure="$pure|str(len|nlen|cmp|ncmp|chr|rchr|str|spn|cspn|pbrk|tok_r|dup|ndup)"
pure="$pure|fabs|floor|ceil|trunc|l?l?round|l?l?rint|nearbyint|f(min|max|mod)|frexp|ldexp|scalbn|modf|copysign|nextafter"
pure="$pure|sqrtf?|cbrt|hypot|exp(2|m1)?|log(2|10|1p|b)?|pow|a?(sin|cos|tan)h?|atan2|erfc?|tgamma"
pure="$pure|_GLOBAL_OFFSET_TABLE_|__([a-z]*san|gcov|sanitizer|sancov|llvm)_.*|__stack_chk_(fail|guard)"
pure="$pure|__[a-z]+([dt][if]|[sx]f)([dt][if])?[234]?|espl_.*"
listed='
exec/.*effects	espl__log
kit/.*assert	write
policy/.*call	espl__log|espl__quantiles_add(_many)?
algorithms/.*tpe	model_(init|free|tell|ask)
model/.*jobs	espl__file_read
model/.*profile	espl__file_read|espl__tree_load|json_(loadb|delete|[a-z]+_(value|size|get)|object_iter[a-z_]*)'
# Of the core's own functions: those that touch files, the clock or the terminal.
touching="$(globals $(objects base | grep -E '/(file|log|tick)\.o$') | tr '\n' ' ') espl__tree_load"
reach() {	# folder...
	for folder; do
		own=$(globals $(objects "$folder") | tr '\n' ' ')
		"$NM" -A -u $(objects "$folder") | own=$own touching=$touching pure=$pure listed=$listed awk '
			BEGIN {
				n = split(ENVIRON["own"], list, " "); for (i = 1; i <= n; i++) known[list[i]] = 1
				n = split(ENVIRON["touching"], list, " "); for (i = 1; i <= n; i++) barred[list[i]] = 1
				rows = split(ENVIRON["listed"], row, "\n"); pure = "^(" ENVIRON["pure"] ")$"
			}
			{
				object = $1; name = $NF; sub(/@.*/, "", name)
				if (name ~ /^__[a-z]+_chk$/) { sub(/^__/, "", name); sub(/_chk$/, "", name) }
				if (name in known || (name ~ pure && !(name in barred))) next
				for (i = 1; i <= rows; i++) {
					split(row[i], cell, "\t")
					if (cell[1] != "" && object ~ (cell[1] "[.]o:") && name ~ ("^(" cell[2] ")$")) next
				}
				print object " " name
			}'
	done
}
report 'executor, model, kit and policies reach nothing outside themselves' "$(
	reach core/exec core/forecast core/model core/policy sdk/kit plugins/algorithms plugins/allocators plugins/placers plugins/samplers)"

# (Sanitizers tell in which file, by its true name.)
if [ -z "${SANITIZE_FLAGS-}" ] && grep -q 'PATH_CFLAGS.*-ffile-prefix-map' config.status 2>/dev/null; then
	report 'programs and plugins hold no path of the folders they were made in' "$(
		grep -l -a -F -e "${abs_top_srcdir:-$build}/core/" -e "${abs_top_srcdir:-$build}/driver/" -e "$(pwd)/core/" \
			espalier espalier-agent espalier-courier espalier-listen espalier-worker $loadable)"
else
	number=$((number + 1))
	echo "ok $number - programs and plugins hold no path of the folders they were made in # SKIP not in this build"
fi
exit $failed
