#!/bin/sh
# TAP: names that grep, a debugger and a profiler can tell apart: a static function is verb_object
# (a function that has the name of the entry it fills keeps it), and no two structs have one name.
# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 99
folders=
for f in base core driver node plugins sdk lab examples; do
	[ ! -d "$f" ] || folders="$folders $f"
done
# shellcheck disable=SC2086
files=$(find $folders \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | LC_ALL=C sort)

# In this layout the return type has a line of its own, and the name is in the first column.
statics=$(
	for f in $files; do
		awk -v file="$f" '
			/^[a-z][A-Za-z0-9_]*\(/ && before ~ /^static / {
				name = $0; sub(/\(.*/, "", name); line[name] = NR }
			{ before = $0
			  rest = $0
			  while (match(rest, /\.[a-z][a-z0-9]* = [a-z][a-z0-9]*/)) {
				split(substr(rest, RSTART + 1, RLENGTH - 1), part, " = ")
				if (part[1] == part[2]) entry[part[1]] = 1
				rest = substr(rest, RSTART + RLENGTH) } }
			END { for (name in line)
				print (name ~ /_/ ? "long" : name in entry ? "entry" : "short"),
					file ":" line[name] ": " name }
		' "$f"
	done)
all=$(echo "$statics" | grep -c .)
short=$(echo "$statics" | grep -c '^short')

echo 1..3
if [ "$all" -gt 1000 ]; then
	report 'the static functions are found' ''
else
	report 'the static functions are found' "only $all"
fi
if [ $((short * 100)) -le $((all * 3)) ]; then
	report 'at most 3 % of the static functions have one word for a name' ''
else
	report 'at most 3 % of the static functions have one word for a name' \
		"$short of $all: $(echo "$statics" | sed -n 's/^short //p')"
fi
# Only those of one prefix can meet in one program.
report 'no two structs have one name' "$(
	for f in $files; do
		sed -n 's/^struct \(espl_[A-Za-z0-9_]*\) {.*/\1 '"$(echo "$f" | sed 's,/,\\/,g')"'/p' "$f"
	done | LC_ALL=C sort | awk '$1 == name { print name ": " file ", " $2 } { name = $1; file = $2 }')"
# shellcheck disable=SC2154
exit "$failed"
