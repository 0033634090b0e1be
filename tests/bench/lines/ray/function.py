from ray import tune
from ray.tune.search.optuna import OptunaSearch
from work import loss


def objective(config):
    return {"loss": loss(**config)}


tuner = tune.Tuner(
    objective,
    param_space={"lr": tune.loguniform(1e-4, 1e-1), "layers": tune.randint(1, 5)},
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=9,
                                search_alg=OptunaSearch()))
best = tuner.fit().get_best_result()
print(best.config, best.metrics["loss"])
