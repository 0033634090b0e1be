"""A sweeper for Hydra: each job of --multirun is a trial of a study."""

import logging
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, Quote, QuotedString, RangeSweep, Transformer
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.errors import HydraException
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from . import config as _config                # noqa: F401  registers hydra/sweeper: espalier

log = logging.getLogger(__name__)


class EspalierSweeper(Sweeper):
    """Launches what espalier chooses until the search is complete."""

    def __init__(self, params: Optional[Mapping[str, Any]] = None, direction: str = "minimize",
                 trials: Optional[int] = None, jobs: int = 1, algorithm: Any = "auto", seed: Optional[int] = None,
                 target: Optional[float] = None, patience: Optional[int] = None, failures_max: Any = None,
                 dir: Optional[str] = None):
        if direction not in ("minimize", "maximize"):
            raise HydraException("hydra.sweeper.direction is '%s'; it can be minimize or maximize" % direction)
        if jobs < 1:
            raise HydraException("hydra.sweeper.jobs must be at least 1")
        self.params = {str(name): value for name, value in (params or {}).items()}
        self.jobs = jobs
        self.dir = dir
        self.experiment: Dict[str, Any] = {"metric": "value", "goal": direction, "seed": seed or 0}
        for name, value in (("target", target), ("patience", patience), ("failures_max", failures_max)):
            if value is not None:
                self.experiment[name] = value
        self.algorithm = _plain(algorithm)
        self.trials = trials

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config
        self.hydra_context = hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config)

    def sweep(self, arguments: List[str]) -> Any:
        import espalier
        if not hasattr(espalier, "open"):          # a package of PyPI has the same name
            raise HydraException("the package espalier in '%s' is another project: install espalier's own, as with "
                                 "`pip install ./sdk/python`" % os.path.dirname(str(espalier.__file__)))

        space, fixed = self._read(arguments)
        if not space:
            raise HydraException("there is nothing to search: give hydra.sweeper.params, or an argument such as "
                                 "'lr=interval(0.001,0.1)'")
        directory = str(self.config.hydra.sweep.dir)
        os.makedirs(directory, exist_ok=True)
        OmegaConf.save(self.config, os.path.join(directory, "multirun.yaml"))
        experiment = {"name": str(self.config.hydra.job.name or "sweep"), **self.experiment}
        config = {"experiment": experiment, "space": space, "algorithm": self._group()}
        try:
            with espalier.open(config, self.dir or os.path.join(directory, "espalier")) as study:
                failure = self._launch(study, fixed)
                best = study.best()
        except espalier.Error as error:
            raise HydraException(str(error)) from None
        if best is None or best["metric"] is None:
            raise failure or HydraException("no job returned a finite number")
        params = best["params"]
        OmegaConf.save(OmegaConf.create({"name": "espalier", "best_params": params, "best_value": best["metric"]}),
                       os.path.join(directory, "optimization_results.yaml"))
        log.info("best value: %s, of trial %s: %s", best["metric"], best["trial"],
                 " ".join(_override(name, value) for name, value in params.items()))
        return best["metric"]

    def _group(self) -> Dict[str, Any]:
        """The algorithm as a group of a configuration."""
        if self.algorithm == "auto":
            group: Dict[str, Any] = {"use": "random", "sampler": "auto"}
        else:
            group = dict(self.algorithm) if isinstance(self.algorithm, dict) else {"use": self.algorithm}
        group.setdefault("iterations_max", 1)
        if self.trials is not None or group["use"] != "grid":
            group.setdefault("trials", 50 if self.trials is None else self.trials)
        return group

    def _launch(self, study: Any, fixed: Sequence[str]) -> Optional[Exception]:
        """Runs all jobs; returns why the last one that failed did."""
        # A sweep that is continued keeps the directories of its earlier jobs.
        launched = sum(trial["state"] != "waiting" for trial in study.trials())
        failure: Optional[Exception] = None
        while True:
            trials = study.ask(self.jobs)
            if not trials:
                return failure
            overrides = [[*fixed, *(_override(name, value) for name, value in trial.params.items())]
                         for trial in trials]
            self.validate_batch_is_legal(overrides)
            results = self.launcher.launch(overrides, initial_job_idx=launched)
            launched += len(trials)
            for trial, result in zip(trials, results):
                if result.status != JobStatus.COMPLETED:
                    failure = result._return_value
                    study.fail(trial, repr(failure))
                    continue
                try:
                    study.tell(trial, result.return_value)
                except TypeError:
                    raise HydraException("a job must return the number to %s, not %r" % (
                        study.goal, result.return_value)) from None

    def _read(self, arguments: Sequence[str]) -> Tuple[Dict[str, Any], List[str]]:
        """What is searched, and the overrides of every job."""
        space: Dict[str, Any] = {}
        fixed: Dict[str, str] = {}
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        given = ["%s=%s" % (name, _text(value)) for name, value in self.params.items()]
        for override in parser.parse_overrides([*given, *arguments]):
            name = override.get_key_element()
            space.pop(name, None)              # the last one counts
            fixed.pop(name, None)
            if override.is_sweep_override():
                space[name] = _parameter(override)
            else:
                fixed[name] = override.input_line or ""
        return space, list(fixed.values())


def _parameter(override: Override) -> Any:
    """A sweep as a parameter of espalier; a choice is of texts in the grammar of overrides."""
    value = override.value()
    tags = getattr(value, "tags", set())
    scale = {"scale": "log"} if "log" in tags else {}
    if isinstance(value, IntervalSweep):
        if value.start is None or value.end is None:
            raise HydraException("'%s' is an interval without ends" % override.get_key_element())
        if isinstance(value.start, int) and isinstance(value.end, int):
            return {"type": "int", "low": value.start, "high": value.end, **scale}
        return {"type": "real", "low": float(value.start), "high": float(value.end), **scale}
    texts = list(dict.fromkeys(override.sweep_iterator(transformer=_encode)))
    if not texts:
        raise HydraException("'%s' has no values" % override.get_key_element())
    if isinstance(value, RangeSweep) and len(texts) > 1 and value.step and isinstance(value.step, int) and (
            isinstance(value.start, int)):
        ends = sorted((int(texts[0]), int(texts[-1])))
        step = {"quantum": abs(value.step)} if abs(value.step) > 1 else {}
        return {"type": "int", "low": ends[0], "high": ends[1], **step, **scale}
    ordered = "ordered" in tags or isinstance(value, RangeSweep)
    return {"type": "ordinal" if ordered else "choice", "values": texts}


def _encode(value: Any) -> Any:
    """An element of a sweep as an override has it.  In choice('1e-6'), Hydra has taken the quotes away."""
    return _quoted(value) if type(value) is str else Transformer.encode(value)


def _quoted(text: str) -> str:
    """A text in the grammar of overrides, in quotes unless it is a plain word."""
    if re.fullmatch(r"[A-Za-z_][\w./:-]*", text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    return QuotedString(text=text, quote=Quote.single).with_quotes()


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _text(value: Any) -> str:
    """A value of hydra.sweeper.params in the grammar of overrides: a text is written in it already."""
    value = _plain(value)
    if isinstance(value, (list, tuple)) and value:
        return ",".join(map(_element, value)) if len(value) > 1 else "choice(%s)" % _element(value[0])
    return value if isinstance(value, str) else _element(value)


def _element(value: Any) -> str:
    """A value within a list."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(map(_element, value))
    if isinstance(value, Mapping):
        return "{%s}" % ",".join("%s:%s" % (name, _element(one)) for name, one in value.items())
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _override(name: str, value: Any) -> str:
    return "%s=%s" % (name, repr(value) if isinstance(value, float) else value)
