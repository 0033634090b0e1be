import espalier
from work import loss

study = espalier.open({
    "experiment": {"name": "ask", "metric": "loss", "goal": "minimize"},
    "space": {"lr": (1e-4, 1e-1, "log"), "layers": (1, 4)},
    "algorithm": {"use": "tpe", "trials": 9, "iterations_max": 1}}, dir="ask")
for trial in study:
    study.tell(trial, loss(**trial.params))
print(study.best())
