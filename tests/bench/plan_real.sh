#!/bin/bash
# Holds plans against real runs on this machine: measures a profile, plans with it, runs, compares, and prints one JSON
# object for each case:
#   paced     trials that sleep for known times, on 4 local nodes of one slot
#   fashion   Fashion-MNIST on 2 local nodes of one slot
# plan_real.sh [paced|fashion]...   from a build folder, or with ESPALIER set
#   WAIT=600        waits at most so many seconds for a quiet machine, less than a quarter of its processors busy (0)
#   SLACK=1.15      the deadline, relative to the soonest plan
#   KEEP=FOLDER     runs, profiles and plans stay there
# What another program takes from the machine in the meantime shows up as an error: `load` tells.  Exit status 1 if a
# step failed (the object says which), not if a prediction was off.
set -u
build=${abs_top_builddir:-$PWD}
: "${ESPALIER:=$build/espalier}" "${PYTHON3:=python3}" "${WAIT:=0}" "${SLACK:=1.15}"
export ESPALIER_PLUGIN_PATH=${ESPALIER_PLUGIN_PATH-$build/plugins} ESPALIER_LIBEXEC=${ESPALIER_LIBEXEC-$build}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/.cache	# no profile that the user keeps
failed=0

paced() {
	cat >paced.cfg <<-'END'
	experiment = { name = "paced"; metric = "loss"; goal = "minimize"; seed = 7; };
	trial = { trainable = "sleep"; options = { iteration_s = 1.5; open_s = 0.2; }; gpus_max = 1; };
	space = { x = { type = "real"; low = 0.0; high = 1.0; }; };
	algorithm = { use = "sha"; trials = 24; iterations_min = 2; iterations_max = 16; eta = 2; };
	allocator = { use = "elastic-exact"; };
	cloud = { use = "local"; nodes = 4; gpus = 1; device = "cpu"; price = 36.0; };
	END
	measure paced 10
}
# All trials take the same time: what differs between them does not change it.
fashion() {
	cat >fashion.cfg <<-'END'
	experiment = { name = "fashion"; metric = "val_accuracy"; goal = "maximize"; seed = 1; };
	trial = { trainable = "fashion_cnn"; options = { train = 16000; validate = 2000; }; gpus_max = 1; };
	space = {
	  learning_rate = { type = "real"; low = 1e-3; high = 1e-1; scale = "log"; };
	  momentum = { type = "real"; low = 0.5; high = 0.95; };
	  width = { type = "choice"; values = [ 8 ]; };
	  dropout = { type = "real"; low = 0.0; high = 0.5; };
	  batch_size = { type = "choice"; values = [ 64 ]; };
	};
	algorithm = { use = "sha"; trials = 12; iterations_min = 4; iterations_max = 32; eta = 2; };
	allocator = { use = "elastic-exact"; };
	cloud = { use = "local"; nodes = 2; gpus = 1; device = "cpu"; price = 36.0; };
	END
	measure fashion 20
}

wait_for_quiet() {
	local until=$((SECONDS + WAIT)) cpus
	cpus=$(nproc)
	while [ $SECONDS -lt $until ] && awk -v n="$cpus" '{ exit !($1 >= n / 4) }' /proc/loadavg; do
		sleep 5
	done
}
load() { cut -d ' ' -f 1 /proc/loadavg; }
# NAME STEP COMMAND...: standard output to NAME-STEP.json; a failure is told
step() {
	local name=$1 step=$2 rc
	shift 2
	"$@" >"$name-$step.json" 2>"$name-$step.err"
	rc=$?
	[ $rc -eq 0 ] || [ "$step" = soonest -a $rc -eq 3 ] && return 0
	"$PYTHON3" -c '
import json, sys
print(json.dumps({"bench": "plan_real", "case": sys.argv[1], "failed": sys.argv[2], "status": int(sys.argv[3]), "why": open(sys.argv[4]).read().strip()[-400:]}))' \
		"$name" "$step" $rc "$name-$step.err"
	failed=1
	return 1
}
# NAME ITERATIONS: of NAME.cfg; so many iterations are timed.
measure() {
	local name=$1 before after deadline
	wait_for_quiet
	before=$(load)
	step "$name" profile "$ESPALIER" profile "$name.cfg" -n "$2" -t 0s -o "$name.profile" --json || return
	set -- "$name" --set "trial.profile=$name.profile"
	step "$name" soonest "$ESPALIER" plan "$name.cfg" "${@:2}" --set experiment.deadline=1ms --json || return
	deadline=$("$PYTHON3" -c 'import json, sys; print("%.3fs" % (json.load(open(sys.argv[1]))["least"]["jct_s"] * float(sys.argv[2])))' \
		"$name-soonest.json" "$SLACK") || { failed=1; return; }
	set -- "$@" --set "experiment.deadline=$deadline"
	step "$name" plan "$ESPALIER" plan "$name.cfg" "${@:2}" --json || return
	step "$name" run "$ESPALIER" run "$name.cfg" "${@:2}" --dir "$name" --json || return
	"$ESPALIER" explain "$name" >"$name-explain.txt" 2>&1
	after=$(load)
	"$PYTHON3" - "$name" "$before" "$after" "$(nproc)" <<-'END' || failed=1
	import json, sqlite3, sys

	name, before, after, cpus = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
	profile = json.load(open(name + ".profile"))
	plan = json.load(open(name + "-plan.json"))
	run = json.loads(open(name + "-run.json").read().strip().splitlines()[-1])
	db = sqlite3.connect(name + "/results.db")
	ends = dict(db.execute("select stage, max(ended_s) from groups group by stage"))
	leases = [[round(b - a, 3), c] for a, b, c in db.execute("select billed_from_s, ended_s, charged_usd from nodes")
	          if a is not None and b is not None]
	said, cost = plan["predicted"]["jct_s"], plan["predicted"]["cost_usd"]
	off = [100 * (took / told["mean"] - 1) for took, told in ((run["jct_s"], said), (run["cost_usd"], cost))]
	print(json.dumps({
	    "bench": "plan_real", "case": name, "status": run["status"], "time_error_percent": round(off[0], 2),
	    "cost_error_percent": round(off[1], 2), "within_5_percent": run["status"] == "done" and max(map(abs, off)) <= 5,
	    "predicted": {"jct_s": round(said["mean"], 3), "jct_sd_s": round(said["sd"], 3), "cost_usd": round(cost["mean"], 4)},
	    "took": {"jct_s": round(run["jct_s"], 3), "cost_usd": run["cost_usd"]},
	    "stages": [{"stage": s["stage"], "trials": s["trials"], "nodes": s["nodes"], "predicted_end_s": round(s["ends_s"], 3),
	                "end_s": round(ends[s["stage"]], 3)} for s in plan["stages"] if ends.get(s["stage"]) is not None],
	    "leases_s_usd": leases,
	    "profile": {part: profile[part] for part in ("iteration", "start", "checkpoint", "restore") if part in profile},
	    "planned_anew": "new plan: " in open(name + "-explain.txt").read(), "failed_trials": run["failed"],
	    "cpus": cpus, "load": [before, after]}))
	END
	if [ -n "${KEEP-}" ]; then
		mkdir -p "$KEEP" && cp -r "$name" "$name".* "$name"-* "$KEEP"
	fi
}

[ $# -gt 0 ] || set -- paced fashion
for what; do
	case $what in
	paced|fashion) "$what" ;;
	*) echo "plan_real.sh: there is no case '$what': paced, fashion" >&2; exit 2 ;;
	esac
done
exit $failed
