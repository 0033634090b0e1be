# ec2.sh - the stand-in of EC2 (tests/aws/ec2.py), for tests of cloud aws; its keys are in the environment.
#
#   start_ec2 [SETTING=VALUE]...    sets $url and $ec2; its machines have sshds where start_host host (sshd.sh) has made one
#   control WHAT JSON               settings, rules and events of the stand-in
#   holds EXPRESSION                of what it knows: `s` is all of it
export PYTHONDONTWRITEBYTECODE=1 AWS_EC2_METADATA_DISABLED=true
secret=canary-Secret/Key+of+AWS session=canary-Session/Token==
export AWS_ACCESS_KEY_ID=AKIDCANARY AWS_SECRET_ACCESS_KEY=$secret AWS_SESSION_TOKEN=$session
unset AWS_PROFILE AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AWS_REGION AWS_DEFAULT_REGION
start_ec2() {
	rm -rf ec2
	"$PYTHON3" "$top/tests/aws/ec2.py" ec2 "keys=AKIDCANARY:$secret:$session" pidfile="$work/pid" ${port:+sshd="$work/host/conf"} "$@" >url &
	ec2=$!
	servers+=($ec2)
	for i in $(seq 100); do [ -s url ] && break; sleep 0.05; done
	url=$(cat url)
}
stop_ec2() { kill $ec2; wait $ec2 2>/dev/null; : >url; }
control() { fetch "$url/_/$1" "$2" >/dev/null; }
# state EXPRESSION: of what the stand-in knows; `s` is all of it
state() { fetch "$url/_/ask" "$1"; }
holds() { [ "$(state "$1")" = True ] || { err="$err; EC2 says: $(state '{k: v for k, v in s.items() if k != "machines"}')"; return 1; }; }
