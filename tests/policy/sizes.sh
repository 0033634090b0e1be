#!/bin/sh
# TAP: a file stays under 700 lines, a function under 70 and a line under 101 columns, so that each
# remains one idea; assertions are many enough; and clang-format 14 has nothing to change.
# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 99
files=$(find base core driver node plugins sdk tests examples \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | LC_ALL=C sort)
page=$(find driver \( -name '*.html' -o -name '*.js' -o -name '*.sql' \))
code=$(echo "$files" | grep -v '^tests/')

echo 1..7
if [ "$(echo "$files" | wc -l)" -gt 20 ]; then
	report 'the sources are here' ''
else
	report 'the sources are here' "only: $files"
fi
report 'no file is longer than 700 lines' "$(
	for f in $files $page; do
		lines=$(wc -l <"$f")
		[ "$lines" -le 700 ] || echo "$f: $lines lines"
	done)"
# In this layout a function's body begins and ends with a brace in the first column.
report 'no function is longer than 70 lines' "$(
	for f in $code; do
		awk -v file="$f" '
			/^\{/ { from = NR }
			/^\}/ && from { if (NR - from + 1 > 70)
				print file ":" from ": " NR - from + 1 " lines"; from = 0 }
		' "$f"
	done)"
report 'no line is longer than 100 columns' "$(
	for f in $files $page; do
		expand -t 8 "$f" | awk -v file="$f" 'length > 100 { print file ":" NR ": " length " columns" }'
	done)"
report 'the engine (core/) has no more than 25,000 lines' "$(
	lines=$(find core -name '*.[ch]' -exec cat {} + | wc -l)
	[ "$lines" -le 25000 ] || echo "core/: $lines lines")"
asserted() {	# folder...
	grep -rhE 'ESPL__(CHECK|ASSERT)\(|ESPL_ASSERT\(' --include='*.c' --include='*.h' --include='*.cu' "$@" |
		grep -cv '#define'
}
report 'there are 800 assertions, and 20 in each layer' "$(
	all=$(asserted base core driver node sdk plugins)
	[ "$all" -ge 800 ] || echo "$all in all"
	for folder in base core driver node sdk plugins; do
		some=$(asserted "$folder")
		[ "$some" -ge 20 ] || echo "$folder: $some"
	done)"
# Other versions of clang-format lay out a few lines differently.
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
	# shellcheck disable=SC2086
	report 'the layout is that of .clang-format' "$(
		clang-format --dry-run $files 2>&1 | grep warning:)"
else
	echo 'ok 7 # SKIP clang-format 14 is not installed'
fi
exit $failed
