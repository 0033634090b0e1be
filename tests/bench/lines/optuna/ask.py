import optuna
from work import loss

study = optuna.create_study(storage="sqlite:///ask.db", study_name="ask", load_if_exists=True)
for _ in range(9):
    trial = study.ask()
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 4)
    study.tell(trial, loss(lr, layers))
print(study.best_params, study.best_value)
