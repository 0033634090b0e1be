#!/bin/bash
# Measures the real world on this machine and prints one JSON object a line:
#   reports     reports a second from 64 ranks into the journal, and whether any was lost
#   starts      milliseconds from the decision to the running ranks, with 2, 4 and 8 slots
#   prediction  a paced search on 4 nodes: what simulate said, what it took
# bench_real.sh [reports|starts|prediction]...   from a build folder, or with ESPALIER set
set -eu
build=${abs_top_builddir:-$PWD}
: "${ESPALIER:=$build/espalier}" "${PYTHON3:=python3}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

config() {	# NAME TRIAL ALGORITHM GPUS NODES
	cat <<END
experiment = { name = "$1"; metric = "loss"; goal = "minimize"; seed = 7; };
trial = { trainable = "sleep"; gpus_max = 1; checkpoint_every = "0s"; $2 };
space = { x = { type = "real"; low = 0.0; high = 1.0; }; };
algorithm = { $3 };
allocator = { use = "static"; gpus = $(($4 * $5)); };
cloud = { use = "local"; nodes = $5; gpus = $4; device = "cpu"; };
placer = { use = "colocate"; };
END
}
ask() {	# DB PROGRAM: run with `db` open
	"$PYTHON3" -c "
import json, sqlite3, statistics, sys
db = sqlite3.connect('$1/results.db')
$2"
}

reports() {
	config reports 'options = { iteration_s = 0.0; };' 'use = "random"; trials = 64; iterations_max = 5000;' 64 1 >reports.cfg
	"$ESPALIER" run reports.cfg --dir reports --quiet >/dev/null
	ask reports "
n, a, b = db.execute('select count(*), min(at_s), max(at_s) from reports').fetchone()
print(json.dumps({'bench': 'reports', 'ranks': 64, 'reports': n, 'lost': 64 * 5000 - n, 'reports_per_s': round(n / (b - a))}))"
}
starts() {
	for slots in 2 4 8; do
		config starts 'options = { iteration_s = 0.02; };' 'use = "random"; trials = 300; iterations_max = 2;' $slots 1 >starts.cfg
		"$ESPALIER" run starts.cfg --dir starts$slots --quiet >/dev/null
		ask starts$slots "
d = sorted((b - a) * 1e3 for a, b in db.execute('select starting_s, running_s from gangs where running_s not null'))
print(json.dumps({'bench': 'starts', 'slots': $slots, 'gangs': len(d), 'median_ms': round(statistics.median(d), 3), 'p95_ms': round(d[int(.95 * len(d))], 3), 'max_ms': round(d[-1], 3)}))"
	done
}
prediction() {
	config prediction 'options = { iteration_s = 0.5; open_s = 0.05; };
		profile = { iteration = { mean = "0.5s"; }; start = "53ms"; checkpoint = "4ms"; };' \
		'use = "sha"; trials = 16; iterations_min = 2; iterations_max = 16; eta = 2;' 1 4 >prediction.cfg
	said=$("$ESPALIER" simulate prediction.cfg --json | tail -n 1)
	took=$("$ESPALIER" run prediction.cfg --dir prediction --json | tail -n 1)
	"$PYTHON3" -c '
import json, sys
said, took = (json.loads(a)["jct_s"] for a in sys.argv[1:])
print(json.dumps({"bench": "prediction", "predicted_s": said, "took_s": round(took, 3), "error_percent": round(100 * (took / said - 1), 2)}))' "$said" "$took"
}

[ $# -gt 0 ] || set -- reports starts prediction
for what; do "$what"; done
