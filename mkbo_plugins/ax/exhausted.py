"""Whether a search space of choices and whole numbers has points left to try."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ChoiceParameter, DerivedParameter, FixedParameter, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization
from ax.exceptions.core import SearchSpaceExhausted

from mkbo_plugins.errors import MkboError

MOST_COMBINATIONS = 20_000
"""Combinations of values that are looked through, in a fraction of a second."""


class ExhaustedError(SearchSpaceExhausted, MkboError):
    """There are no further points; Ax's own loops end by it, as by its own error."""


def check_points_left(
    experiment: Experiment,
    n: int | None = None,
    pending: Mapping[str, Iterable[ObservationFeatures]] | None = None,
    fixed: ObservationFeatures | None = None,
) -> None:
    """Raise an error if there are fewer than `n` points that are neither trials nor pending; those that failed count.

    Ax itself draws ten thousand points, or searches several times over, before it says so.

    Parameters
    ----------
    experiment
        The experiment.
    n
        Number of points asked for; None means one.
    pending
        Points that are being tried, as Ax hands them to a generation node.
    fixed
        Values at which parameters are kept for this suggestion.

    Raises
    ------
    ExhaustedError
        If there are fewer.
    """
    space, n = experiment.search_space, n or 1
    values = _values(space, {} if fixed is None else fixed.parameters)
    if values is None:
        return
    tried = [arm.parameters for arm in experiment.arms_by_signature_for_deduplication.values()]
    tried += [one.parameters for metric in (pending or {}).values() for one in metric]
    taken = {_key(point, values) for point in tried}
    left: set[Any] = set()
    all_points: set[Any] = set()
    for read, point in enumerate(_points(space, values)):
        if read == MOST_COMBINATIONS:
            return
        if point is None:
            continue
        key = _key(point, values)
        all_points.add(key)
        if key not in taken:
            left.add(key)
        if len(left) == n:
            return
    total, further = len(all_points), len(left)
    raise ExhaustedError(
        f"the search space has {further or 'no'} further points to try, {n} asked for: of the {total} that it has, "
        f"{total - further} are trials or pending; ask for fewer at once, or widen the search space"
    )


def _values(space: SearchSpace, fixed: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """Return the values of each parameter that varies, or None if one of them has infinitely many."""
    values: dict[str, list[Any]] = {}
    for name, parameter in space.parameters.items():
        if isinstance(parameter, (FixedParameter, DerivedParameter)):
            continue
        if name in fixed:
            values[name] = [fixed[name]]
        elif isinstance(parameter, ChoiceParameter):
            values[name] = list(parameter.values)
        elif isinstance(parameter, RangeParameter) and parameter.cardinality() <= MOST_COMBINATIONS:
            values[name] = list(range(int(parameter.lower), int(parameter.upper) + 1))
        else:
            return None
    return values


def _points(space: SearchSpace, values: Mapping[str, list[Any]]) -> Iterator[TParameterization | None]:
    """Yield the point of each combination of values, or None where it breaks a constraint."""
    fixed = {name: p.value for name, p in space.parameters.items() if isinstance(p, FixedParameter)}
    derived = [p for p in space.parameters.values() if isinstance(p, DerivedParameter)]
    for combination in product(*values.values()):
        point = fixed | dict(zip(values, combination, strict=True))
        point |= {p.name: p.compute(point) for p in derived}
        if space.is_hierarchical:
            point = space.cast_observation_features(ObservationFeatures(parameters=point)).parameters
        yield point if space.check_membership(point) else None


def _key(point: Mapping[str, Any], names: Iterable[str]) -> tuple[tuple[str, Any], ...]:
    return tuple([(name, point[name]) for name in names if name in point])
