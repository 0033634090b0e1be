"""hydra/sweeper: espalier, with its options."""

from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from hydra.core.config_store import ConfigStore


@dataclass
class EspalierSweeperConf:
    _target_: str = "hydra_plugins.hydra_espalier_sweeper.espalier_sweeper.EspalierSweeper"
    # what to search, in the grammar of Hydra's sweeps: {"lr": "tag(log, interval(1e-4, 1e-1))"}
    params: Dict[str, Any] = field(default_factory=dict)
    direction: str = "minimize"                # or "maximize": what the jobs return
    trials: Optional[int] = None               # how many jobs; default 50 (grid: all points)
    jobs: int = 1                              # how many are launched at once
    algorithm: Any = "auto"                    # a name, or a group as in a configuration file of espalier
    seed: Optional[int] = None
    target: Optional[float] = None             # the sweep ends at a value at least as good ...
    patience: Optional[int] = None             # ... or after so many jobs without a better one
    failures_max: Any = None                   # a number, or a share below 1
    dir: Optional[str] = None                  # of the study; default: espalier/ in the sweep directory


ConfigStore.instance().store(group="hydra/sweeper", name="espalier", node=EspalierSweeperConf, provider="espalier")
