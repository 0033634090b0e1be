import espalier
from work import Model

study = espalier.open({
    "experiment": {"name": "early", "metric": "loss", "goal": "minimize"},
    "trial": {"checkpoint": False},
    "space": {"lr": (1e-4, 1e-1, "log"), "layers": (1, 4)},
    "algorithm": {"use": "asha", "trials": 9, "iterations_max": 9}})
for trial in study:
    model = Model(**trial.params)
    for epoch in trial.iterations():
        study.tell(trial, model.train(), iteration=epoch)
print(study.best())
