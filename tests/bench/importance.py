#!/usr/bin/env python3
"""importance.py [TRIALS]: the importance of parameters as espalier tells it, beside Optuna's fANOVA.

Ten studies are sampled with Optuna; each is written into the results.db of a simulated run, and
`espalier export --table importance` must rank its parameters as Optuna does: the rank correlation
(Spearman) of each is printed, and must be at least 0.9.  Needs Optuna and scikit-learn from PyPI,
and ESPALIER (the program) with ESPALIER_PLUGIN_PATH where it is not installed.  Figures:
docs/results/importance.md.
"""
import csv, json, math, os, random, sqlite3, subprocess, sys, tempfile, time

import optuna

ESPALIER = os.environ.get("ESPALIER", "espalier")
TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
CONFIG = """
experiment = { name = "compared"; metric = "loss"; goal = "%s"; };
trial = { trainable = "branin"; };
space = { x1 = { type = "real"; low = -5.0; high = 10.0; }; x2 = { type = "real"; low = 0.0; high = 15.0; }; };
algorithm = { use = "random"; trials = 1; iterations_max = 1; };
allocator = { use = "fair"; };
cloud = { use = "sim"; offers = ( { name = "one"; gpus = 1; price = 1.0; provision = "1s"; } ); nodes_max = 1; };
"""


def real(name, low=0.0, high=1.0, scale="linear"):
    return {"name": name, "type": "real", "scale": scale, "low": low, "high": high}


def whole(name, low, high, scale="linear"):
    return {"name": name, "type": "int", "scale": scale, "low": low, "high": high}


def choice(name, *values):
    return {"name": name, "type": "choice", "values": list(values)}


def unit(count):
    return [real(f"x{i}") for i in range(count)]


def hartmann6(p):
    a = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    b = [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
         [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]
    c = [1, 1.2, 3, 3.2]
    x = [p[f"x{i}"] for i in range(6)]
    return -sum(c[k] * math.exp(-sum(a[k][i] * (x[i] - b[k][i] / 1e4) ** 2 for i in range(6))) for k in range(4))


def friedman(p):
    x = [p[f"x{i}"] for i in range(5)]
    return 10 * math.sin(math.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]


def network(p):
    loss = 0.1 * (math.log10(p["lr"]) + 2.5) ** 2 + 0.3 * abs(p["dropout"] - 0.2) + 0.02 * abs(math.log2(p["batch"]) - 6)
    return loss + {"sgd": 0.15, "adam": 0, "rmsprop": 0.05}[p["optimizer"]] + 0.04 * abs(p["layers"] - 4) + \
        0.01 * abs(math.log10(p["decay"]) + 4)


STUDIES = [
    ("hartmann6", "minimize", unit(6), hartmann6),
    ("friedman", "minimize", unit(5), friedman),
    ("friedman, maximize, noise", "maximize", unit(5), lambda p: friedman(p) + random.gauss(0, 1)),
    ("branin and two", "minimize", [real("x1", -5, 10), real("x2", 0, 15), real("a"), real("b")], lambda p:
        (p["x2"] - 5.1 / (4 * math.pi ** 2) * p["x1"] ** 2 + 5 / math.pi * p["x1"] - 6) ** 2 +
        10 * (1 - 1 / (8 * math.pi)) * math.cos(p["x1"]) + 10 + 30 * p["a"] + 8 * p["b"]),
    ("decaying weights", "minimize", unit(8), lambda p: sum(0.6 ** i * abs(p[f"x{i}"] - 0.4) for i in range(8))),
    ("network", "minimize", [real("lr", 1e-5, 1, "log"), real("dropout", 0, 0.9), whole("batch", 8, 512, "log"),
        choice("optimizer", "sgd", "adam", "rmsprop"), whole("layers", 1, 8), real("decay", 1e-6, 1e-2, "log")], network),
    ("choices", "maximize", [choice("a", "p", "q", "r", "s"), choice("b", "p", "q"), choice("c", "p", "q", "r"),
        choice("d", "p", "q"), real("x")], lambda p: 4 * "pqrs".index(p["a"]) + 3 * (p["b"] == "q") +
        2 * (p["c"] == "r") * (1 + p["x"]) + 0.7 * (p["d"] == "p") + p["x"]),
    ("weighted rosenbrock", "minimize", [real(f"x{i}", -2, 2) for i in range(4)], lambda p:
        sum((3 - i) * (100 * (p[f"x{i + 1}"] - p[f"x{i}"] ** 2) ** 2 + (1 - p[f"x{i}"]) ** 2) for i in range(3))),
    ("counts", "minimize", [whole(f"n{i}", 0, 20) for i in range(6)], lambda p:
        sum((6 - i) ** 2 * ((p[f"n{i}"] - 3 * i) / 20) ** 2 for i in range(6)) + random.gauss(0, 0.5)),
    ("heavy tail", "minimize", [real("lr", 1e-6, 10, "log"), real("momentum", 0, 0.99), real("clip", 0.1, 10, "log"),
        choice("norm", "batch", "layer", "none")], lambda p: math.exp(1.5 * max(0, math.log10(p["lr"]) + p["momentum"])) +
        0.2 * abs(math.log10(p["clip"])) + (0.5 if p["norm"] == "none" else 0)),
]


def suggest(trial, p):
    if p["type"] == "choice":
        return trial.suggest_categorical(p["name"], p["values"])
    ask = trial.suggest_float if p["type"] == "real" else trial.suggest_int
    return ask(p["name"], p["low"], p["high"], log=p["scale"] == "log")


def ours(trials, space, goal, folder):
    """The shares that espalier tells, of trials [(parameters, value)], and the seconds it took."""
    with open(os.path.join(folder, "c.cfg"), "w") as to:
        to.write(CONFIG % goal)
    run = os.path.join(folder, "run")
    subprocess.run([ESPALIER, "simulate", os.path.join(folder, "c.cfg"), "-q", "--dir", run], check=True, stdout=subprocess.DEVNULL)
    db = sqlite3.connect(os.path.join(run, "results.db"))
    db.execute("UPDATE meta SET value = ? WHERE key = 'space'", (json.dumps(space),))
    db.execute("DELETE FROM reports")
    db.execute("DELETE FROM trials")
    for i, (params, value) in enumerate(trials):
        db.execute("INSERT INTO trials (id, state, iteration, budget, metric, gpu_s, cost_usd, created_s, changed_s, params)"
                   " VALUES (?, 'completed', 1, 1, ?, 1, 0, 0, 1, ?)", (i, value, json.dumps(params)))
        db.execute("INSERT INTO reports VALUES (?, 1, 1, ?, 1, 1)", (i, value))
    db.commit()
    db.close()
    began = time.monotonic()
    out = subprocess.run([ESPALIER, "export", run, "--format", "csv", "--table", "importance"], check=True, stdout=subprocess.PIPE,
                         universal_newlines=True).stdout
    took = time.monotonic() - began
    return {row["parameter"]: float(row["importance"]) for row in csv.DictReader(out.splitlines())}, took


def correlate(a, b):
    """Spearman's rank correlation of two dicts with the same keys."""
    def ranks(of):
        order = sorted(of, key=of.get)
        return {name: order.index(name) for name in of}
    x, y, n = ranks(a), ranks(b), len(a)
    return 1 - 6 * sum((x[name] - y[name]) ** 2 for name in a) / (n * (n * n - 1))


def main():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    worst = 1
    print(f"| study | parameters | rank correlation | largest difference | seconds: espalier | Optuna {optuna.__version__} |")
    print("| --- | --- | --- | --- | --- | --- |")
    for n, (name, goal, space, f) in enumerate(STUDIES):
        random.seed(n)
        study = optuna.create_study(direction=goal, sampler=optuna.samplers.RandomSampler(seed=n))
        study.optimize(lambda t: f({p["name"]: suggest(t, p) for p in space}), n_trials=TRIALS)
        began = time.monotonic()
        theirs = dict(optuna.importance.FanovaImportanceEvaluator(seed=n).evaluate(study))
        took = time.monotonic() - began
        theirs = {key: value / sum(theirs.values()) for key, value in theirs.items()}
        with tempfile.TemporaryDirectory() as folder:
            mine, mine_took = ours([(t.params, t.value) for t in study.trials], space, goal, folder)
        same = correlate(mine, theirs)
        worst = min(worst, same)
        print(f"| {name} | {len(space)} | {same:.2f} | {max(abs(mine[k] - theirs[k]) for k in theirs):.3f} |"
              f" {mine_took:.2f} | {took:.2f} |", flush=True)
        if same < 0.9:
            print(mine, theirs, file=sys.stderr)
    print(f"least rank correlation: {worst:.2f}")
    return 0 if worst >= 0.9 else 1


sys.exit(main())
