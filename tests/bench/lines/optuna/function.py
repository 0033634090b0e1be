import optuna
from work import loss


def objective(trial):
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    return loss(lr, trial.suggest_int("layers", 1, 4))


study = optuna.create_study()
study.optimize(objective, n_trials=9)
print(study.best_params, study.best_value)
