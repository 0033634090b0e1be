#!/bin/sh
# `make check-aws`: the cloud aws with a real account. It leases two small machines, one on spot and one on demand, for some
# minutes each, and ends them. By hand only: it costs money.
#
#	ESPALIER_AWS_CONSENT=yes    required: without it nothing is asked
#	ESPALIER_AWS_KEY            required: file of the private key for ssh
#	ESPALIER_AWS_KEY_NAME       required: the EC2 key pair of that key
#	ESPALIER_AWS_GROUP          required: a security group, sg-..., that lets ssh in from here
#	AWS_REGION                  required; credentials as for the AWS CLI
#	ESPALIER_AWS_TYPE, _PRICE   type of machine, and its price on demand (t3.micro, 0.0104 in us-east-1)
#	ESPALIER_AWS_ZONE, _IMAGE, _USER    (a, Amazon Linux 2023, ec2-user)
#	ESPALIER_AWS_SSH            program to use for ssh (ssh)
set -u
type=${ESPALIER_AWS_TYPE:-t3.micro} price=${ESPALIER_AWS_PRICE:-0.0104} zone=${ESPALIER_AWS_ZONE:-a}
image=${ESPALIER_AWS_IMAGE:-ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64}
if [ "${ESPALIER_AWS_CONSENT-}" != yes ]; then
	cat >&2 <<-END
	check-aws: nothing was done: set ESPALIER_AWS_CONSENT=yes to lease machines of Amazon EC2, which costs money.
	It leases two machines of type $type ($price dollars per hour on demand), one after the other, for some minutes each.
	Each shuts itself down after 30 minutes at the latest, so both together cost no more than an hour of the type, and less
	than 0.02 dollars for disks and addresses. A machine whose image does not run user data does not shut itself down: look
	at the EC2 console afterwards.
	END
	exit 2
fi
for name in ESPALIER_AWS_KEY ESPALIER_AWS_KEY_NAME ESPALIER_AWS_GROUP AWS_REGION; do
	eval "value=\${$name-}"
	[ -n "$value" ] || { echo "check-aws: set $name (see the head of $0)" >&2; exit 2; }
done
espalier=${ESPALIER:-espalier}
work=$(mktemp -d) || exit 1
failed=0
release() {	# whatever happens: no machine is left
	for run in "$work"/*.run; do
		[ -d "$run" ] && "$espalier" nodes "$run" --release "$run" >/dev/null 2>&1
	done
}
trap release EXIT
trap 'exit 130' INT TERM
report() {	# STATUS TEXT
	if [ "$1" -eq 0 ]; then echo "ok - $2"; else echo "not ok - $2"; failed=1; fi
}

cat >"$work/train.sh" <<-'END'
	i=0
	while [ $i -lt 5 ]; do
		i=$((i + 1))
		sleep 1
		printf '{"iteration": %d, "metrics": {"value": %d}}\n' $i $i >&"$ESPALIER_REPORT_FD"
	done
	END
for market in spot on-demand; do
	cat >"$work/$market.cfg" <<-END
	experiment = { name = "check-aws"; metric = "value"; goal = "maximize"; seed = 1; };
	trial = { command = [ "sh", "train.sh" ]; files = [ "train.sh" ]; gpus_max = 1; retries = 1; };
	space = { x = { type = "real"; low = 0.0; high = 1.0; }; };
	algorithm = { use = "random"; trials = 2; iterations_max = 5; };
	allocator = { use = "static"; gpus = 1; };
	cloud = { use = "aws"; image = "$image"; user = "${ESPALIER_AWS_USER:-ec2-user}"; key = "$ESPALIER_AWS_KEY";
	  key_name = "$ESPALIER_AWS_KEY_NAME"; security_group = "$ESPALIER_AWS_GROUP"; ssh = ( "${ESPALIER_AWS_SSH:-ssh}" );
	  orphan = "5m"; lease_max = "30m";
	  offers = ( { type = "$type"; zone = "$zone"; market = "$market"; nodes_max = 1; price_hour = $price; gpus = 1;
	    gpu_type = "cpu"; } ); };
	END
	"$espalier" check "$work/$market.cfg" >"$work/out" 2>&1
	status=$?
	report $status "$market: keys, permissions, image, subnet, group and type are accepted (DryRun)"
	[ $status -eq 0 ] || { cat "$work/out"; continue; }
	begin=$(date +%s)
	timeout --foreground 1500 "$espalier" run "$work/$market.cfg" --dir "$work/$market.run" >"$work/out" 2>&1
	status=$?
	report $status "$market: a search of two trials on a machine of its own, which has the ssh host key that it was given"
	[ $status -eq 0 ] || cat "$work/out"
	echo "# $(($(date +%s) - begin)) s in all; $(grep -m1 'is ready' "$work/out")"
	echo "# $("$espalier" status "$work/$market.run" --json | sed -n 's/.*\("cost_usd": [0-9.e-]*\).*/\1/p')"
	"$espalier" nodes "$work/$market.run" --json >"$work/out" 2>&1
	report $? "$market: EC2 lists the machines of your runs"
	! grep -q "/$market.run\"" "$work/out"
	report $? "$market: none of this one is left"
done
if [ $failed -eq 0 ]; then
	echo "# What was not checked: an interruption. It cannot be had on purpose."
	release
	rm -rf "$work"
else
	echo "# What was written is in $work"
fi
exit $failed
