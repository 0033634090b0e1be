#!/bin/bash
# bench_store.sh [MIB] - a checkpoint on its way to a bucket (tests/aws/s3.py, without its checksums, which are slow), against a
# PUT of the same size by curl.  Prints JSON.  Needs python3, curl and a build: ESPALIER=BUILD/espalier.
# RATE=400mbit makes the link slower than the processors (link.sh).
size=${1:-256}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/link.sh"
abs_top_srcdir=$(cd "$here/../.." && pwd)
. "$abs_top_srcdir/tests/runs/tap.sh"
. "$abs_top_srcdir/tests/runs/s3.sh"
start_s3
cat >train.py <<-'END'
	import os, time
	work = os.environ["WORK"]
	pipe = os.fdopen(int(os.environ["ESPALIER_REPORT_FD"]), "rb+", 0)
	pipe.write(b'{"iteration": 1, "metrics": {"score": 1}}\n')
	pipe.readline()
	with open(os.environ["ESPALIER_SAVE"] + "/state", "wb") as file:
	    for i in range(int(os.environ["SIZE"])):
	        file.write(os.urandom(1 << 20))
	    os.fsync(file.fileno())
	time.sleep(1)
	open(work + "/begun", "w").write(str(time.time()))
	pipe.write(b'{"saved": 1}\n')
	for i in range(600):
	    time.sleep(0.1)
	    if os.path.exists(work + "/done"):
	        break
	pipe.write(b'{"iteration": 2, "metrics": {"score": 2}, "finished": true}\n')
	END
# A PUT that is signed in its address, as Amazon describes it.
cat >sign.py <<-'END'
	import datetime, hashlib, hmac, sys
	from urllib.parse import quote
	base, key, secret, token, path = sys.argv[1:]
	now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
	scope = now[:8] + "/eu-central-1/s3/aws4_request"
	query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": key + "/" + scope, "X-Amz-Date": now,
	    "X-Amz-Expires": "600", "X-Amz-Security-Token": token, "X-Amz-SignedHeaders": "host;if-none-match"}
	query = "&".join("%s=%s" % (name, quote(value, safe="")) for name, value in sorted(query.items()))
	request = "\n".join(["PUT", path, query, "host:" + base.split("//")[1].rstrip("/"), "if-none-match:*", "",
	    "host;if-none-match", "UNSIGNED-PAYLOAD"])
	text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(request.encode()).hexdigest()])
	signer = ("AWS4" + secret).encode()
	for part in scope.split("/"):
	    signer = hmac.new(signer, part.encode(), hashlib.sha256).digest()
	print(base.rstrip("/") + path + "?" + query + "&X-Amz-Signature=" + hmac.new(signer, text.encode(), hashlib.sha256).hexdigest())
	END
cat >local.cfg <<-END
	experiment = { name = "bench"; metric = "score"; goal = "maximize"; seed = 1; };
	trial = { command = [ "$PYTHON3", "train.py" ]; gpus_max = 1; env = { WORK = "$work"; SIZE = "$size"; }; };
	space = { x = { type = "int"; low = 0; high = 99; }; };
	algorithm = { use = "random"; trials = 1; iterations_max = 2; };
	allocator = { use = "static"; gpus = 1; };
	cloud = { use = "local"; gpus = 1; };
	END
write_store bench.cfg 'checksums = false;'
now() { "$PYTHON3" -c 'import time; print(time.time())'; }
"$ESPALIER" run bench.cfg --dir run >out 2>err &
driver=$!
for i in $(seq 3000); do
	[ -e begun ] && fetch "$url/_/state" | grep -q MANIFEST && break
	kill -0 $driver 2>/dev/null || break
	sleep 0.02
done
now >ended
touch done
wait $driver || { cat err >&2; exit 1; }
head -c "${size}M" /dev/urandom >state
best=$(for i in 1 2 3; do
	target=$("$PYTHON3" sign.py "$url" AKIDCANARY "$secret" "$session" "/pears/state-$i")
	curl -fsS -o /dev/null -w '%{time_total}\n' -H 'If-None-Match: *' -T state "$target" || exit 1
done | sort -n | head -n 1)
"$PYTHON3" - "$size" "$(cat begun)" "$(cat ended)" "$best" "$(sed -n 's/.*sent through the bucket.* in \(.*\)$/\1/p' err)" <<-'END'
	import json, sys
	size, begun, ended, put, said = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
	moved = float(said[:-2]) / 1e3 if said.endswith("ms") else float(said.rstrip("s"))
	print(json.dumps({"mib": size, "saved_to_durable_s": round(ended - begun, 3), "sent_s": moved, "put_s": round(put, 3),
	    "sent_ratio": round(put / moved, 2), "durable_ratio": round(put / (ended - begun), 2)}))
	END
