#!/bin/sh
# TAP: each situation of situations.txt is lived through by a test that there is, and that make check runs.
# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 99
echo 1..2
list=tests/policy/situations.txt
rows=$(grep -v '^#' "$list")
wanted=$(
	seq -f 'cluster-%g' 26
	seq -f 'cloud-%g' 31 | grep -vx 'cloud-28'
	seq -f 'F%g' 9
	seq -f 'C%g' 11 | grep -vx 'C10'
)
missing=$(for id in $wanted; do echo "$rows" | grep -q "^$id | " || echo "$id"; done)
report "each situation and each fault has a test" "$missing"
gone=$(
	echo "$rows" | while IFS= read -r row; do
		file=$(echo "$row" | cut -d '|' -f 3 | tr -d ' ')
		words=$(echo "$row" | cut -d '|' -f 4- | sed 's/^ //')
		if [ -z "$words" ] || [ ! -f "$file" ]; then
			echo "$row"
		elif ! grep -qF -- "$words" "$file"; then
			echo "$file: no longer has: $words"
		elif ! grep -qF -- "$file" tests/*.am tests/*/*.am && ! grep -qF -- "${file%.c}" tests/*.am tests/*/*.am; then
			echo "$file: is in no makefile"
		fi
	done
)
report "each of these tests has the check that is named" "$gone"
# shellcheck disable=SC2154
exit "$failed"
