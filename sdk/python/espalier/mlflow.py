"""MLflow: each trial is a run in MLflow, named like the trial; a trial that is started again continues its run.

    run = espalier.trial.start(params={"lr": 0.1}, iterations=10)
    espalier.mlflow.log(run)                   # from here on each report is logged
"""

import atexit
import os
import time
from typing import Any, Mapping, Optional

import mlflow
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from espalier.trial import Run, _keep, _recall


def log(run: Run, tracking_uri: Optional[str] = None) -> Optional[str]:
    """Logs parameters now and the metrics of each report, with the iteration as the step.

    tracking_uri: where to (default: MLFLOW_TRACKING_URI, or what MLflow takes without it).
    Returns MLflow's id of the run, which also takes artifacts; None on ranks other than 0.
    """
    if run.rank != 0:
        return None
    client = mlflow.MlflowClient(tracking_uri=tracking_uri)
    kept = os.path.join(run.output, "mlflow-run-id")
    number = _recall(kept) if run.inside else ""
    if number:
        client.update_run(number, status="RUNNING")
    else:
        number = client.create_run(_experiment(client, run.experiment or "Default"), run_name=run.name).info.run_id
        client.log_batch(number, params=[Param(name, str(value)) for name, value in run.params.items()])
        if run.inside:
            _keep(kept, number)

    def listener(iteration: int, metrics: Mapping[str, Any]) -> None:
        now = int(time.time() * 1000)
        client.log_batch(number, [Metric(name, float(value), now, iteration) for name, value in metrics.items()])

    run.listen(listener)
    atexit.register(client.set_terminated, number)
    return number


def _experiment(client: Any, name: str) -> Any:
    """Its id; trials that begin at the same time create it once."""
    try:
        return client.create_experiment(name)
    except MlflowException:
        found = client.get_experiment_by_name(name)
        if found is None:
            raise
        return found.experiment_id
