#!/bin/sh
# Throughput of the simulated world: 100,000 trials of random and of sha on 1,000 simulated GPUs; and of random with
# a profile without variance, where a thousand trials end in one instant and are answered in one call.
# Prints one JSON object a case.  TRIALS and ESPALIER (the program) may be set.
espalier=${ESPALIER:-${abs_top_builddir:-.}/espalier}
trials=${TRIALS:-100000}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

config() {	# algorithm group, profile
	cat <<END
experiment = { name = "bench"; metric = "loss"; goal = "minimize"; };
trial = { trainable = "hartmann6"; gpus_max = 1; checkpoint = true;
  profile = { $2 }; };
space = {
$(for i in 0 1 2 3 4 5; do echo "  x$i = { type = \"real\"; low = 0.0; high = 1.0; };"; done)
};
algorithm = { $1 };
allocator = { use = "static"; gpus = 1000; };
cloud = { use = "sim"; nodes_max = 125;
  offers = ( { name = "node"; gpus = 8; price = 24.48; provision = "15s"; init = "5s"; } ); };
placer = { use = "colocate"; };
END
}

# Seconds with a fraction.
now() { date +%s.%N; }

varied='iteration = { dist = "lognormal"; mean = "4s"; sd = "1s"; }; start = "2s"; checkpoint = "1s";'
measure() {	# name, algorithm group, profile
	config "$2" "$3" >"$work/$1.cfg"
	begun=$(now)
	"$espalier" simulate "$work/$1.cfg" --seed 1 --json >"$work/$1.out" 2>"$work/$1.err" &
	pid=$!
	peak=0
	while kill -0 $pid 2>/dev/null; do
		kib=$(awk '/^VmHWM/ { print $2 }' /proc/$pid/status 2>/dev/null)
		[ "${kib:-0}" -gt "$peak" ] && peak=$kib
		sleep 0.05
	done
	wait $pid
	rc=$?
	ended=$(now)
	summary=$(grep '"event": *"summary"' "$work/$1.out" | tail -n 1)
	awk -v name="$1" -v rc=$rc -v a="$begun" -v b="$ended" -v n="$trials" -v kib="$peak" \
	    -v summary="${summary:-null}" 'BEGIN {
		printf "{\"bench\": \"simulate-%s\", \"status\": %d, \"trials\": %d, \"wall_s\": %.3f, ", name, rc, n, b - a
		printf "\"peak_kib\": %d, \"bytes_per_trial\": %.0f, \"summary\": %s}\n", kib, (kib - 51200 > 0 ? kib - 51200 : 0) * 1024 / n, summary
	}'
	[ $rc -eq 0 ] || sed 's/^/# /' "$work/$1.err" >&2
	return $rc
}

failed=0
measure random "use = \"random\"; trials = $trials; iterations_max = 3;" "$varied" || failed=1
measure random-constant "use = \"random\"; trials = $trials; iterations_max = 3;" \
	'iteration = "1s"; start = "1s";' || failed=1
measure sha "use = \"sha\"; trials = $trials; iterations_min = 1; iterations_max = 27; eta = 3;" "$varied" || failed=1
exit $failed
