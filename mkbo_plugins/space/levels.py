"""Levels of a target that the table does not have: the space with them, and points of the table in it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.matching import check_mapping
from mkbo_plugins.space.parameters import (
    Categorical,
    FurtherLevels,
    Level,
    Ordered,
    Parameter,
    is_finite_number,
    plain_value,
)
from mkbo_plugins.space.space import ParameterSpace


def levels_by_name(space: ParameterSpace | None, fixed: Mapping[str, Any] | None) -> dict[str, FurtherLevels]:
    """Return the levels of a target's categorical parameters, and what others are fixed at, by name.

    Those with descriptors have them. Anything but a space has no levels; whoever needs one says so.

    Raises
    ------
    SpaceError
        If `fixed` is no mapping.
    """
    check_mapping("fixed", fixed)
    parameters = space.parameters if isinstance(space, ParameterSpace) else ()
    found: dict[str, FurtherLevels] = {name: (value,) for name, value in (fixed or {}).items()}
    for p in parameters:
        if isinstance(p, Categorical):
            found[p.name] = p.rows if isinstance(p, Described) else p.levels
    return found


def as_level(choice: Any) -> Level:
    """Return a choice of a host as a level: text, truth values and numbers as they are, others as Python writes them.

    None is the level ``"None"``, since an empty cell of a table is a missing value.
    """
    choice = plain_value(choice)
    return choice if isinstance(choice, (str, bool)) or is_finite_number(choice) else repr(choice)


def level_parameter(name: str, levels: tuple[Level, ...], pretrained: Parameter | None) -> Parameter:
    """Return the parameter that levels of a host stand for: ordered or described where the table's of this name is.

    Raises
    ------
    SpaceError
        If the table's has descriptors, and one of the levels has none.
    """
    if isinstance(pretrained, Described):
        return replace(pretrained.only(levels), name=name)
    if pretrained is None or isinstance(pretrained, Categorical):
        return Categorical(name, levels)
    return pretrained if pretrained.indexed_levels else Ordered(name, tuple(sorted(levels)))


def described_alike(target: ParameterSpace, pretrained: ParameterSpace) -> ParameterSpace:
    """Return a target's space in which plain levels have the descriptors that the table's parameter has.

    Raises
    ------
    SpaceError
        If one of the levels has none there.
    """

    def alike(parameter: Parameter) -> Parameter:
        known = pretrained[parameter.name] if parameter.name in pretrained.names else None
        if parameter.has_coordinate_per_level and isinstance(known, Described):
            return known.only(parameter.indexed_levels)
        return parameter

    return ParameterSpace(tuple(map(alike, target.parameters)), target.constraints)


def new_levels(space: ParameterSpace, levels: Mapping[str, FurtherLevels]) -> dict[str, FurtherLevels]:
    """Return those levels, by the names of categorical parameters of a table's space, that the table lacks.

    They have descriptors where the table's levels have them and they were given.
    """
    found: dict[str, FurtherLevels] = {}
    for p in space.parameters:
        if not isinstance(p, Categorical) or p.name not in levels:
            continue
        given = levels[p.name]
        new = tuple(plain_value(level) for level in given if _is_new(p, plain_value(level)))
        if new and isinstance(p, Described) and isinstance(given, Mapping):
            found[p.name] = {level: given[level] for level in new}
        elif new:
            found[p.name] = new
    return found


def _is_new(parameter: Categorical, level: Any) -> bool:
    if not (isinstance(level, (str, bool)) or is_finite_number(level)):
        return False
    try:
        parameter.to_raw(level)
    except SpaceError:
        return True
    return False


def widened(space: ParameterSpace, new: Mapping[str, FurtherLevels]) -> ParameterSpace:
    """Return a space with further levels behind those of categorical parameters.

    Raises
    ------
    SpaceError
        If a name is no categorical parameter of it, a level is there already, or it lacks descriptors.
    """
    strange = [name for name in new if not isinstance(space[name], Categorical)]
    if strange:
        raise SpaceError(f"parameters {strange} are not categorical; new levels are of those without an order")
    return ParameterSpace(
        tuple(p.widened(new[p.name]) if isinstance(p, Categorical) and p.name in new else p for p in space.parameters),
        space.constraints,
    )


def widened_points(
    points: Float[np.ndarray, "N d"], space: ParameterSpace, new: Mapping[str, FurtherLevels]
) -> Float[np.ndarray, "N e"]:
    """Return frame coordinates (N, d) in a space as those in the widened one, (N, e): no point has a new level."""
    return np.insert(points, _places(space, new), 0.0, axis=1)


def widened_weights(
    weights: Sequence[float], space: ParameterSpace, new: Mapping[str, FurtherLevels]
) -> tuple[float, ...]:
    """Return weights of coordinates (d,) in the widened space, (e,): a new level has the mean of its parameter's."""
    values, owners = np.array(weights), np.array(space.coordinate_owners)
    means = [values[owners == name].mean() for name, _ in _with_coordinates(space, new)]
    return tuple(np.insert(values, _places(space, new), means).tolist())


def _places(space: ParameterSpace, new: Mapping[str, FurtherLevels]) -> list[int]:
    """Return before which coordinates those of new levels stand, in the order of `new`."""
    owners = space.coordinate_owners
    ends = {name: len(owners) - owners[::-1].index(name) for name in new}
    return [ends[name] for name, _ in _with_coordinates(space, new)]


def _with_coordinates(space: ParameterSpace, new: Mapping[str, FurtherLevels]) -> list[tuple[str, Level]]:
    """Return the new levels that have a coordinate of their own, with their parameters: those without descriptors."""
    return [(name, level) for name in new if space[name].has_coordinate_per_level for level in new[name]]
