"""A search with cross-validation in the manner of scikit-learn's: in place of RandomizedSearchCV.

    search = EspalierSearchCV(SVC(), {"C": (1e-2, 1e3, "log"), "gamma": (1e-4, 1.0, "log")}, n_iter=50)
    search.fit(X, y)
    search.best_params_, search.best_score_, search.predict(X_new)
"""

import math
import numbers
import os
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy
from joblib import effective_n_jobs
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from espalier import study as _study


class EspalierSearchCV(BaseSearchCV):  # type: ignore[misc, unused-ignore]
    """Cross-validates the parameters that espalier chooses, each from the scores before.

    estimator, scoring, n_jobs, refit, cv, verbose, pre_dispatch, random_state, error_score,
    return_train_score: as for scikit-learn's RandomizedSearchCV.  With several metrics, `refit`
    names the one to maximize.
    param_distributions: of each parameter (low, high), (low, high, "log"), a list of values of any
    type, a group as in a configuration file, or uniform, loguniform, randint, norm or lognorm of
    scipy.stats.
    n_iter: how many candidates.
    algorithm: its name, or its group as in a configuration file; "auto" is random search with the
    sampler of that name.
    resource: with an algorithm that stops candidates early (asha, hyperband), the parameter of the
    estimator, such as "n_estimators", that is set to the iterations which the candidate has got.
    """

    _parameter_constraints = {
        **BaseSearchCV._parameter_constraints,
        "param_distributions": [dict],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "algorithm": [str, dict],
        "resource": [str, None],
        "random_state": ["random_state"],
    }

    def __init__(self, estimator: Any, param_distributions: Mapping[str, Any], *, n_iter: int = 50,
                 algorithm: Any = "auto", resource: Optional[str] = None, scoring: Any = None,
                 n_jobs: Optional[int] = None, refit: Any = True, cv: Any = None, verbose: int = 0,
                 pre_dispatch: Any = "2*n_jobs", random_state: Any = None, error_score: Any = numpy.nan,
                 return_train_score: bool = False):
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.algorithm = algorithm
        self.resource = resource
        self.random_state = random_state
        super().__init__(estimator=estimator, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv, verbose=verbose,
                         pre_dispatch=pre_dispatch, error_score=error_score, return_train_score=return_train_score)

    def _run_search(self, evaluate_candidates: Callable[[List[Dict[str, Any]]], Mapping[str, Any]]) -> None:
        space, choices = _space(self.param_distributions)
        if self.resource is not None and self.resource not in self.estimator.get_params():
            raise ValueError("resource: the estimator has no parameter %r" % self.resource)
        if self.resource in self.param_distributions:
            raise ValueError("resource: %r is one of param_distributions, too" % self.resource)
        config = {"experiment": {"name": type(self.estimator).__name__, "metric": "score", "goal": "maximize",
                                 "seed": int(check_random_state(self.random_state).randint(2 ** 31 - 1))},
                  "space": space, "algorithm": self._group()}
        with tempfile.TemporaryDirectory(prefix="espalier-") as kept:
            with _study.open(config, os.path.join(kept, "study")) as study:
                self._evaluate(study, choices, evaluate_candidates)

    def _group(self) -> Dict[str, Any]:
        """The algorithm as a group of a configuration."""
        if self.algorithm == "auto":
            group: Dict[str, Any] = {"use": "random", "sampler": "auto"}
        else:
            group = dict(self.algorithm) if isinstance(self.algorithm, Mapping) else {"use": self.algorithm}
        if self.resource is None:
            group.setdefault("iterations_max", 1)
        return group if group.get("use") == "grid" else {"trials": int(self.n_iter), **group}

    def _evaluate(self, study: Any, choices: Mapping[str, Mapping[str, Any]], evaluate_candidates: Any) -> None:
        at_once = max(1, math.ceil(effective_n_jobs(self.n_jobs) / self.n_splits_))
        score = "mean_test_%s" % (self.refit if isinstance(self.refit, str) else "score")
        scored, failure = 0, None
        while True:
            trials = study.ask(at_once)
            if not trials:
                break
            candidates = [self._candidate(trial, choices) for trial in trials]
            try:
                results = evaluate_candidates(candidates)
            except ValueError as error:        # every fit of these candidates has failed
                if self.error_score == "raise" or "fits failed" not in str(error):
                    raise
                failure = error
                for trial in trials:
                    study.fail(trial, str(error))
                continue
            if score not in results:
                raise ValueError("with several metrics, refit must name the one to maximize")
            scored += len(trials)
            for trial, value in zip(trials, results[score][-len(trials):]):
                if math.isfinite(value):
                    study.tell(trial, value)
                else:
                    study.fail(trial, "its score is %s" % value)
        if failure is not None and not scored:
            raise failure

    def _candidate(self, trial: Any, choices: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
        candidate = {name: choices[name][value] if name in choices else value for name, value in trial.params.items()}
        return candidate if self.resource is None else {**candidate, self.resource: trial.until}


def _space(given: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Dict[str, Any]]]:
    """The space for espalier, and of choices that it cannot hold the value for each label."""
    space: Dict[str, Any] = {}
    choices: Dict[str, Dict[str, Any]] = {}
    for name, values in given.items():
        if hasattr(values, "rvs"):
            space[name] = _of_distribution(name, values)
        elif isinstance(values, (tuple, Mapping)):
            space[name] = values
        elif hasattr(values, "__iter__") and not isinstance(values, str):
            listed = list(values.tolist() if hasattr(values, "tolist") else values)
            if not all(map(_is_plain, listed)):
                choices[name] = {"%d: %.60r" % (number, value): value for number, value in enumerate(listed)}
                listed = list(choices[name])
            space[name] = listed
        else:
            raise TypeError("param_distributions: %s is %r, which is no range, list or distribution" % (name, values))
    return space, choices


def _is_plain(value: Any) -> bool:
    """Can a configuration hold it, and give it back as it was?"""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)


def _of_distribution(name: str, frozen: Any) -> Any:
    """A frozen distribution of scipy.stats as a range."""
    kind = getattr(getattr(frozen, "dist", None), "name", type(frozen).__name__)
    if kind in ("uniform", "loguniform", "reciprocal"):
        low, high = map(float, frozen.support())
        return (low, high) if kind == "uniform" else (low, high, "log")
    if kind == "randint":
        low, high = frozen.support()
        return int(low), int(high)
    if kind == "norm":
        return {"type": "real", "mean": float(frozen.mean()), "sd": float(frozen.std())}
    if kind == "lognorm" and frozen.support()[0] == 0:
        median = float(frozen.median())
        return {"type": "real", "mean": median, "sd": math.log(float(frozen.ppf(0.975)) / median) / 1.959963984540054, "scale": "log"}
    raise ValueError("param_distributions: %s is a distribution %r; uniform, loguniform, randint, norm and lognorm can be searched, "
                     "or write a range as (low, high) or (low, high, \"log\")" % (name, kind))
