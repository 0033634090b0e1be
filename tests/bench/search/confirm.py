#!/usr/bin/env python3
"""Is the winner of a confirmation better on unseen rows than the best by validation, at equal total training?

    confirm.py run OUT.jsonl [--seeds 0-9] [--trials 60] [--confirm 5] [--methods random,tpe,auto] [--problems x,y]
    confirm.py table OUT.jsonl...

Models of scikit-learn on data that it ships, trained live.  A search is told the loss on the validation rows of one
split.  `validation` takes the best of all trials.  `confirmed` searches with fewer trials: the three best are then
trained again on as many other splits as --confirm says, and the best mean wins; both train equally often.  The error
of a configuration is that on rows that no split contains, the mean of its models of all splits.
"""
import argparse, functools, json, math, os, random, statistics, sys, warnings
for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[v] = "1"
warnings.filterwarnings("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import search
from search import choice, integer, real

TOP = 3          # configurations that are confirmed
SPLITS = 11      # 0: that of the search
TEST = 0.4       # of the rows

@functools.lru_cache(None)
def rows(name):
    import numpy as np
    from sklearn import datasets
    X, y = getattr(datasets, "load_" + name)(return_X_y=True)
    order = np.random.RandomState(7).permutation(len(y))
    cut = int(len(y) * TEST)
    return X[order], y[order], order.size, cut

@functools.lru_cache(None)
def parts(name, split):
    """Training rows, validation rows."""
    import numpy as np
    X, y, n, cut = rows(name)
    order = np.random.RandomState(100 + split).permutation(np.arange(cut, n))
    half = len(order) // 2
    return (X[order[:half]], y[order[:half]]), (X[order[half:]], y[order[half:]])

def scaled(model):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    return make_pipeline(StandardScaler(), model)

def svc(c):
    from sklearn.svm import SVC
    return scaled(SVC(C=c["C"], gamma=c["gamma"], kernel=("rbf", "sigmoid", "poly")[c["kernel"]], max_iter=3000))
def knn(c):
    from sklearn.neighbors import KNeighborsClassifier
    return scaled(KNeighborsClassifier(c["k"], weights=("uniform", "distance")[c["weights"]], p=(1, 2)[c["p"]]))
def forest(kind):
    def make(c):
        from sklearn import ensemble
        return getattr(ensemble, kind)(n_estimators=12, max_features=c["features"], min_samples_leaf=c["leaf"],
                                       max_depth=c["depth"], random_state=0)
    return make
def tree(c):
    from sklearn.tree import DecisionTreeClassifier
    return DecisionTreeClassifier(max_depth=c["depth"], min_samples_leaf=c["leaf"], max_features=c["features"],
                                  criterion=("gini", "entropy")[c["criterion"]], random_state=0)
def sgd(c):
    from sklearn.linear_model import SGDClassifier
    return scaled(SGDClassifier(loss=("hinge", "log_loss", "modified_huber")[c["loss"]], alpha=c["alpha"],
                                eta0=c["eta"], learning_rate=("constant", "adaptive")[c["rate"]], max_iter=8, tol=None,
                                random_state=0))
def net(c):
    from sklearn.linear_model import ElasticNet
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    return make_pipeline(StandardScaler(), PolynomialFeatures(c["degree"], include_bias=False), StandardScaler(),
                         ElasticNet(c["alpha"], l1_ratio=c["l1"], max_iter=100))
def svr(c):
    from sklearn.svm import SVR
    return scaled(SVR(C=c["C"], gamma=c["gamma"], epsilon=c["epsilon"], max_iter=3000))

SVC = {"C": real(1e-3, 1e3, "log"), "gamma": real(1e-5, 10.0, "log"), "kernel": choice(3)}
FOREST = {"features": real(.05, 1.0), "leaf": integer(1, 20, "log"), "depth": integer(2, 16)}
KNN = {"k": integer(1, 50, "log"), "weights": choice(2), "p": choice(2)}
SGD = {"loss": choice(3), "alpha": real(1e-7, 1e-1, "log"), "eta": real(1e-5, 1.0, "log"), "rate": choice(2)}
PROBLEMS = {
    "svc_digits": (SVC, svc, "digits"), "svc_cancer": (SVC, svc, "breast_cancer"), "svc_wine": (SVC, svc, "wine"),
    "knn_cancer": (KNN, knn, "breast_cancer"), "sgd_digits": (SGD, sgd, "digits"), "sgd_cancer": (SGD, sgd, "breast_cancer"),
    "forest_cancer": (FOREST, forest("RandomForestClassifier"), "breast_cancer"),
    "forest_diabetes": (FOREST, forest("RandomForestRegressor"), "diabetes"),
    "tree_digits": ({**FOREST, "criterion": choice(2)}, tree, "digits"),
    "net_diabetes": ({"alpha": real(1e-4, 10.0, "log"), "l1": real(0.0, 1.0), "degree": integer(1, 2)}, net, "diabetes"),
    "svr_diabetes": ({"C": real(1e-1, 1e4, "log"), "gamma": real(1e-5, 1.0, "log"), "epsilon": real(1e-2, 1e2, "log")},
                     svr, "diabetes"),
}

@functools.lru_cache(None)
def train(problem, config, split):
    """Error on the validation rows of the split, and on the rows of no split."""
    import numpy as np
    space, make, name = PROBLEMS[problem]
    X, y, n, cut = rows(name)
    learn, validate = parts(name, split)
    try:
        model = make(json.loads(config)).fit(*learn)
    except ValueError:
        return math.nan, math.nan
    def error(X, y):
        p = model.predict(X)
        return 100 * float(np.mean(p != y)) if y.dtype.kind == "i" else float(np.sqrt(np.mean((p - y) ** 2)))
    return error(*validate), error(X[:cut], y[:cut])

def confirm(problem, told, count):
    """The best of the TOP by their means over `count` other splits; of equal ones the first."""
    best = sorted(dict.fromkeys(told), key=lambda t: t[0])[:TOP]
    return min(best, key=lambda t: statistics.fmean(train(problem, t[1], k)[0] for k in range(1, count + 1)))[1]

def test_error(problem, config):
    return statistics.fmean(train(problem, config, k)[1] for k in range(SPLITS))

def run_one(problem, method, seed, trials, count):
    tool, told = search.Espalier(PROBLEMS[problem][0], {}, method, seed, trials), []
    while (asked := tool.ask()) is not None:
        config = json.dumps(asked[1], sort_keys=True)
        loss = train(problem, config, 0)[0]
        tool.tell(asked[0], loss if loss == loss else None)
        if loss == loss:
            told.append((loss, config))
    tool.close()
    few = trials - TOP * count
    assert few > TOP
    return {"problem": problem, "method": method, "seed": seed, "trials": trials, "confirm": count,
            "validation": test_error(problem, min(told, key=lambda t: t[0])[1]),
            "few": test_error(problem, min(told[:few], key=lambda t: t[0])[1]),
            "confirmed": test_error(problem, confirm(problem, told[:few], count))}

# ---- the table ------------------------------------------------------------------------------------

def p_value(differences, rounds=20000):
    """Of one side, by the signs of the searches' differences: how often is the mean as low by chance?"""
    rng, low = random.Random(1), statistics.fmean(differences)
    as_low = sum(statistics.fmean(d if rng.random() < .5 else -d for d in differences) <= low for _ in range(rounds))
    return (as_low + 1) / (rounds + 1)

def make_table(files):
    found = [json.loads(line) for f in files for line in open(f)]
    for trials, count in sorted({(r["trials"], r["confirm"]) for r in found}):
        some = [r for r in found if (r["trials"], r["confirm"]) == (trials, count)]
        print("\n### %d trainings: %d trials, then %d times the best %d; %d searches\n" % (
            trials, trials - TOP * count, count, TOP, len(some)))
        print("| problem | sampler | validation | confirmed | lower, equal, higher |\n| --- | --- | ---: | ---: | ---: |")
        for problem in PROBLEMS:
            for method in dict.fromkeys(r["method"] for r in some):
                rs = [r for r in some if r["problem"] == problem and r["method"] == method]
                if rs:
                    print("| %s | %s | %.4g | %.4g | %s |" % (
                        problem, method, statistics.fmean(r["validation"] for r in rs),
                        statistics.fmean(r["confirmed"] for r in rs), compare(rs)))
        print()
        gains = {problem: statistics.fmean(change(some, r) for r in some if r["problem"] == problem)
                 for problem in dict.fromkeys(r["problem"] for r in some)}
        most = min(gains, key=gains.get)
        for name, rs in [(m, [r for r in some if r["method"] == m]) for m in dict.fromkeys(r["method"] for r in some)] + [
                ("all", some), ("all without `%s`" % most, [r for r in some if r["problem"] != most])]:
            print("* %s: %+.2f %% of the error of `validation`, p = %.2g (permutation of signs, one-sided); lower, equal, "
                  "higher: %s" % (name, 100 * statistics.fmean(change(some, r) for r in rs),
                                  p_value([change(some, r) for r in rs]), compare(rs)))
        print("* by problem: lower on %d of %d, p = %.2g" % (
            sum(g < 0 for g in gains.values()), len(gains), p_value(list(gains.values()))))

def change(found, r):
    return (r["confirmed"] - r["validation"]) / scale(found, r["problem"])

def compare(rs):
    return "%d, %d, %d" % tuple(sum(f(r["confirmed"] - r["validation"]) for r in rs)
                                for f in (lambda d: d < 0, lambda d: d == 0, lambda d: d > 0))

def scale(found, problem):
    return statistics.fmean(r["validation"] for r in found if r["problem"] == problem)

def main():
    if sys.argv[1:2] == ["table"]:
        return make_table(sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["run"])
    parser.add_argument("out")
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--confirm", default="5")
    parser.add_argument("--methods", default="random,tpe,auto")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    a = parser.parse_args()
    first, last = map(int, a.seeds.split("-"))
    with open(a.out, "a") as out:
        for seed in range(first, last + 1):
            for problem in a.problems.split(","):
                for method in a.methods.split(","):
                    for count in map(int, a.confirm.split(",")):
                        out.write(json.dumps(run_one(problem, method, seed, a.trials, count)) + "\n")
                        out.flush()

main()
