"""Optuna's distributions as named parameters, and values of the one as values of the other."""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import TrialState

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.levels import as_level, level_parameter
from mkbo_plugins.space.matching import check_levels
from mkbo_plugins.space.parameters import Categorical, Level, Numeric, Ordered, Parameter, is_number
from mkbo_plugins.space.space import ParameterSpace

Distributions: TypeAlias = Mapping[str, BaseDistribution]

MOST_STEPS = 1000
"""Steps of a range up to which each is a level. Finer ones are taken to the nearest step when a value is proposed."""


def parameter_space(study: Study | Distributions) -> ParameterSpace:
    """Return a study's parameters as a `ParameterSpace`, for `pretrain` on it.

    Parameters
    ----------
    study
        A study, of which all parameters of completed trials are taken, each as the latest trial describes it; or
        distributions by name. Those of a single value are left out.

    Raises
    ------
    SpaceError
        If there are none, or one cannot be described.

    Examples
    --------
    >>> from optuna.distributions import FloatDistribution, IntDistribution
    >>> space = parameter_space({"lr": FloatDistribution(1e-5, 1e-1, log=True), "layers": IntDistribution(1, 6)})
    >>> space.to_dict()["lr"]
    {'bounds': [1e-05, 0.1], 'log': True, 'integer': False}
    """
    if isinstance(study, Study):
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        found = {name: distribution for trial in trials for name, distribution in trial.distributions.items()}
        if not found:
            raise SpaceError("the study has no completed trial with parameters yet; run it first")
    else:
        found = dict(checked(study))
    return ParameterSpace(tuple(parameter_of(name, d) for name, d in found.items() if not d.single()))


def checked(distributions: Any) -> Distributions:
    """Return distributions by name, or raise a `SpaceError` where they are none."""
    if not isinstance(distributions, Mapping) or not all(
        isinstance(d, BaseDistribution) for d in distributions.values()
    ):
        raise SpaceError(
            "distributions must be a mapping of names to Optuna's, as in {'lr': FloatDistribution(0.001, 0.1)}, "
            f"got {distributions!r:.60}"
        )
    return distributions


def parameter_of(name: str, distribution: BaseDistribution, pretrained: Parameter | None = None) -> Parameter:
    """Return the parameter that a distribution of several values stands for.

    Parameters
    ----------
    name, distribution
        The distribution and its name.
    pretrained
        The table's parameter of this name, beside which choices may be numbers, or have an order.

    Raises
    ------
    SpaceError
        If the table's parameter cannot take a choice, or has ordered levels that are no choices.
    """
    if isinstance(distribution, CategoricalDistribution):
        return _of_choices(name, tuple(map(as_level, distribution.choices)), pretrained)
    if not isinstance(distribution, (FloatDistribution, IntDistribution)):
        raise SpaceError(f"parameter {name!r} is a {type(distribution).__name__}, which is not supported")
    integer = isinstance(distribution, IntDistribution)
    if distribution.step and (distribution.step != 1 or not integer):
        steps = round((distribution.high - distribution.low) / distribution.step)
        if steps <= MOST_STEPS:
            return Ordered(name, _stepped(distribution.low, distribution.step, steps))
    return Numeric(name, distribution.low, distribution.high, log=distribution.log, integer=integer)


def _of_choices(name: str, levels: tuple[Level, ...], pretrained: Parameter | None) -> Parameter:
    if pretrained is not None and not isinstance(pretrained, Categorical):
        check_levels(pretrained, levels, "the study's choices")
    parameter = level_parameter(name, levels, pretrained)
    lacking = [level for level in parameter.indexed_levels if level not in levels]
    if lacking:
        raise SpaceError(
            f"parameter {name!r} has the ordered levels {list(parameter.indexed_levels)} in the table, of which the "
            f"study's choices lack {lacking}; give it all of them, in any order"
        )
    return parameter


@lru_cache(maxsize=64)
def _stepped(low: float, step: float, steps: int) -> tuple[float, ...]:
    return tuple(_step_at(low, step, k) for k in range(steps + 1))


def _step_at(low: float, step: float, k: int) -> Any:
    """Return the end of the k-th step, without the rounding of a product of binary numbers."""
    if isinstance(low, int) and isinstance(step, int):
        return low + k * step
    return float(Decimal(str(low)) + k * Decimal(str(step)))


def single_level(distribution: BaseDistribution) -> Level:
    """Return the only value of a distribution as a level."""
    return as_level(distribution.choices[0] if isinstance(distribution, CategoricalDistribution) else distribution.low)  # type: ignore[attr-defined]


def values_at(distribution: BaseDistribution, level: Level) -> list[Any]:
    """Return the value of a distribution that a level stands for, on a range the nearest step; none outside of it."""
    if isinstance(distribution, CategoricalDistribution):
        kind = isinstance(level, bool)
        alike = ((choice, as_level(choice)) for choice in distribution.choices)
        return [choice for choice, own in alike if own == level and isinstance(own, bool) == kind]
    assert isinstance(distribution, (FloatDistribution, IntDistribution))
    if not is_number(level) or not distribution.low <= float(level) <= distribution.high:
        return []
    if distribution.step is None:
        return [float(level)]
    return [_step_at(distribution.low, distribution.step, round((float(level) - distribution.low) / distribution.step))]
