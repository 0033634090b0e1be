import optuna

study = optuna.load_study(study_name="resume", storage="sqlite:///study.db")
print(study.trials_dataframe().sort_values("value"))
