"""What an experiment optimises, and which of its metrics have pre-trained covariances."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ax.core.experiment import Experiment
from ax.core.optimization_config import OptimizationConfig

from mkbo_plugins.ax.surrogate import OBJECTIVE
from mkbo_plugins.errors import MkboError

T = TypeVar("T")


def optimization_config(experiment: Experiment) -> OptimizationConfig:
    """Return what the experiment optimises.

    Raises
    ------
    MkboError
        If this was not set.
    """
    if experiment.optimization_config is None:
        raise MkboError("the experiment has no objective yet; call configure_optimization first")
    return experiment.optimization_config


def covered_metrics(experiment: Experiment, given: Mapping[str, T]) -> dict[str, T]:
    """Return what was given for each metric by its name, `OBJECTIVE` resolved.

    Raises
    ------
    MkboError
        If a metric is unknown, or there are several objectives to which a single covariance could belong.
    """
    objectives = list(optimization_config(experiment).objective.metric_names)
    if OBJECTIVE in given and len(objectives) > 1:
        raise MkboError(
            f"the experiment has the objectives {objectives}; name the metric of each covariance, "
            f"{{{objectives[0]!r}: cov}}; metrics without one get Ax's own model"
        )
    metrics = {objectives[0] if name == OBJECTIVE else name: of_metric for name, of_metric in given.items()}
    if len(metrics) < len(given):
        raise MkboError(f"cov has {OBJECTIVE!r}, which stands for the objective, and {objectives[0]!r}; keep one")
    unknown = [name for name in metrics if name not in experiment.metrics]
    if unknown:
        raise MkboError(f"metrics {unknown} are not in the experiment, which has {sorted(experiment.metrics)}")
    return metrics


def objective_signs(experiment: Experiment, given: Iterable[str]) -> dict[str, int]:
    """Return 1 for each objective that is to be large and -1 for each that is to be small, by the names given.

    Raises
    ------
    MkboError
        If a metric is unknown or no objective.
    """
    objective = optimization_config(experiment).objective
    weights = dict(zip(objective.metric_names, [weight for _, weight in objective.metric_weights], strict=True))
    metrics = {name: metric for name in given for metric in covered_metrics(experiment, {name: ""})}
    strange = [metric for metric in metrics.values() if metric not in weights]
    if strange:
        raise MkboError(
            f"metrics {strange} are no objectives, so that no first trials can be designed for them; say the direction "
            f"of objectives only, which are {list(weights)}"
        )
    return {name: 1 if weights[metric] > 0 else -1 for name, metric in metrics.items()}
