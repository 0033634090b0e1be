#!/bin/bash
# bench_relay.sh [MIB] - a checkpoint on its way from a node with a disk of its own, against scp on the same loopback;
# and what a report waits meanwhile.  Prints JSON.  Needs sshd, python3 and a build: ESPALIER=BUILD/espalier.
# RATE=400mbit makes the link slower than the processors (link.sh).
size=${1:-256}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/link.sh"
abs_top_srcdir=$(cd "$here/../.." && pwd)
. "$abs_top_srcdir/tests/runs/tap.sh"
. "$abs_top_srcdir/tests/runs/sshd.sh"
needs_python3
mkdir -p private host/disk
unshare -m mount -t tmpfs none private || exit 1
start_host host "ForceCommand unshare -m sh -c 'mount -t tmpfs none $work/private; export TMPDIR=$work/host/disk; eval \"\$SSH_ORIGINAL_COMMAND\"'"
forced=$port
start_host plain "Subsystem sftp internal-sftp"
can_log_in "$port"
cat >train.py <<-'END'
	import json, os, time
	work, size = os.environ["WORK"], int(os.environ["SIZE"])
	pipe = os.fdopen(int(os.environ["ESPALIER_REPORT_FD"]), "rb+", 0)
	def report(i, **more):
	    begun = time.monotonic()
	    pipe.write(json.dumps({"iteration": i, "metrics": {"score": i}, **more}).encode() + b"\n")
	    word = b""
	    while not word.endswith(b"\n"):
	        word += pipe.read(1)
	    return begun, time.monotonic() - begun
	if os.environ["ESPALIER_TRIAL"] == "0":
	    report(1)
	    time.sleep(2)
	    save = os.environ["ESPALIER_SAVE"]
	    with open(save + "/state", "wb") as file:
	        block = os.urandom(1 << 20)
	        for i in range(size):
	            file.write(block)
	        os.fsync(file.fileno())
	    time.sleep(0.5)
	    open(work + "/begun", "w").write(str(time.monotonic()))
	    pipe.write(b'{"saved": 1}\n')
	    for i in range(2, 400):
	        time.sleep(0.05)
	        if os.path.exists(work + "/done"):
	            break
	    report(400, finished=True)
	else:
	    with open(work + "/latency", "w") as file:
	        for i in range(1, 4000):
	            begun, took = report(i)
	            file.write("%.6f %.6f\n" % (begun, took))
	            file.flush()
	            time.sleep(0.01)
	            if os.path.exists(work + "/done"):
	                break
	    report(4000, finished=True)
	END
cat >bench.cfg <<-END
	experiment = { name = "bench"; metric = "score"; goal = "maximize"; seed = 1; };
	trial = { command = [ "python3", "train.py" ]; gpus_max = 1; env = { WORK = "$work"; SIZE = "$size"; }; };
	space = { x = { type = "int"; low = 0; high = 99; }; };
	algorithm = { use = "random"; trials = 2; iterations_max = 4000; };
	allocator = { use = "static"; gpus = 2; };
	cloud = { use = "ssh"; ssh = ( "ssh", "-F", "$work/ssh_config" ); hosts = ( $(host node "$forced") ); };
	END
now() { "$PYTHON3" -c 'import time; print(time.monotonic())'; }
"$ESPALIER" run bench.cfg --dir private/run >out 2>err &
driver=$!
for i in $(seq 6000); do	# sealed on the node: from now on it moves
	[ -e begun ] && [ -e "$(echo host/disk/*/trials/0/checkpoint-1)" ] && break
	kill -0 $driver 2>/dev/null || break
	sleep 0.01
done
now >begun
for i in $(seq 6000); do
	[ -e private/run/trials/0/checkpoint-1 ] && break
	kill -0 $driver 2>/dev/null || break
	sleep 0.01
done
now >ended
touch done
wait $driver || { cat err >&2; exit 1; }
# scp of a file of that size, to the disk as the checkpoint is; three times, the best counts.
head -c "${size}M" /dev/urandom >state
scp_best=$(for i in 1 2 3; do
	rm -f copy
	begun=$(now)
	scp -q -F ssh_config -i key -P "$port" "127.0.0.1:$work/state" copy || exit 1
	sync copy
	echo "$begun $(now)"
done | awk '{ t = $2 - $1; if (best == 0 || t < best) best = t } END { print best }')
"$PYTHON3" - "$size" "$(cat begun)" "$(cat ended)" "$scp_best" <<-'END'
	import json, statistics, sys
	size, begun, ended, scp = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
	idle, busy = [], []
	for line in open("latency"):
	    at, took = map(float, line.split())
	    (busy if begun <= at <= ended else idle if at < begun - 0.6 else []).append(took * 1e3)
	print(json.dumps({"mib": size, "relay_s": round(ended - begun, 3), "scp_s": round(scp, 3), "ratio": round(scp / (ended - begun), 2),
	    "report_idle_ms": round(statistics.median(idle), 2), "report_busy_ms": round(statistics.median(busy), 2),
	    "report_ratio": round(statistics.median(busy) / statistics.median(idle), 2), "reports_busy": len(busy),
	    "report_busy_max_ms": round(max(busy), 1)}))
	END
grep -a "sent over" err >&2
