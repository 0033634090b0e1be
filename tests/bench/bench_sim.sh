#!/bin/sh
# Throughput of the simulated world: 100,000 trials of random and of sha on 1,000 simulated GPUs; and of random with
# a profile without variance, where a thousand trials end in one instant and are answered in one call.
# Memory for a trial is the slope between TRIALS / 4 and TRIALS of them.
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

varied='iteration = { dist = "lognormal"; mean = "4s"; sd = "1s"; }; start = "2s"; checkpoint = "1s";'
# Runs a configuration: its output, and then a line "exit status, seconds, seconds of the processor, peak memory in KiB".
timed() {
	"${PYTHON3:-python3}" -c 'import resource, subprocess, sys, time
begun = time.monotonic()
rc = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(rc, "%.3f %.3f" % (time.monotonic() - begun, used.ru_utime + used.ru_stime), used.ru_maxrss)' \
		"$espalier" simulate "$1" --seed 1 --json
}

measure() {	# name, algorithm group without trials, profile
	config "$2 trials = $((trials / 4));" "$3" >"$work/small.cfg"
	config "$2 trials = $trials;" "$3" >"$work/$1.cfg"
	small=$(timed "$work/small.cfg" 2>"$work/$1.err" | tail -n 1)
	timed "$work/$1.cfg" >"$work/$1.out" 2>>"$work/$1.err"
	summary=$(grep '"event": *"summary"' "$work/$1.out" | tail -n 1)
	tail -n 1 "$work/$1.out" | awk -v name="$1" -v n="$trials" -v small="$small" -v summary="${summary:-null}" '{
		split(small, s, " ")
		printf "{\"bench\": \"simulate-%s\", \"status\": %d, \"trials\": %d, \"wall_s\": %s, \"cpu_s\": %s, ", name, $1, n, $2, $3
		printf "\"peak_kib\": %d, \"bytes_per_trial\": %.0f, \"summary\": %s}\n", $4, ($4 - s[4]) * 1024 / (n - int(n / 4)), summary
		exit $1 != 0
	}' && return
	sed 's/^/# /' "$work/$1.err" >&2
	return 1
}

failed=0
measure random 'use = "random"; iterations_max = 3;' "$varied" || failed=1
measure random-constant 'use = "random"; iterations_max = 3;' \
	'iteration = "1s"; start = "1s";' || failed=1
measure sha 'use = "sha"; iterations_min = 1; iterations_max = 27; eta = 3;' "$varied" || failed=1
exit $failed
