#!/usr/bin/env python3
"""How good a configuration do espalier's samplers find, at equal numbers of trials?

    search.py run  OUT.jsonl [--seeds 0-9] [--trials 100] [--workers 1] [--methods a,b] [--problems x,y]
    search.py table OUT.jsonl... > docs/results/search.md

One event loop for all: `workers` trials are asked for, the one that was asked for first is told, and so on.  The
program is $ESPALIER; methods that begin with `optuna-` need Optuna, others nothing but Python.  The score is the
regret without noise of the configuration whose told value was least.
"""
import argparse, collections, json, math, os, random, shutil, subprocess, sys, tempfile, time

# ---- problems: name -> (space, conditions, regret) ------------------------------------------------

def real(low, high, scale="linear"): return ("real", low, high, scale)
def integer(low, high, scale="linear"): return ("int", low, high, scale)
def choice(count): return ("choice", count)
def cube(n): return {"x%d" % i: real(0.0, 1.0) for i in range(n)}

def branin(c):
    a, b = 15 * c["x0"] - 5, 15 * c["x1"]
    return ((b - 5.1 / (4 * math.pi ** 2) * a * a + 5 / math.pi * a - 6) ** 2 +
            10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10 - 0.39788735772973816)

HART_A = ((10, 3, 17, 3.5, 1.7, 8), (.05, 10, 17, .1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, .05, 10, .1, 14))
HART_P = ((1312, 1696, 5569, 124, 8283, 5886), (2329, 4135, 8307, 3736, 1004, 9991),
          (2348, 1451, 3522, 2883, 3047, 6650), (4047, 8828, 8732, 5743, 1091, 381))
def hartmann6(c):
    return 3.322368011415515 - sum(
        h * math.exp(-sum(a * (c["x%d" % i] - 1e-4 * p) ** 2 for i, (a, p) in enumerate(zip(r, q))))
        for h, r, q in zip((1.0, 1.2, 3.0, 3.2), HART_A, HART_P))

def sphere(c): return sum((v - 0.3) ** 2 for v in c.values())

def ackley(c):
    p = [40 * v - 25 for v in c.values()]
    return (20 + math.e - 20 * math.exp(-0.2 * math.sqrt(sum(v * v for v in p) / len(p))) -
            math.exp(sum(math.cos(2 * math.pi * v) for v in p) / len(p)))

def rosenbrock(c):
    p = [4 * c["x%d" % i] - 2 for i in range(len(c))]
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(p, p[1:]))

def mixed(c):
    rate, off, which = (-1, -3, -2.5, -2), (.05, 0, .03, .1), c["kind"]
    lr = math.log10(c["lr"])
    return (off[which] + .08 * (lr - rate[which] - .075 * (math.log2(c["batch"]) - 6)) ** 2 +
            .01 * (math.log10(c["decay"]) + 4) ** 2 + .3 * (c["drop"] - .2) ** 2 + .01 * (c["layers"] - 5) ** 2 +
            .02 * (math.log2(c["width"]) - 8) ** 2 + (.06, 0, .02)[c["act"]] +
            (.4 * (c["momentum"] - .9) ** 2 if which == 0 else 0))
MIXED = {"lr": real(1e-5, 1.0, "log"), "decay": real(1e-7, 1e-1, "log"), "drop": real(0.0, .8),
         "layers": integer(1, 10), "width": integer(16, 1024, "log"), "kind": choice(4), "act": choice(3),
         "batch": integer(16, 512, "log"), "momentum": real(0.0, .99)}

def conditional(c):
    if c["model"] == 0:
        return .03 + .1 * (math.log10(c["a"]) + 1.5) ** 2 + .5 * (c["b"] - .9) ** 2
    if c["model"] == 1:
        return .05 + .1 * (math.log10(c["c"]) + 2.5) ** 2 + .02 * (c["d"] - 7) ** 2
    e, f = math.log10(c["e"]) - 1, math.log10(c["f"]) + 2
    return .05 * e * e + .05 * f * f + .02 * e * f
CONDITIONAL = {"model": choice(3), "a": real(1e-5, 1.0, "log"), "b": real(0.0, .99), "c": real(1e-5, 1.0, "log"),
               "d": integer(1, 20), "e": real(1e-3, 1e3, "log"), "f": real(1e-5, 1e1, "log")}
WHEN = {"a": ("model", 0), "b": ("model", 0), "c": ("model", 1), "d": ("model", 1), "e": ("model", 2), "f": ("model", 2)}

rng = random.Random(6)
TABLE = {(a, b, k): .5 * abs(a - 2) + .4 * abs(b - 3) + (0, .3, .9)[k] + .8 * rng.random()
         for a in range(6) for b in range(6) for k in range(3)}
def finite(c): return TABLE[c["a"], c["b"], c["k"]] - min(TABLE.values())

# The first ones were run now and then while the samplers were written.
PROBLEMS = {
    "branin": (cube(2), {}, branin, 0), "mixed9": (MIXED, {}, mixed, 0), "cond7": (CONDITIONAL, WHEN, conditional, 0),
    "sphere16": (cube(16), {}, sphere, 0),
    "hartmann6": (cube(6), {}, hartmann6, 0), "ackley8": (cube(8), {}, ackley, 0), "rosen4": (cube(4), {}, rosenbrock, 0),
    "noisy9": (MIXED, {}, mixed, .02), "finite108": ({"a": integer(0, 5), "b": integer(0, 5), "k": choice(3)}, {}, finite, 0),
}
CHOSEN = ("branin", "mixed9", "cond7", "sphere16")

# ---- tools ------------------------------------------------------------------------------------------

METHODS = {"random": 'use = "random";', "tpe-before": 'use = "tpe";',
           "tpe": 'use = "random"; sampler = "tpe";', "gp": 'use = "random"; sampler = "gp";',
           "auto": 'use = "random"; sampler = "auto";'}

class Espalier:
    def __init__(self, space, when, method, seed, trials):
        text = ""
        for name, d in space.items():
            if d[0] == "choice":
                part = 'type = "choice"; values = [ %s ];' % ", ".join('"v%d"' % i for i in range(d[1]))
            else:
                part = 'type = "%s"; low = %r; high = %r; scale = "%s";' % d
            if name in when:
                part += ' when = { %s = "v%d"; };' % when[name]
            text += "%s = { %s };\n" % (name, part)
        self.folder = tempfile.mkdtemp(prefix="bench-search-")
        path = os.path.join(self.folder, "search.cfg")
        with open(path, "w") as f:
            f.write('experiment = { name = "b"; metric = "loss"; goal = "minimize"; seed = %d; };\nspace = { %s };\n'
                    'algorithm = { %s trials = %d; iterations_max = 1; };\n' % (seed, text, METHODS[method], trials))
        self.space = space
        self.child = subprocess.Popen([os.environ.get("ESPALIER", "espalier"), "ask", path, "--dir",
                                       os.path.join(self.folder, "run")], text=True, bufsize=1,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    def say(self, **request):
        self.child.stdin.write(json.dumps(request) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())
    def ask(self):
        trials = self.say(op="ask", n=1)["trials"]
        if not trials:
            return None
        return trials[0]["trial"], {k: int(v[1:]) if self.space[k][0] == "choice" else v
                                    for k, v in trials[0]["params"].items()}
    def tell(self, trial, value):
        self.say(op="tell", trial=trial, value=value)
    def close(self):
        self.child.stdin.close()
        self.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

class Optuna:
    def __init__(self, space, when, method, seed, trials):
        import optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        make = {"optuna-tpe": lambda: optuna.samplers.TPESampler(seed=seed),
                "optuna-random": lambda: optuna.samplers.RandomSampler(seed=seed)}[method]
        self.study = optuna.create_study(sampler=make())
        self.space, self.when = space, when
    def ask(self):
        trial, c = self.study.ask(), {}
        for name, d in self.space.items():
            if name in self.when and c.get(self.when[name][0]) != self.when[name][1]:
                continue
            c[name] = (trial.suggest_categorical(name, list(range(d[1]))) if d[0] == "choice" else
                       trial.suggest_int(name, d[1], d[2], log=d[3] == "log") if d[0] == "int" else
                       trial.suggest_float(name, d[1], d[2], log=d[3] == "log"))
        return trial, c
    def tell(self, trial, value):
        self.study.tell(trial, value)
    def close(self):
        pass

def one_run(problem, method, seed, trials, workers):
    space, when, regret, noise = PROBLEMS[problem]
    tool = (Optuna if method.startswith("optuna-") else Espalier)(space, when, method, seed, trials)
    noises, least, at, out, told, queue = random.Random(seed), math.inf, math.nan, [], 0, collections.deque()
    begin = time.process_time()
    while told < trials:
        while len(queue) < workers:
            got = tool.ask()
            if got is None:
                break
            queue.append(got)
        if not queue:
            break
        trial, c = queue.popleft()
        true = regret(c)
        value = true + noises.gauss(0, noise) if noise else true
        tool.tell(trial, value)
        told += 1
        if value < least:
            least, at = value, true
        out.append(at)
    tool.close()
    out += [out[-1]] * (trials - len(out))
    return dict(problem=problem, method=method, seed=seed, workers=workers, trials=trials, distinct=told, regret=out)

# ---- statistics -------------------------------------------------------------------------------------

def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    out, i = [0.0] * len(values), 0
    while i < len(order):
        k = i
        while k < len(order) and values[order[k]] == values[order[i]]:
            k += 1
        for j in range(i, k):
            out[order[j]] = (i + k + 1) / 2
        i = k
    return out

def mann_whitney(x, y):
    """Two-sided p by the normal approximation with ties, and P(x is lower)."""
    n, m, both = len(x), len(y), ranks(x + y)
    u = sum(both[:n]) - n * (n + 1) / 2
    ties = sum(t ** 3 - t for t in collections.Counter(both).values())
    var = n * m / 12 * ((n + m + 1) - ties / ((n + m) * (n + m - 1)))
    p = 1.0 if var <= 0 else math.erfc(max(abs(u - n * m / 2) - .5, 0) / math.sqrt(2 * var))
    return p, 1 - u / (n * m)

def holm(tests):
    """(better, worse) of [(p, P(lower))] after Holm at 5 %."""
    better = worse = 0
    for i, (p, lower) in enumerate(sorted(tests)):
        if p * (len(tests) - i) > .05:
            break
        better, worse = better + (lower > .5), worse + (lower < .5)
    return better, worse

def table(paths):
    data = collections.defaultdict(dict)
    for path in paths:
        for line in open(path):
            r = json.loads(line)
            data[r["workers"], r["problem"], r["method"]][r["seed"]] = r["regret"]
    print("# Results: samplers\n")
    print("*For users choosing a sampler: the regret that each reaches on functions, after as many trials.*\n")
    print("Written by `tests/bench/search/search.py table`. Regret: the distance from the optimum, without noise, of the configuration\n"
          "whose value was least; mean over seeds. `tpe`, `gp` and `auto` are `random` with that sampler, `tpe-before` is the algorithm\n"
          "`tpe`, which has the model of `bohb`. No setting was tuned on these problems; those above the line were run now and then while\n"
          "the samplers were written. Functions show what a sampler does on smooth responses; they are no training runs.\n")
    for workers in sorted({k[0] for k in data}):
        names = [m for m in list(METHODS) + ["optuna-tpe", "optuna-random"] if any(k[::2] == (workers, m) for k in data)]
        for mark in (25, 50, 100):
            problems = [p for p in PROBLEMS if all(data.get((workers, p, m)) for m in names)]
            if not problems or max(len(r) for p in problems for r in data[workers, p, names[0]].values()) < mark:
                continue
            seeds = sorted(set.intersection(*[set(data[workers, p, m]) for p in problems for m in names]))
            print("## %d trials, %d worker%s, %d seeds (%d to %d)\n" %
                  (mark, workers, "" if workers == 1 else "s", len(seeds), seeds[0], seeds[-1]))
            print("| problem | " + " | ".join(names) + " |\n| --- |" + " ---: |" * len(names))
            rank = {m: [] for m in names}
            for half in (True, False):
                for p in [p for p in problems if (p in CHOSEN) == half]:
                    v = {m: [data[workers, p, m][s][mark - 1] for s in seeds] for m in names}
                    for s in range(len(seeds)):
                        for m, r in zip(names, ranks([v[m][s] for m in names])):
                            rank[m].append(r)
                    print("| %s | " % p + " | ".join("%.3g" % (sum(v[m]) / len(seeds)) for m in names) + " |")
                if half and any(p not in CHOSEN for p in problems):
                    print("| | " + " | ".join("" for m in names) + " |")
            print("| mean rank | " + " | ".join("%.2f" % (sum(rank[m]) / len(rank[m])) for m in names) + " |\n")
            for ours in ("auto", "gp", "tpe"):
                for other in names:
                    if ours not in names or other in ("random", "optuna-random", ours):
                        continue
                    tests = [mann_whitney([data[workers, p, ours][s][mark - 1] for s in seeds],
                                          [data[workers, p, other][s][mark - 1] for s in seeds]) for p in problems]
                    print("* `%s` against `%s`: P(lower) %.2f; better on %d and worse on %d of %d (Mann-Whitney, Holm, 5 %%)" %
                          ((ours, other, sum(t[1] for t in tests) / len(tests)) + holm(tests) + (len(tests),)))
            print()

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "table"))
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--methods", default="random,tpe-before,tpe,gp,auto")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--name", default="", help="record the one method under this name")
    given = parser.parse_args()
    if given.verb == "table":
        return table(given.files)
    first, last = (int(v) for v in (given.seeds + "-" + given.seeds).split("-")[:2])
    with open(given.files[0], "a") as out:
        for seed in range(first, last + 1):
            for problem in given.problems.split(","):
                for method in given.methods.split(","):
                    r = one_run(problem, method, 1000 + seed, given.trials, given.workers)
                    r["method"] = given.name or method
                    out.write(json.dumps(r) + "\n")
                    out.flush()

if __name__ == "__main__":
    main()
