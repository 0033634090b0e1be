#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests; the last line counts them.  Arguments go to
# configure; BUILD names the build folder (default build/), TESTS the tests if not all are wanted.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
build=${BUILD:-$top/build}
"$top/scripts/install-packages.sh" check || exit 1
"$top/scripts/build.sh" "$build" "$@" || exit 1
if grep -qx "HAVE_CRITERION_TRUE='#'" "$build/config.log"; then
	echo "error: Criterion is not there, so the unit tests are not built" >&2
	exit 1
fi
# Results of tests that are gone must not be counted.
find "$build/tests" \( -name '*.trs' -o -name '*.log' \) -exec rm -f {} + 2>/dev/null
# The programs of other tests are not made for a few.
programs=
for test in ${TESTS-}; do
	case $test in *.test | *.sh | *.py) ;; *) programs="$programs $test" ;; esac
done
# Most tests wait most of the time, for processes that end or connections that are cut.  What is left to compile now is
# the programs of tests, where CHECK_CFLAGS may save more time than they take longer.
wanted=(${CHECK_CFLAGS:+CFLAGS="$CHECK_CFLAGS"} ${TESTS:+check_PROGRAMS="$programs"})
make -C "$build" -j"$((3 * $(nproc)))" --no-print-directory check "${wanted[@]}" ${TESTS:+TESTS="$TESTS"}
status=$?

# Whole runs race with each other for the machine.  Where few failed, they are run again, one at a time; what passes
# then is said, as a test that needs an idle machine is to be mended.
failed_runs() { grep -lE '^:test-result: (FAIL|ERROR)' "$build"/tests/*/*.trs "$build"/tests/*.trs 2>/dev/null; }
shaky=$(failed_runs)
case $(grep -c . <<<"$shaky"),$(grep -vc '/tests/runs/' <<<"$shaky") in
[1-9],0)
	echo "# failed beside others, and now run alone:" $(sed 's|.*/tests/|tests/|; s|trs$|test|' <<<"$shaky")
	make -C "$build" --no-print-directory recheck "${wanted[@]}"
	status=$?
	still=$(failed_runs)
	[ -z "$still" ] && echo "# passed alone, and is to be mended:" $(sed 's|.*/tests/|tests/|; s|trs$|test|' <<<"$shaky")
	;;
esac

# Of a program with failed tests its exit status is no further failure.
read -r passed failed skipped < <(find "$build/tests" -name '*.trs' -exec awk '
	FNR == 1 { failed += fails ? fails : errors; fails = errors = 0 }
	/^:test-result: (PASS|XFAIL)/ { passed++ }
	/^:test-result: (FAIL|XPASS)/ { fails++ }
	/^:test-result: ERROR/ { errors++ }
	/^:test-result: SKIP/ { skipped++ }
	END { print passed + 0, failed + (fails ? fails : errors), skipped + 0 }' {} +)
passed=${passed:-0} failed=${failed:-0} skipped=${skipped:-0}
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
	echo "error: make check did not get as far as running every test" >&2
	failed=1
fi
if [ "$passed" -eq 0 ] && [ "$failed" -eq 0 ]; then
	echo "error: no test ran" >&2
	failed=1
fi
# What failed stands last, above the count, where whoever sees only the end of the output finds it.
find "$build/tests" -name '*.log' -exec grep -hE '^(FAIL|XPASS|ERROR): ' {} + | LC_ALL=C sort
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
