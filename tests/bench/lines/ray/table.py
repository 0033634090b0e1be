import os
from ray import tune

results = tune.ExperimentAnalysis(os.path.abspath("results/resume"))
print(results.dataframe("loss", "min").sort_values("loss"))
