#!/bin/sh
# TAP: a file stays under 600 lines and a function under 70, so that each remains one idea.
# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 99
files=$(find core plugins sdk tests examples \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | LC_ALL=C sort)
code=$(echo "$files" | grep -v '^tests/')

echo 1..3
if [ "$(echo "$files" | wc -l)" -gt 20 ]; then
	report 'the sources are here' ''
else
	report 'the sources are here' "only: $files"
fi
report 'no file is longer than 600 lines' "$(
	for f in $files; do
		lines=$(wc -l <"$f")
		[ "$lines" -le 600 ] || echo "$f: $lines lines"
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
exit $failed
