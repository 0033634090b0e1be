"""A literal replay of SpotTune's Algorithm 1, second by second, beside `espalier simulate`.

Usage: spot_replay.py make FOLDER SEED    writes FOLDER/spot.cfg and prices.csv
       spot_replay.py cost FOLDER SEED    prints cost and what was refunded, in dollars

One trial after another, for trials do not influence each other.  Machines boot at once, steps take whole seconds, and
prices are so high that the rounding of each lease to micro-dollars is below 1e-9 of the total.
"""
import random
import sys

STEP, BUDGET, TRIALS = 70, 2000, 3
START, SAVE = 90, 30  # restoring takes as long as saving
SPEED = {"a": 1, "b": 2, "c": 5}
BASE = {"a": 100000.0, "b": 190000.0, "c": 520000.0}
DAY = 86400


def make_prices(seed):
    rng = random.Random(seed)
    series = {}
    for name in SPEED:
        at, price, records = -3 * DAY, BASE[name], []
        while at < 6 * DAY:
            records.append((at, round(price, 6)))
            at += rng.choice((600, 1800, 5400, 9000))
            price = min(max(price * rng.uniform(0.85, 1.18), BASE[name] / 3), BASE[name] * 1.7)
        series[name] = [(t + 13, p) for t, p in records]
    return series


def write(folder, seed):
    series = make_prices(seed)
    with open(f"{folder}/prices.csv", "w") as f:
        f.write("time,offer,price\n")
        for name in SPEED:
            f.writelines(f"{t},{name},{p:.6f}\n" for t, p in series[name])
    offers = ",\n  ".join(
        f'{{ name = "{n}"; market = "spot"; gpus = 1; gpu_type = "{n}"; notice = "120s"; refund_before = "1h"; '
        'minimum_charge = "60s"; }' for n in SPEED)
    speeds = ", ".join(f'("{n}", {s}.0)' for n, s in SPEED.items())
    with open(f"{folder}/spot.cfg", "w") as f:
        f.write(f"""experiment = {{ name = "spot"; metric = "loss"; goal = "minimize"; seed = {seed}; }};
space = {{ lr = {{ type = "real"; low = 0.001; high = 1.0; }}; }};
algorithm = {{ use = "random"; trials = {TRIALS}; iterations_max = {BUDGET}; }};
trial = {{ trainable = "quadratic"; gpus_max = 1; checkpoint_every = "0s"; profile = {{ iteration = "{STEP}s";
  start = "{START}s"; checkpoint = "{SAVE}s"; speed = ( {speeds} ); }}; }};
allocator = {{ use = "spottune"; mode = "paper"; predictor = "never"; max_price = "alg2"; }};
cloud = {{ use = "sim"; prices = "prices.csv"; offers = (
  {offers} ); }};
""")


class Market:
    def __init__(self, records):
        self.at = [None] * (9 * DAY)  # by second, from 3 days before the start
        for i, (t, p) in enumerate(records):
            end = records[i + 1][0] if i + 1 < len(records) else 6 * DAY
            for s in range(t, min(end, 6 * DAY)):
                self.at[s + 3 * DAY] = p

    def price(self, t):
        return self.at[t + 3 * DAY]

    def mean(self, t):
        return sum(self.at[t + 3 * DAY - 3600:t + 3 * DAY]) / 3600

    def most(self, t):  # Algorithm 2, literally
        p = [self.price(t - 60 * (60 - i)) for i in range(61)]
        deltas = sorted(abs(p[i + 1] - p[i]) for i in range(59))
        return round(p[60] + sum(d for i, d in enumerate(deltas) if 0.2 * 59 < i < 0.8 * 59) / (0.6 * 59), 6)


class Machine:
    def __init__(self, markets, t):
        costs = [(STEP // SPEED[n] * m.mean(t), i, n) for i, (n, m) in enumerate(markets.items())]
        self.name = min(costs)[2]
        self.market = markets[self.name]
        self.most = self.market.most(t)
        self.launch, self.end, self.revoked = t, None, False

    def bill(self):
        end = max(self.end, self.launch + 60) if not self.revoked else self.end
        usd = sum(self.market.price(t) for t in range(self.launch, end)) / 3600
        free = self.revoked and self.end - self.launch < 3600
        return (0.0, usd) if free else (usd, 0.0)


def one_trial(markets):
    machines = [Machine(markets, 0)]
    now, nexts = machines[0], None  # where it trains; where it goes at its next boundary
    step, due, leaving = 0, START + STEP // SPEED[now.name], None
    t = 0
    while True:
        t += 1
        if leaving is None and t == due:  # an iteration boundary
            step += 1
            if step == BUDGET:  # it saves a last time
                t += SAVE
                now.end = t if now.end is None else now.end
                break
            due = t + STEP // SPEED[now.name]
            if nexts is not None:
                leaving = t + SAVE
        if leaving == t:  # saved: it starts on the other machine
            if now.end is None:
                now.end = t
            now, nexts, leaving = nexts, None, None
            due = t + START + SAVE + STEP // SPEED[now.name]
        for machine in (now, nexts):  # revoked: it ends in two minutes, or earlier without a refund
            if machine is not None and machine.end is None and machine.market.price(t) > machine.most:
                if t + 120 - machine.launch < 3600:
                    machine.end, machine.revoked = t + 120, True
                machine.most = float("inf")  # told once
                if machine is now and nexts is None:
                    nexts = Machine(markets, t)
                    machines.append(nexts)
        assert nexts is None or nexts.end is None, "the next machine is revoked before it is used: another seed"
        if nexts is None and t == now.launch + 3600:
            nexts = Machine(markets, t)
            machines.append(nexts)
    if nexts is not None and nexts.end is None:
        nexts.end = t
    return [m.bill() for m in machines]


def main():
    what, folder, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "make":
        write(folder, seed)
        return
    bills = one_trial({n: Market(r) for n, r in make_prices(seed).items()})
    print(f"{TRIALS * sum(b[0] for b in bills):.15g} {TRIALS * sum(b[1] for b in bills):.15g}", len(bills))


main()
