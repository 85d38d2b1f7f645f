"""Points of an experiment: completed where parameters depend on others, failed ones, and unit-scaled inputs."""

from collections.abc import Iterable, Sequence

import numpy as np
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ChoiceParameter, RangeParameter, get_dummy_value_for_parameter
from ax.core.parameter import Parameter as AxParameter
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization
from jaxtyping import Float

from mkbo_plugins.space.parameters import Categorical, Numeric, Ordered, Parameter, is_number
from mkbo_plugins.space.space import ParameterSpace

FAILURES = (TrialStatus.FAILED, TrialStatus.ABANDONED)
"""States of trials that will have no data."""


def completed(point: TParameterization, space: SearchSpace) -> TParameterization:
    """Return a point with every parameter of a search space, those it lacks at the values by which Ax fills them in.

    A parameter is lacking where it depends on another one, or was added after the trial.
    """
    lacking = {name: p for name, p in space.parameters.items() if name not in point}
    return {**point, **{name: get_dummy_value_for_parameter(p) for name, p in lacking.items()}}


def tried_points(experiment: Experiment) -> list[TParameterization]:
    """Return the points of all trials, completed, but those with a level that the search space has no more."""
    return _points_of(experiment.arms_by_name.values(), experiment)


def failed_points(experiment: Experiment) -> list[TParameterization]:
    """Return those of `tried_points` that were tried in failed or abandoned trials alone."""
    others = {arm.name for trial in experiment.trials.values() if trial.status not in FAILURES for arm in trial.arms}
    return _points_of([arm for name, arm in experiment.arms_by_name.items() if name not in others], experiment)


def _points_of(arms: Iterable[Arm], experiment: Experiment) -> list[TParameterization]:
    choices = [p for p in experiment.search_space.parameters.values() if isinstance(p, ChoiceParameter)]
    points = [completed(arm.parameters, experiment.search_space) for arm in arms]
    return [point for point in points if all(point[p.name] in p.values for p in choices)]


def failures(experiment: Experiment) -> int:
    """Return the number of trials that will have no data."""
    return sum(len(experiment.trials_by_status[status]) for status in FAILURES)


def with_failed(
    pending: dict[str, list[ObservationFeatures]] | None, experiment: Experiment
) -> dict[str, list[ObservationFeatures]] | None:
    """Return pending points with those of failed trials, near which there is little to gain either.

    Abandoned ones, Ax itself has among the pending.
    """
    failed = [
        ObservationFeatures.from_arm(arm=arm, trial_index=trial.index)
        for trial in experiment.trials_by_status[TrialStatus.FAILED]
        for arm in trial.arms
        if experiment.search_space.check_membership(arm.parameters)
    ]
    if not failed:
        return pending
    return {name: [*(pending or {}).get(name, []), *(f.clone() for f in failed)] for name in experiment.metrics}


def tuned_space(space: SearchSpace) -> ParameterSpace:
    """Return the parameters of a search space that vary and are free."""
    return ParameterSpace(tuple(p for p in map(_tuned, space.parameters.values()) if p is not None))


def _tuned(parameter: AxParameter) -> Parameter | None:
    if isinstance(parameter, RangeParameter):
        return Numeric(parameter.name, parameter.lower, parameter.upper, log=parameter.log_scale)
    if not isinstance(parameter, ChoiceParameter) or len(parameter.values) < 2:
        return None
    levels: tuple = tuple(parameter.values)
    if not parameter.is_ordered:
        return Categorical(parameter.name, levels)
    return Ordered(parameter.name, tuple(sorted(levels)) if all(map(is_number, levels)) else levels)


def unit_inputs(points: Sequence[TParameterization], space: ParameterSpace) -> Float[np.ndarray, "n k"]:
    """Return points (n) over the parameters of `tuned_space` as unit-scaled inputs, (n, k)."""
    raw = np.array([[p.to_raw(point[p.name]) for p in space.parameters] for point in points])
    return np.asarray(space.to_coordinates(raw.reshape(-1, len(space.names)), "unit"))
