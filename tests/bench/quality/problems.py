"""problems.py - what the quality benchmark searches, and with which algorithms.

Fidelities are iterations 1, 3, 9, 27, 81 (R = 81, eta = 3) in all problems but the last; an iteration of
counting_ones throws each coin 9 times, so that its fidelities are 9 to 729 throws.
"""

MARKS = (1, 2, 4, 8, 16, 32, 64, 84)        # budgets in units of R
JUDGED = (8, 32, 84)                        # those that decide


def real(name, low, high, scale=""):
    return '%s = { type = "real"; low = %s; high = %s;%s };' % (name, low, high, scale)


def ones(count):
    return " ".join(['c%d = { type = "choice"; values = [ 0, 1 ]; };' % i for i in range(count)]
                    + [real("x%d" % i, "0.0", "1.0") for i in range(count)])


HARTMANN = " ".join(real("x%d" % i, "0.0", "1.0") for i in range(6))

# name -> trainable, its options, the space, R in iterations
PROBLEMS = {
    "countingones_4_4": ("counting_ones", "throws = 9; regret = true;", ones(4), 81),
    "countingones_8_8": ("counting_ones", "throws = 9; regret = true;", ones(8), 81),
    "mfbranin": ("branin", "regret = true;", real("x1", "-5.0", "10.0") + real("x2", "0.0", "15.0"), 81),
    "mfh6_good": ("hartmann6", "bias = 2.5; noise = 2.0; regret = true;", HARTMANN, 81),
    "mfh6_terrible": ("hartmann6", "bias = 4.0; noise = 5.0; regret = true;", HARTMANN, 81),
}
QUADRATIC = ("quadratic", "", real("lr", "1e-3", "1.0", ' scale = "log";'), 100)

# Options of the algorithms that all runs of one share, with %(max)d for R; `counted` says which reports are
# observations: those at a trial's budget, or all at the rungs.  `against`: cost -> the references to be held
# against, the first one being the one that decides; `random`: the method whose results it must not be worse than;
# `slack`: so many times the time that busy workers would need, for those that wait for one another.
METHODS = {
    "random": dict(
        group='use = "random"; iterations_max = %(max)d;', workers=1, counted="budget",
        against={"resume": [("hpbandster", "RandomSearch", 1)]}),
    "random-4": dict(
        group='use = "random"; iterations_max = %(max)d;', workers=4, counted="budget",
        against={"resume": [("syne-tune-0.15.0", "RandomSearch", 4)]}),
    "hyperband": dict(
        group='use = "hyperband"; iterations_max = %(max)d; eta = 3; passes = 0; rounding = "down";', workers=1,
        counted="budget", random="random",
        against={c: [("hpbandster", "HyperBand", 1)] for c in ("restart", "resume")}),
    "bohb": dict(
        group='use = "bohb"; iterations_max = %(max)d; eta = 3; passes = 0;', workers=1, counted="budget",
        random="random",
        against={c: [("hpbandster", "BOHB", 1)] for c in ("restart", "resume")}),
    "bohb-4": dict(
        group='use = "bohb"; iterations_max = %(max)d; eta = 3; passes = 0;', workers=4, counted="budget",
        random="random-4",
        against={"resume": [("syne-tune-0.14.2", "BOHB-promotion", 4), ("syne-tune-0.15.0", "BOHB-stop", 4)]}),
    "bohb-sync": dict(
        group='use = "bohb"; mode = "sync"; iterations_max = %(max)d; eta = 3; passes = 0;', workers=4,
        counted="budget", random="random-4", slack=2, against={"resume": [("syne-tune-0.14.2", "SyncBOHB", 4)]}),
    "asha-promotion": dict(
        group='use = "asha"; mode = "promotion"; iterations_max = %(max)d; eta = 3;', workers=4, counted="budget",
        random="random-4", against={"resume": [("syne-tune-0.14.2", "ASHA-promotion", 4)]}),
    "asha-stopping": dict(
        group='use = "asha"; mode = "stopping"; iterations_max = %(max)d; eta = 3;', workers=4, counted="rungs",
        random="random-4", against={"resume": [("syne-tune-0.15.0", "ASHA-stop", 4)]}),
    "hyperband-4": dict(
        group='use = "hyperband"; iterations_max = %(max)d; eta = 3; passes = 0; rounding = "up"; order = "overlap";', workers=4,
        counted="budget", random="random-4", against={"resume": [("syne-tune-0.14.2", "SyncHyperband", 4)]}),
    "tpe": dict(
        group='use = "tpe"; iterations_max = %(max)d;', workers=1, counted="budget", random="random",
        against={"resume": []}),
}
# Those whose cells are counted; the others are shown.
DECIDING = ("hyperband", "bohb", "asha-promotion", "asha-stopping")

PBT_MARKS = (10, 20, 40)
PBT = {"pbt-%d" % k: 'use = "pbt"; population = 10; populations = 0; iterations_max = %%(max)d; interval = %d;' % k
       for k in (5, 10, 20)}


def config(problem, group, workers, marks, metric="loss", goal="minimize", trial=None, slack=1):
    """A configuration file: `workers` slots on which an iteration takes a second, and enough time for the
    largest budget."""
    trainable, options, space, most = problem
    seconds = slack * max(marks) * most // workers + 2 * most
    if trial is None:
        trial = 'trainable = "%s"; options = { %s z_max = %d; };' % (trainable, options, most)
    return """experiment = { name = "quality"; metric = "%s"; goal = "%s"; deadline = "%ds"; };
trial = { %s gpus_max = 1; checkpoint_every = "0s"; profile = { iteration = "1s"; }; };
%s
algorithm = { %s };
allocator = { use = "fair"; };
cloud = { use = "sim"; nodes_max = 1; offers = ( { name = "node"; gpus = %d; price = 1.0; } ); };
""" % (metric, goal, seconds, trial, space if "{" not in space or "=" not in space or space.startswith(("space", "@"))
       else "space = { %s };" % space, group % {"max": most}, workers)
