import optuna
from work import Model


def objective(trial):
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    model = Model(lr, trial.suggest_int("layers", 1, 4))
    for epoch in range(1, 10):
        value = model.train()
        trial.report(value, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return value


pruner = optuna.pruners.SuccessiveHalvingPruner()
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(), pruner=pruner)
study.optimize(objective, n_trials=9)
print(study.best_params, study.best_value)
