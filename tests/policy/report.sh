# shellcheck shell=sh disable=SC2034
# Sourced by the tests beside it: a line of TAP for each rule, with those who offend against it.
failed=0
number=0
report() {	# name, offenders
	number=$((number + 1))
	if [ -z "$2" ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		echo "$2" | head -n 30 | sed 's/^/# /'
		failed=1
	fi
}
