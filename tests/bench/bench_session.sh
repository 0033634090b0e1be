#!/bin/bash
# bench_session.sh - what a node behind sshd on this machine costs: a trial's start on a node that is ready, against
# `ssh HOST true`, and a connection that is cut. Prints JSON. Needs sshd, python3 and a build: ESPALIER=BUILD/espalier.
here=$(cd "$(dirname "$0")" && pwd)
abs_top_srcdir=$(cd "$here/../.." && pwd)
. "$abs_top_srcdir/tests/runs/tap.sh"
. "$abs_top_srcdir/tests/runs/sshd.sh"
needs_python3
start_host one
can_log_in "$port"
red=$port blue=
. "$abs_top_srcdir/tests/runs/session.sh"
now() { "$PYTHON3" -c 'import time; print(time.monotonic())'; }
write_search start.cfg 0
sed -i 's/^algorithm.*/algorithm = { use = "random"; trials = 40; iterations_max = 1; };/; s/gpus = 4/gpus = 1/' start.cfg
"$ESPALIER" run start.cfg --dir start --json >start.json 2>start.err || { cat start.err >&2; exit 1; }
for i in $(seq 20); do
	begun=$(now)
	ssh -F ssh_config -i key -p "$red" -oBatchMode=yes 127.0.0.1 true
	echo "$begun $(now)"
done >ssh.times
# One trial of 60 iterations of 50 ms, with and without a cut in the middle, in turn.
write_search cut.cfg 0.05
sed -i 's/^algorithm.*/algorithm = { use = "random"; trials = 1; iterations_max = 60; };/; s/gpus = 4/gpus = 1/' cut.cfg
for i in 1 2 3 4 5; do
	for how in plain cut; do
		rm -rf run cut.cfg.trained
		"$ESPALIER" run cut.cfg --dir run --json >$how$i.json 2>$how$i.err &
		driver=$!
		await_trained cut.cfg 30
		[ $how = cut ] && kill_ours KILL 'ssh -F'
		wait $driver || { cat $how$i.err >&2; exit 1; }
		[ "$(trained cut.cfg)" -eq 60 ] || { echo "$(trained cut.cfg) iterations instead of 60" >&2; exit 1; }
	done
done
"$PYTHON3" - <<-'END'
	import json, statistics
	def events(name):
	    return [json.loads(line) for line in open(name)]
	begun, took = {}, []
	for e in events("start.json"):
	    if e["event"] == "gang" and e["state"] == "starting":
	        begun[e["trial"]] = e["at_s"]
	    elif e["event"] == "report":
	        took.append((e["at_s"] - begun[e["trial"]]) * 1e3)
	ssh = [(b - a) * 1e3 for a, b in (map(float, line.split()) for line in open("ssh.times"))]
	def length(name):
	    at = [e["at_s"] for e in events(name) if e["event"] == "report"]
	    return at[-1] - at[0], max(b - a for a, b in zip(at, at[1:]))
	plain = [length(f"plain{i}.json") for i in range(1, 6)]
	cut = [length(f"cut{i}.json") for i in range(1, 6)]
	median = lambda values: round(statistics.median(values), 3)
	print(json.dumps({"start_ms": median(took[1:]), "ssh_true_ms": median(ssh), "ratio": round(statistics.median(took[1:]) / statistics.median(ssh), 2),
	    "plain_s": median(p[0] for p in plain), "cut_s": median(c[0] for c in cut),
	    "cut_costs_s": round(statistics.median(c[0] for c in cut) - statistics.median(p[0] for p in plain), 3),
	    "longest_gap_s": median(c[1] for c in cut)}))
	END
