#!/bin/sh
# Prints docs/patterns.md from the logs beside it (43-logs.test compares).
cd "$(dirname "$0")" || exit 99
cat <<'END'
# Patterns for known programs

*For users who tune a program of others without editing it: the `trial.metrics` that reads its output.*

This page is made by `tests/logs/page.sh` from the logs in `tests/logs`. A test runs a search over each of them and checks which iterations have
which values. Some logs were printed by the program itself, the others were written after its format strings. How output is read is in
[unchanged-scripts.md](unchanged-scripts.md#metrics-from-the-output); `espalier check CONFIG --output LOG` tries a pattern on a log of yours.

END
for log in *.txt; do
	field() { sed -n "s/^$1: //p; /^---\$/q" "$log"; }
	printf '**%s** (%s), `experiment.metric = "%s"`\n\n```\nmetrics = %s;\n```\n\n' "$(field program)" "$(field source)" "$(field metric)" "$(field metrics)"
done
