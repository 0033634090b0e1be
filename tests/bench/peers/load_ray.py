"""load_ray.py - Ray Tune's variants and schedulers, without its cluster: what its controller calls."""
import logging

import ray
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler
from ray.tune.search.variant_generator import generate_variants

import common

KINDS = {"real": tune.uniform, "log": tune.loguniform, "int": lambda low, high: tune.randint(low, high + 1),
         "choice": tune.choice}


class Trial:
    """What the schedulers look at of a trial."""
    __slots__ = ("trial_id", "config")

    def __init__(self, number, config):
        self.trial_id, self.config = "%08d" % number, config


class Peer:
    def __init__(self, space, trials, scheduler, most):
        self.space = {"config": {name: KINDS[kind](*rest) for name, (kind, *rest) in space.items()}}
        self.scheduler, self.left, self.most, self.made = scheduler, trials, most, 0

    def ask(self):
        if self.left == 0:
            return None
        self.left -= 1
        _, spec = next(generate_variants(self.space))
        trial = Trial(self.made, spec["config"])
        self.made += 1
        if self.scheduler is not None:
            self.scheduler.on_trial_add(None, trial)
        return common.Job(trial.config, trial)

    def tell(self, job, iteration, loss):
        if self.scheduler is None:
            return iteration < self.most
        result = {"loss": loss, "training_iteration": iteration}
        if self.scheduler.on_trial_result(None, job.own, result) == TrialScheduler.CONTINUE and iteration < self.most:
            return True
        self.scheduler.on_trial_complete(None, job.own, result)
        return False


def halving(brackets):
    return AsyncHyperBandScheduler(metric="loss", mode="min", max_t=81, grace_period=1, reduction_factor=3,
                                   brackets=brackets)


def main():
    logging.disable(logging.WARNING)
    common.main("ray-tune", ray.__version__, {
        "random": lambda space, n: Peer(space, n, None, 1),
        "asha": lambda space, n: Peer(space, n, halving(1), 81),
        "hyperband": lambda space, n: Peer(space, n, halving(5), 81),
    })


if __name__ == "__main__":
    main()
