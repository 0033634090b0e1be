#!/bin/bash
# bench_nodes.sh [NODES] - what the driver needs for many nodes, each an agent on this machine whose trial reports every second.
# Prints JSON.  Needs a build: ESPALIER=BUILD/espalier.
nodes=${1:-200}
here=$(cd "$(dirname "$0")" && pwd)
abs_top_srcdir=$(cd "$here/../.." && pwd)
. "$abs_top_srcdir/tests/runs/tap.sh"
needs_python3
cat >train.sh <<-'END'
	i=0
	while :; do
	    i=$((i + 1))
	    sleep 1
	    echo "{\"iteration\": $i, \"metrics\": {\"score\": $i}}" >&$ESPALIER_REPORT_FD
	    read -r word rest <&$ESPALIER_REPORT_FD && [ "$word" = continue ] || exit 0
	done
	END
cat >bench.cfg <<-END
	experiment = { name = "bench"; metric = "score"; goal = "maximize"; seed = 1; };
	trial = { command = [ "sh", "train.sh" ]; gpus_max = 1; checkpoint = false; };
	space = { x = { type = "int"; low = 0; high = 99; }; };
	algorithm = { use = "random"; trials = $nodes; iterations_max = 45; };
	allocator = { use = "static"; gpus = $nodes; };
	cloud = { use = "local"; nodes = $nodes; gpus = 1; device = "cpu"; };
	END
"$ESPALIER" run bench.cfg --dir run >out 2>err &
driver=$!
ticks() { awk '{ print $14 + $15 }' "/proc/$driver/stat"; }
sleep 15
begun=$(ticks)
sleep 20
ended=$(ticks)
memory=$(awk '/^VmRSS/ { print $2 }' "/proc/$driver/status")
wait $driver || { cat err >&2; exit 1; }
started=$(awk '/starts on/ { at = $1 } END { print at }' out)
"$PYTHON3" - "$nodes" "$begun" "$ended" "$memory" "$started" "$(getconf CLK_TCK)" <<-'END'
	import json, sys
	nodes, begun, ended, memory, started, second = sys.argv[1:]
	print(json.dumps({"nodes": int(nodes), "all_run_after": started, "driver_cpu_ms_per_s": (int(ended) - int(begun)) * 1000 / int(second) / 20,
	    "driver_mib": round(int(memory) / 1024, 1)}))
	END
