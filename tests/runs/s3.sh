# s3.sh - what the tests of buckets share: a stand-in of S3 (tests/aws/s3.py), keys for it, and what is compared.
#
#   start_s3 [SETTING=VALUE]...   sets $url and $s3; stop_s3 ends it
#   rules JSON                    what goes wrong from now on
#   write_store FILE [OPTION]...  the search of $base with its checkpoints in the bucket
#   couriers                      /proc/PID/cmdline of each espalier-courier of this test
needs_python3
export PYTHONDONTWRITEBYTECODE=1 AWS_EC2_METADATA_DISABLED=true
secret=canary-Secret/Key+of+AWS session=canary-Session/Token==
export AWS_ACCESS_KEY_ID=AKIDCANARY AWS_SECRET_ACCESS_KEY=$secret AWS_SESSION_TOKEN=$session
unset AWS_PROFILE AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AWS_REGION AWS_DEFAULT_REGION
mkdir tmp
export TMPDIR=$work/tmp	# where agents work
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
start_s3() {	# [SETTING=VALUE]...: sets $url and $s3
	: >url
	"$PYTHON3" "$top/tests/aws/s3.py" "keys=AKIDCANARY:$secret:$session" pidfile="$work/pid" "$@" >url &
	s3=$!
	servers+=($s3)
	for i in $(seq 100); do [ -s url ] && break; sleep 0.05; done
	url=$(cat url)
}
stop_s3() { kill $s3; wait $s3 2>/dev/null; }
rules() { fetch "$url/_/rules" "$1" >/dev/null; }
# state EXPRESSION: of what the stand-in knows; `s` is all of it
state() { fetch "$url/_/ask" "$1"; }
holds() { [ "$(state "$1")" = True ] || { err="$err; S3 says: $(state 's')"; return 1; }; }
write_store() {	# FILE [OPTION]...: the search of $base with its checkpoints in the bucket
	sed '/^store/d' "${base-local.cfg}" >"$1"
	echo "store = { use = \"s3\"; bucket = \"pears\"; region = \"eu-central-1\"; endpoint = \"$url\"; ${*:2} };" >>"$1"
}
table() { "$ESPALIER" export "$1" --format csv --table trials | cut -d , -f 1-4 | sort; }
best() { "$ESPALIER" best "$1" --json | sed 's/.*"best": {\([^}]*\)}.*/\1/'; }
files() { (cd "$1" && find trials/*/checkpoint-* -type f ! -name MANIFEST -exec cksum {} + | sort); }
wrong_start() { awk '$2 > 0 && $3 != $2' starts; }
same() {	# DIR REFERENCE
	[ "$(best "$1")" = "$(best "$2")" ] && [ "$(table "$1")" = "$(table "$2")" ] && [ "$(files "$1")" = "$(files "$2")" ] &&
		[ -z "$(wrong_start)" ]
}
empty() { holds 's["objects"] == {} and s["uploads"] == 0' && [ -z "$(find "$1" -name '.incoming*' -o -name STORED -o -name token)" ]; }
couriers() { grep -lza "^$work/tmp/espalier-run-" /proc/[0-9]*/cmdline 2>/dev/null; }
nothing_left() {
	for i in $(seq 50); do [ -z "$(ls tmp)" ] && [ -z "$(couriers)" ] && return 0; sleep 0.1; done
	err="left: $(ls tmp)"
	return 1
}
