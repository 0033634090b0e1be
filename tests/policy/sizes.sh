#!/bin/sh
# TAP: a function stays under 70 lines and a line under 101 columns, and clang-format 14 has nothing to
# change.  Sizes of files and directories are printed for whoever reads the log; none of them fails.
# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 99
files=$(find base core driver node plugins sdk lab tests examples \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | LC_ALL=C sort)
page=$(find driver \( -name '*.html' -o -name '*.js' -o -name '*.sql' \))
code=$(echo "$files" | grep -v '^tests/')

echo 1..4
if [ "$(echo "$files" | wc -l)" -gt 20 ]; then
	report 'the sources are here' ''
else
	report 'the sources are here' "only: $files"
fi
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
# Other versions of clang-format lay out a few lines differently.
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
	# shellcheck disable=SC2086
	report 'the layout is that of .clang-format' "$(
		clang-format --dry-run $files 2>&1 | grep warning:)"
else
	echo 'ok 4 # SKIP clang-format 14 is not installed'
fi
for folder in base core driver node plugins sdk lab; do
	echo "# $folder: $(find "$folder" -name '*.[ch]' -exec cat {} + | wc -l) lines"
done
for f in $files $page; do
	lines=$(wc -l <"$f")
	[ "$lines" -le 700 ] || echo "# $f: $lines lines; is it still one idea?"
done
exit $failed
