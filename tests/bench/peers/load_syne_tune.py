"""load_syne_tune.py - Syne Tune's schedulers, called as its Tuner calls them."""
import logging
from datetime import datetime

import syne_tune
from syne_tune.backend.trial_status import Trial
from syne_tune.config_space import choice, loguniform, randint, uniform
from syne_tune.optimizer.baselines import ASHA, BOHB, TPE, RandomSearch
from syne_tune.optimizer.scheduler import SchedulerDecision

import common

KINDS = {"real": uniform, "log": loguniform, "int": randint, "choice": choice}


class Peer:
    def __init__(self, trials, scheduler, most):
        self.scheduler, self.left, self.most, self.made = scheduler, trials, most, 0

    def ask(self):
        if self.left == 0:
            return None
        self.left -= 1
        trial = Trial(self.made, self.scheduler.suggest().config, datetime.now())
        self.made += 1
        self.scheduler.on_trial_add(trial)
        return common.Job(trial.config, trial)

    def tell(self, job, iteration, loss):
        result = {"loss": loss, "epoch": iteration}
        if iteration == self.most:
            self.scheduler.on_trial_complete(job.own, result)
            return False
        return self.scheduler.on_trial_result(job.own, result) == SchedulerDecision.CONTINUE


def space_of(space):
    return {name: KINDS[kind](*rest) for name, (kind, *rest) in space.items()}


def halving(kind, space, most, **more):
    return kind(space_of(space), metric="loss", time_attr="epoch", max_t=most, random_seed=1, **more)


def main():
    logging.disable(logging.WARNING)
    common.main("syne-tune", syne_tune.__version__, {
        "random": lambda space, n: Peer(n, RandomSearch(space_of(space), metrics=["loss"], random_seed=1), 1),
        "asha": lambda space, n: Peer(n, halving(ASHA, space, 81), 81),
        "hyperband": lambda space, n: Peer(n, halving(ASHA, space, 81, brackets=5), 81),
        "tpe": lambda space, n: Peer(n, TPE(space_of(space), metric="loss", random_seed=1), 1),
        "bohb": lambda space, n: Peer(n, halving(BOHB, space, 1), 1),
    })


if __name__ == "__main__":
    main()
