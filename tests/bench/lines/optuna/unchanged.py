import subprocess
import optuna


def objective(trial):
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 4)
    command = ["python3", "script.py", f"--lr={lr}", f"--layers={layers}"]
    epoch = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("loss: "):
                value = float(line[6:])
                epoch += 1
                trial.report(value, epoch)
                if trial.should_prune():
                    process.terminate()
                    raise optuna.TrialPruned()
    return value


study = optuna.create_study(pruner=optuna.pruners.SuccessiveHalvingPruner())
study.optimize(objective, n_trials=9)
print(study.best_params, study.best_value)
