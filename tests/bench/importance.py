#!/usr/bin/env python3
"""importance.py: the importance of parameters as espalier finds it, beside Optuna's fANOVA and the exact shares.

Ten studies are sampled with Optuna; each is written into the results.db of a simulated run, from which
`espalier export --table importance` computes the shares of the parameters.  Needs Optuna and scikit-learn
from PyPI, and ESPALIER (the program) with ESPALIER_PLUGIN_PATH where it is not installed.

    importance.py [--trials N] [--page docs/results/importance.md]
"""
import argparse, csv, json, math, os, random, sqlite3, subprocess, sys, tempfile, time

import optuna

ESPALIER = os.environ.get("ESPALIER", "espalier")
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


def draw(p, part):
    """The value at a part from 0 to 1 of the range of a parameter."""
    if p["type"] == "choice":
        return p["values"][int(part * len(p["values"]))]
    low, high = p["low"], p["high"]
    value = low * (high / low) ** part if p["scale"] == "log" else low + part * (high - low)
    return value if p["type"] == "real" else min(high, max(low, round(value)))


def exact(space, f):
    """The shares by their definition: the variance of the mean over all other parameters, by simulation."""
    POINTS, EACH = 48, 1500
    shares = {}
    for p in space:
        means, noise = [], 0
        for i in range(POINTS):
            values = [f({**{q["name"]: draw(q, random.random()) for q in space}, p["name"]: draw(p, (i + 0.5) / POINTS)}) for _ in range(EACH)]
            means.append(sum(values) / EACH)
            noise += sum((v - means[-1]) ** 2 for v in values) / EACH / EACH / POINTS
        mean = sum(means) / POINTS
        shares[p["name"]] = max(0, sum((m - mean) ** 2 for m in means) / POINTS - noise)
    return {name: share / sum(shares.values()) for name, share in shares.items()}


def correlate(a, b):
    """Spearman's rank correlation of two dicts with the same keys."""
    def ranks(of):
        order = sorted(of, key=of.get)
        return {name: order.index(name) for name in of}
    x, y, n = ranks(a), ranks(b), len(a)
    return 1 - 6 * sum((x[name] - y[name]) ** 2 for name in a) / (n * (n * n - 1))


def shares_of(study, seed):
    shares = dict(optuna.importance.FanovaImportanceEvaluator(seed=seed).evaluate(study))
    return {key: float(value / sum(shares.values())) for key, value in shares.items()}


def with_exponents(study, space):
    """The same trials with the exponents of logarithmic parameters: Optuna measures these on a linear scale."""
    logs = {p["name"]: p for p in space if p.get("scale") == "log"}
    other = optuna.create_study(direction=study.direction)
    for t in study.trials:
        ranges = {**t.distributions, **{key: optuna.distributions.FloatDistribution(math.log(p["low"]), math.log(p["high"])) for key, p in logs.items()}}
        params = {key: math.log(value) if key in logs else value for key, value in t.params.items()}
        other.add_trial(optuna.trial.create_trial(params=params, distributions=ranges, value=t.value))
    return other


def compare(n, trials):
    """The row of a study: what is in the table, and the shares."""
    name, goal, space, f = STUDIES[n]
    random.seed(n)
    study = optuna.create_study(direction=goal, sampler=optuna.samplers.RandomSampler(seed=n))
    study.optimize(lambda t: f({p["name"]: suggest(t, p) for p in space}), n_trials=trials)
    began = time.monotonic()
    theirs = shares_of(study, n)
    took = time.monotonic() - began
    even = shares_of(with_exponents(study, space), n) if any(p.get("scale") == "log" for p in space) else theirs
    with tempfile.TemporaryDirectory() as folder:
        mine, mine_took = ours([(t.params, t.value) for t in study.trials], space, goal, folder)
    truth = exact(space, f)
    far = lambda shares: max(abs(shares[key] - truth[key]) for key in truth)
    return {"name": name, "parameters": len(space), "same": correlate(mine, theirs), "even": correlate(mine, even),
            "mine": far(mine), "theirs": far(theirs),
            "mine_ranks": correlate(mine, truth), "their_ranks": correlate(theirs, truth), "mine_s": mine_took, "their_s": took,
            "shares": {key: (truth[key], mine[key], theirs[key], even[key]) for key in sorted(truth, key=truth.get, reverse=True)}}


PAGE = """# Importance of parameters: espalier and Optuna

*For users of the report and of `espalier export --table importance`: whether its shares can be trusted.*

`tests/bench/importance.py --page` writes this page. It samples ten functions at random, {trials} trials each, and compares the shares that
espalier finds (fANOVA over a forest of 64 trees) with those of Optuna {version} (`FanovaImportanceEvaluator`), and both with the exact shares,
which follow from the definition by simulation.

| study | parameters | rank correlation, espalier and Optuna | espalier and Optuna, exponents | espalier and exact | Optuna and exact | largest error of a share: espalier | Optuna |
| --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

{verdict}

Optuna measures a logarithmic parameter on a linear scale, espalier on the scale on which it is sampled. "Optuna, exponents" is Optuna
with the exponents of such parameters in their place, so that both measure on the same scale.

{details}Seconds for one study, by the clock of a machine under other load: espalier {mine_s:.1f} including the start of the program and reading
`results.db`, Optuna {their_s:.0f}, without sampling.
"""


def write_page(rows, trials):
    same, even = [r for r in rows if r["same"] > 0.8999], [r for r in rows if r["even"] > 0.8999]
    verdict = "espalier ranks the parameters as Optuna does (rank correlation of at least 0.9) in %d of the %d studies where both use the\n" \
        "same scale, and in %d with Optuna as it is." % (len(even), len(rows), len(same))
    details = ""
    for r in rows:
        if r not in same:
            details += "In \"%s\" the rank correlation is %.2f, and %.2f with exponents:\n\n" % (r["name"], r["same"], r["even"])
            details += "| parameter | exact | espalier | Optuna | Optuna, exponents |\n| --- | --- | --- | --- | --- |\n"
            details += "".join("| `%s` | %.3f | %.3f | %.3f | %.3f |\n" % (key, *shares) for key, shares in r["shares"].items()) + "\n"
    mean = lambda key: sum(r[key] for r in rows) / len(rows)
    verdict += "\nOn average the largest error of a share is %.3f with espalier and %.3f with Optuna." % (mean("mine"), mean("theirs"))
    return PAGE.format(trials=trials, version=optuna.__version__, verdict=verdict, details=details, mine_s=mean("mine_s"), their_s=mean("their_s"),
                       rows="\n".join("| %(name)s | %(parameters)d | %(same).2f | %(even).2f | %(mine_ranks).2f | %(their_ranks).2f | %(mine).3f | %(theirs).3f |" % r for r in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--page")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rows = []
    for n in range(len(STUDIES)):
        rows.append(compare(n, arguments.trials))
        print(json.dumps(rows[-1]), flush=True)
    if arguments.page:
        with open(arguments.page, "w") as to:
            to.write(write_page(rows, arguments.trials))


if __name__ == "__main__":
    main()
