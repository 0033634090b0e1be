#!/usr/bin/env python3
"""Prediction against simulation: plan_agree.py ESPALIER [CASES [SEED [noise]]]

Makes random searches, asks `ESPALIER plan` what each will take and cost, lets `ESPALIER simulate` run it, and compares,
for every combination of the switches of `planning`; `release` alternates (RELEASE=idle: always that). Without noise time and cost must be within 0.1 %; with noise the mean of
many simulations must be within 3 standard errors (one case in a few hundred is expected beyond: 4 is what fails).
A quarter of them (BRACKETS=0.25) has several brackets, one after the other (with ORDER=side-by-side: all at once), and of the
others a quarter (STAGES=0.25) has stages spelled out, in which trials may join late.
Prints a line for each case that differs and ends with 'N agree, N differ'. Exit status 1 if any differed.
"""
import itertools, json, os, random, subprocess, sys, tempfile

ALLOCATORS = ["static", "naive-elastic", "elastic-greedy", "elastic-exact"]
RUNS = int(os.environ.get("RUNS", "40"))
BRACKETS = float(os.environ.get("BRACKETS", "0.25"))
STAGES = float(os.environ.get("STAGES", "0.25"))


def latency_table(rng):
    """Seconds an iteration against GPUs, never rising, never better than linear."""
    seconds, table = rng.uniform(2, 60), []
    for gpus in (1, 2, 4, 8, 16):
        table.append((gpus, round(seconds, 3)))
        seconds *= rng.uniform(0.5, 1.0)
    return table


def span(mean, noisy, rng):
    if not noisy or mean == 0:
        return f'"{mean}s"'
    return f'{{ dist = "{rng.choice(["normal", "lognormal"])}"; mean = "{mean}s"; sd = "{round(mean * rng.uniform(0.05, 0.3), 4)}s"; }}'


def case(rng, noisy):
    """A configuration without `planning`, and a deadline to set later or None."""
    eta = rng.choice((2, 3, 4))
    trials = rng.randint(4, 48)
    least = rng.randint(1, 3)
    most = least * eta ** rng.randint(1, 4)
    table = ", ".join(f"({g}, {s})" for g, s in latency_table(rng))
    per_node = rng.choice((1, 2, 4, 8))
    sd = ' iteration = { dist = "normal"; sd = "%ss"; };' % round(rng.uniform(0.1, 1.0), 3) if noisy else ""
    search = f'use = "sha"; rungs = "{rng.choice(("incremental", "cumulative"))}"; trials = {trials};'
    if rng.random() < BRACKETS and most <= least * 27:	# several brackets
        search = f'use = "hyperband"; order = "{os.environ.get("ORDER", "sequence")}";'
    ladder = f'iterations_min = {least}; iterations_max = {most}; eta = {eta};'
    if "hyperband" not in search and rng.random() < STAGES:
        rows = ", ".join(f"({rng.randint(1, 24)}, {rng.randint(1, 9)})" for _ in range(rng.randint(2, 5)))
        search, ladder = f'use = "stages"; stages = ( {rows} );', ""
    kind, speeds = "", ""
    if rng.random() < 0.3:	# another type of GPU than the profile's
        kind, speeds = 'gpu_type = "V100"; ', f' speed = ( ("V100", {round(rng.uniform(0.4, 5), 2)}) );'
    billing = "function" if rng.random() < 0.25 else "instance"
    return f'''experiment = {{ name = "case"; metric = "loss"; goal = "minimize"; seed = {rng.randint(0, 10**6)};
  data_gb = {float(rng.choice((0, 0, 5)))}; sync = {span(rng.choice((0, 0, 1.5)), noisy, rng)}; }};
trial = {{ trainable = "quadratic"; colocate = {rng.choice(("true", "true", "false"))};
  profile = {{ latency = ( {table} );{sd}{speeds} start = {span(rng.choice((0, 2.5)), noisy, rng)};
    checkpoint = {span(rng.choice((0, 0.75)), noisy, rng)}; restore = {span(rng.choice((0, 1.25)), noisy, rng)}; }}; }};
space = {{ lr = {{ type = "real"; low = 0.001; high = 1.0; scale = "log"; }}; }};
algorithm = {{ {search} {ladder} }};
cloud = {{ use = "sim"; offers = ( {{ name = "node"; {kind}gpus = {per_node}; price = {round(rng.uniform(0.5, 30), 2)};
  billing = "{billing}"; minimum_charge = "{rng.choice((0, 0, 60))}s"; data_price_gb = {rng.choice((0.0, 0.02))};
  provision = {span(rng.choice((0, 5, 20)), noisy, rng)}; init = {span(rng.choice((0, 0, 15)), noisy, rng)};
  bill_init = {rng.choice(("true", "false"))}; billing_step = "{rng.choice((0, 0, 0, 60))}s"; }} ); }};
placer = {{ use = "colocate"; }};
'''


def answer(command):
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = run.stdout.strip().splitlines()
    return run.returncode, json.loads(lines[-1]) if lines else None, run.stderr


def spread(values):
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)) ** 0.5


def compare(espalier, file, seed, noisy):
    """What differs between plan and simulation, as text, and the deviations in standard errors; None: no such plan.

    A seed decides what the planner samples, too, and so perhaps the plan: both are asked with the same ones."""
    runs, found, beyond = [], [], []
    for i in range(RUNS if noisy else 1):
        status, plan, err = answer([espalier, "plan", file, "--json", "--set", f"experiment.seed={seed + i}"])
        if status == 3:
            return None, beyond
        if status != 0:
            return f"plan exits {status}: {err.strip().splitlines()[-1:]}", beyond
        status, summary, err = answer([espalier, "simulate", file, "--json", "--seed", str(seed + i)])
        if status != 0:
            return f"simulate exits {status}: {err.strip().splitlines()[-1:]}", beyond
        if summary["status"] == "deadline":
            return None, beyond		# cut short: nothing to compare
        runs.append((plan["predicted"], summary))
    for name in ("jct_s", "cost_usd"):
        mean, sd = spread([summary[name] - told[name]["mean"] for told, summary in runs])
        size = spread([told[name]["mean"] for told, _ in runs])[0]
        # each prediction is a mean of samples, too
        told_sd = spread([told[name].get("sd", 0) or 0 for told, _ in runs])[0]
        error = (sd ** 2 / len(runs) + told_sd ** 2 / 128 / len(runs)) ** 0.5 if noisy else 0
        if error > 0:
            beyond.append(abs(mean) / error)
        if abs(mean) > max(4 * error, (0.002 if noisy else 0.001) * abs(size) + 1e-5):
            found.append(f"{name} {size + mean:.6f}, predicted {size:.6f}" + (f" (se {error:.4f})" if noisy else ""))
    return "; ".join(found), beyond


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    espalier = sys.argv[1]
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    noisy = len(sys.argv) > 4 and sys.argv[4] == "noise"
    agree = differ = skipped = 0
    deviations = []
    for number in range(cases):
        rng = random.Random(seed * 100003 + number)
        text, allocator = case(rng, noisy), rng.choice(ALLOCATORS)
        slack = rng.uniform(1.2, 6)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "case.cfg")
            size = rng.randint(1, 40)
            open(file, "w").write(text + f'allocator = {{ use = "static"; gpus = {size}; }};\n')
            status, plan, err = answer([espalier, "plan", file, "--json"])
            fixed = status == 0
            for turn, (queue, warm, ahead) in enumerate(itertools.product(("list", "chain"), ("false", "true"), ("false", "true"))):
                release = os.environ.get("RELEASE") or ("idle", "stage")[(number + turn + turn // 2 + turn // 4) % 2]
                limit = ""
                which = f'allocator = {{ use = "static"; gpus = {size}; }};\n'
                if fixed and (not noisy or number % 2):
                    limit = plan["predicted"]["jct_s"]["mean"] * slack / 2
                    which = f'allocator = {{ use = "{allocator}"; gpus_max = 64; }};\n'
                whole = text.replace('goal = "minimize";', 'goal = "minimize"; ' + (f'deadline = "{limit}s";' if limit else ""))
                whole += which + f'planning = {{ queue = "{queue}"; warm = {warm}; acquire_ahead = {ahead}; release = "{release}";{" risk = 0.999;" if noisy else ""} }};\n'
                open(file, "w").write(whole)
                try:
                    found, off = compare(espalier, file, seed, noisy)
                    deviations += off
                except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
                    found = f"{type(error).__name__}: {error}"
                if found is None:
                    skipped += 1
                elif found == "":
                    agree += 1
                else:
                    differ += 1
                    print(f"case {number} ({allocator if limit else 'static'}, queue {queue}, warm {warm}, ahead {ahead}, release {release}): {found}")
                    if os.environ.get("KEEP"):
                        open(os.path.join(os.environ["KEEP"], f"case{number}-{queue}-{warm}-{ahead}.cfg"), "w").write(whole)
    if deviations:
        print(f"{sum(d > 3 for d in deviations)} of {len(deviations)} means are more than 3 standard errors off")
    print(f"{agree} agree, {differ} differ, {skipped} have no plan")
    sys.exit(1 if differ or not agree else 0)


main()
