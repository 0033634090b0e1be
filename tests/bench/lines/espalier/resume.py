import os
import espalier.trial
from work import Model

run = espalier.trial.start(params={"lr": 0.01, "layers": 2}, iterations=9)
model = Model(**run.params)
if run.checkpoint:
    model.load(os.path.join(run.checkpoint, "model"))
for epoch in run.iterations():
    verdict = run.report(epoch, {"loss": model.train()})
    if verdict.save:
        model.save(os.path.join(run.save, "model"))
        run.saved(epoch)
