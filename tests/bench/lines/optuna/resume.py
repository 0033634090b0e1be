import os
import optuna
from work import Model


def objective(trial):
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    model = Model(lr, trial.suggest_int("layers", 1, 4))
    path = "checkpoints/%(lr)r-%(layers)r" % trial.params
    if os.path.exists(path):
        model.load(path)
    for epoch in range(model.epoch + 1, 10):
        value = model.train()
        model.save(path)
        trial.report(value, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return value


os.makedirs("checkpoints", exist_ok=True)
storage = optuna.storages.RDBStorage(
    "sqlite:///study.db", heartbeat_interval=60,
    failed_trial_callback=optuna.storages.RetryFailedTrialCallback())
study = optuna.create_study(storage=storage, study_name="resume", load_if_exists=True,
                            pruner=optuna.pruners.SuccessiveHalvingPruner())
study.optimize(objective, n_trials=9)
print(study.best_params, study.best_value)
