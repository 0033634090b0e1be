import os
import tempfile
from ray import tune
from work import Model


def train(config):
    model, checkpoint = Model(**config), tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            model.load(os.path.join(folder, "model"))
    while model.epoch < 9:
        value = model.train()
        with tempfile.TemporaryDirectory() as folder:
            model.save(os.path.join(folder, "model"))
            tune.report({"loss": value}, checkpoint=tune.Checkpoint.from_directory(folder))


path = os.path.abspath("results")
if tune.Tuner.can_restore(os.path.join(path, "resume")):
    tuner = tune.Tuner.restore(os.path.join(path, "resume"), train)
else:
    tuner = tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-4, 1e-1), "layers": tune.randint(1, 5)},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=9,
                                    scheduler=tune.schedulers.ASHAScheduler(max_t=9)),
        run_config=tune.RunConfig(name="resume", storage_path=path))
best = tuner.fit().get_best_result()
print(best.config, best.metrics["loss"])
