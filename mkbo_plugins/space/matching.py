"""Whether what a host optimises over fits a pre-trained covariance: names, kinds, levels and numbers."""

import math
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.parameters import Categorical, Numeric, Parameter
from mkbo_plugins.space.space import ParameterSpace


def check_mapping(argument: str, given: Any) -> None:
    """Raise a `SpaceError` unless an argument is a mapping, or None."""
    if given is not None and not isinstance(given, Mapping):
        raise SpaceError(f"{argument} must be a mapping, as in {{'gas': 'Air'}}, got {type(given).__name__}")


def check_sequence(argument: str, given: Any) -> None:
    """Raise a `SpaceError` unless an argument is a sequence of names, or None."""
    if given is None:
        return
    listed = isinstance(given, Collection) and not isinstance(given, (str, Set, Mapping))
    if not listed or getattr(given, "ndim", 1) != 1 or not all(isinstance(name, str) for name in given):
        raise SpaceError(f"{argument} must be a list of names, as in ['power', 'gas'], got {given!r}")


def check_names(
    space: ParameterSpace, present: Sequence[str], fixed: Mapping[str, Any], *, lacks: str, within: str, remedy: str
) -> None:
    """Raise a `SpaceError` unless each pre-trained parameter is either present in a target or fixed.

    Messages speak of the target as in "the experiment lacks" and "in the experiment", and add a `remedy` where it lacks
    a parameter.
    """
    unknown = [name for name in fixed if name not in space.names]
    if unknown:
        raise SpaceError(f"fixed parameters {unknown} are not pre-trained; the covariance has {list(space.names)}")
    both = [name for name in fixed if name in present]
    if both:
        raise SpaceError(f"parameters {both} are both fixed and {within}; keep one")
    lacking = [name for name in space.names if name not in present and name not in fixed]
    if lacking:
        raise SpaceError(
            f"{lacks} pre-trained parameters {lacking}; give each the constant value it has there, "
            f"fixed={{name: value}}{remedy}"
        )


def check_kind(table: Parameter, target: Parameter, where: str) -> None:
    """Raise a `SpaceError` unless a target's parameter is a number where the table's is, or else has its levels."""
    if isinstance(table, Categorical) and isinstance(target, Categorical):
        check_levels(table, target.levels, f"the parameter {where}")
        if isinstance(table, Described) and isinstance(target, Described):
            _check_numbers(table, target, where)
    elif (table.indexed_levels or target.indexed_levels) and target != table:
        raise SpaceError(
            f"parameter {target.name!r} {_kind(table)} in the table but {_kind(target)} {where}; describe it alike in "
            "both"
        )


def _kind(parameter: Parameter) -> str:
    if not parameter.indexed_levels:
        return "is numeric"
    ordered = "" if isinstance(parameter, Categorical) else "ordered "
    return f"has the {ordered}levels {list(parameter.indexed_levels)}"


def _check_numbers(table: Described, target: Described, where: str) -> None:
    """Raise a `SpaceError` unless the levels of a target have the descriptors and numbers that they have in a table."""
    known = table.rows
    for level, row in target.rows.items():
        if set(row) != set(known[level]):
            raise SpaceError(
                f"parameter {target.name!r} has the descriptors {list(row)} {where} but {list(known[level])} in the "
                "table; describe levels alike in both, or name them in a list"
            )
        other = next((key for key in row if not math.isclose(row[key], known[level][key], rel_tol=1e-9)), None)
        if other is not None:
            raise SpaceError(
                f"parameter {target.name!r}: {other!r} of {level!r} is {row[other]:g} {where} but "
                f"{known[level][other]:g} in the table; describe levels alike in both, or name them in a list"
            )


def check_levels(table: Parameter, levels: Sequence[Any], place: str) -> None:
    """Raise a `SpaceError` if the table's parameter cannot take one of a target's levels, to be left out of `place`."""
    for level in levels:
        try:
            table.to_raw(level)
        except SpaceError as error:
            further = ""
            if table.has_coordinate_per_level:
                further = f", or use cov.with_levels({{{table.name!r}: [{level!r}]}}) in place of cov"
            raise SpaceError(f"{error}; leave the level out of {place}{further}") from error


def check_positive(table: Parameter, target: Parameter) -> None:
    """Raise a `SpaceError` if a range of the target reaches 0 but is on a log scale in the table."""
    if is_log(table) and isinstance(target, Numeric) and target.lower <= 0:
        raise SpaceError(
            f"parameter {target.name!r} begins at {target.lower:g} here, but is on a log scale in the table and must "
            "be above 0; raise its lower bound"
        )


def is_log(parameter: Parameter) -> bool:
    """Return whether a parameter is on a log scale."""
    return isinstance(parameter, Numeric) and parameter.log


def check_above_zero(numbers: Array, names: Sequence[Any]) -> None:
    """Raise a `SpaceError` if numbers (..., m) of parameters on a log scale are not all above 0; `names` are theirs."""
    above = numbers > 0
    if not bool(array_namespace(numbers).all(above)):
        name = next(name for j, name in enumerate(names) if not bool(above[..., j].all()))
        raise SpaceError(f"parameter {name!r} is on a log scale and must be above 0 everywhere")
