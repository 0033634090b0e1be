from ray import tune
from work import Model


def train(config):
    model = Model(**config)
    for _ in range(9):
        tune.report({"loss": model.train()})


tuner = tune.Tuner(
    train,
    param_space={"lr": tune.loguniform(1e-4, 1e-1), "layers": tune.randint(1, 5)},
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=9,
                                scheduler=tune.schedulers.ASHAScheduler(max_t=9)))
best = tuner.fit().get_best_result()
print(best.config, best.metrics["loss"])
