"""load_hpbandster.py - HpBandSter's iterations and its BOHB model, without its network."""
import logging

import ConfigSpace as CS
import numpy
from hpbandster.core.dispatcher import Job as Result
from hpbandster.optimizers.config_generators.bohb import BOHB
from hpbandster.optimizers.config_generators.random_sampling import RandomSampling
from hpbandster.optimizers.iterations import SuccessiveHalving

import common


def make_space(space):
    made = CS.ConfigurationSpace(seed=1)
    for name, (kind, *rest) in space.items():
        if kind == "choice":
            made.add_hyperparameter(CS.CategoricalHyperparameter(name, rest[0]))
        elif kind == "int":
            made.add_hyperparameter(CS.UniformIntegerHyperparameter(name, *rest))
        else:
            made.add_hyperparameter(CS.UniformFloatHyperparameter(name, *rest, log=kind == "log"))
    return made


def plan_one(trials):
    """Successive halving of all trials at once."""
    yield [max(1, trials // 3 ** k) for k in range(5)], list(common.RUNGS)


def plan_brackets(trials):
    """Hyperband's brackets, over and over, until so many trials have begun."""
    while trials > 0:
        for s in range(4, -1, -1):
            first = min(trials, int(numpy.floor(5 / (s + 1))) * 3 ** s)
            if first == 0:
                return
            trials -= first
            yield [max(1, first // 3 ** k) for k in range(s + 1)], list(common.RUNGS[4 - s:])


def plan_flat(trials):
    """One budget: no halving."""
    while trials > 0:
        first = min(trials, 1000)
        trials -= first
        yield [first], [1]


class Peer:
    """One iteration after the other, as its master with few workers walks them."""

    def __init__(self, space, generator, plan):
        self.generator, self.plan, self.number, self.iteration = generator(make_space(space)), plan, 0, None

    def begin(self):
        for counts, budgets in self.plan:
            self.iteration = SuccessiveHalving(HPB_iter=self.number, num_configs=counts, budgets=budgets,
                                               config_sampler=self.generator.get_config)
            self.number += 1
            return True
        return False

    def ask(self):
        while True:
            if self.iteration is None and not self.begin():
                return None
            run = self.iteration.get_next_run()
            if run is not None:
                key, config, budget = run
                fresh = budget == self.iteration.budgets[0]
                # A promoted one tells at its new budget alone; a new one at its first.
                return common.Job(config, (self.iteration, key, budget), next(
                    (r for r in reversed(common.RUNGS) if r < budget), 0), fresh)
            if not self.iteration.is_finished:
                return None
            self.iteration = None

    def tell(self, job, iteration, loss):
        of, key, budget = job.own
        result = Result(key, config=job.config, budget=budget)
        result.result = {"loss": loss, "info": None}
        self.generator.new_result(result)
        of.register_result(result)
        return False


def main():
    logging.getLogger("hpbandster").setLevel(logging.ERROR)
    common.main("hpbandster", "0.7.4", {
        "random": lambda space, n: Peer(space, RandomSampling, plan_flat(n)),
        "sha": lambda space, n: Peer(space, RandomSampling, plan_one(n)),
        "hyperband": lambda space, n: Peer(space, RandomSampling, plan_brackets(n)),
        "bohb": lambda space, n: Peer(space, BOHB, plan_flat(n)),
    })


if __name__ == "__main__":
    main()
