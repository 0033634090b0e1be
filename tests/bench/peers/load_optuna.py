"""load_optuna.py - Optuna's samplers and pruners, in memory."""
import optuna

import common


def suggest(trial, space):
    config = {}
    for name, (kind, *rest) in space.items():
        if kind == "real":
            config[name] = trial.suggest_float(name, *rest)
        elif kind == "log":
            config[name] = trial.suggest_float(name, *rest, log=True)
        elif kind == "int":
            config[name] = trial.suggest_int(name, *rest)
        else:
            config[name] = trial.suggest_categorical(name, rest[0])
    return config


class Peer:
    def __init__(self, space, trials, sampler, pruner, most):
        self.study = optuna.create_study(sampler=sampler, pruner=pruner)
        self.space, self.left, self.most = space, trials, most

    def ask(self):
        if self.left == 0:
            return None
        self.left -= 1
        trial = self.study.ask()
        return common.Job(suggest(trial, self.space), trial)

    def tell(self, job, iteration, loss):
        if self.most > 1:
            job.own.report(loss, iteration)
        if iteration == self.most:
            self.study.tell(job.own, loss)
            return False
        if job.own.should_prune():
            self.study.tell(job.own, state=optuna.trial.TrialState.PRUNED)
            return False
        return True


def uniform():
    return optuna.samplers.RandomSampler(seed=1)


def halving():
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)


def main():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    common.main("optuna", optuna.__version__, {
        "random": lambda space, n: Peer(space, n, uniform(), optuna.pruners.NopPruner(), 1),
        "asha": lambda space, n: Peer(space, n, uniform(), halving(), 81),
        "hyperband": lambda space, n: Peer(space, n, uniform(), optuna.pruners.HyperbandPruner(
            min_resource=1, max_resource=81, reduction_factor=3), 81),
        "tpe": lambda space, n: Peer(space, n, optuna.samplers.TPESampler(multivariate=True, seed=1),
                                     optuna.pruners.NopPruner(), 1),
    })


if __name__ == "__main__":
    main()
