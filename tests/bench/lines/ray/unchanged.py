import os
import subprocess
from ray import tune


def train(config):
    command = ["python3", config["script"], f"--lr={config['lr']}", f"--layers={config['layers']}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("loss: "):
                tune.report({"loss": float(line[6:])})


tuner = tune.Tuner(
    train,
    param_space={"lr": tune.loguniform(1e-4, 1e-1), "layers": tune.randint(1, 5),
                 "script": os.path.abspath("script.py")},
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=9,
                                scheduler=tune.schedulers.ASHAScheduler(max_t=9)))
best = tuner.fit().get_best_result()
print(best.config, best.metrics["loss"])
