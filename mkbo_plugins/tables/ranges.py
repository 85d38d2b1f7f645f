"""Whether the ranges of a target's parameters can be in the units of the table's."""

import warnings
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
from jaxtyping import Float

from mkbo_plugins.errors import TableWarning
from mkbo_plugins.space.parameters import Numeric, Parameter, Scaled
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.table import FAR_OUTSIDE

LEAST_OVERLAP = 0.1
"""Share of the shorter of two ranges that both have in common, below which their units are in doubt."""

MOST_APART = 100.0
"""Ratio of the largest numbers of two ranges on linear scales, from which on their units are in doubt."""


def warn_of_units(
    space: ParameterSpace,
    targets: Mapping[str, Parameter],
    fixed: Mapping[str, Any] | None = None,
    *,
    stacklevel: int = 2,
) -> None:
    """Warn of each range or constant of a target that is unlikely to be in the units of the table.

    A range inside the table's or around it is taken as meant, unless its largest number is a hundred times smaller or
    larger on a linear scale. One beside the table's, with less than a tenth in common, is not.

    Parameters
    ----------
    space
        The table's parameters.
    targets
        Parameters of the target by their names in the table. Those without numbers, in either, are left out.
    fixed
        Values of the table's parameters that the target keeps constant, by name; those beyond the bounds by more than
        `mkbo_plugins.tables.table.FAR_OUTSIDE` are in doubt.
    stacklevel
        As for `warnings.warn`, 2 being the caller of this function's caller.

    Warns
    -----
    TableWarning
        For each such range, with both ranges and what to do, and for each such constant.
    """
    for name, value in (fixed or {}).items():
        table = space[name]
        if not isinstance(table, Numeric):
            continue
        unit = float(table.to_coordinates(np.array([table.to_raw(value)]), "unit")[0, 0])
        if not -FAR_OUTSIDE <= unit <= 1 + FAR_OUTSIDE:
            warnings.warn(
                f"parameter {name!r} is fixed at {value:g}, but runs from {_shown(table)} in the table. Are the units "
                "the same? If the value is meant, the table knows little of it",
                TableWarning,
                stacklevel=stacklevel + 1,
            )
    for name, target in targets.items():
        table = space[name]
        if not (_is_number(table) and _is_number(target)):
            continue
        doubt = _doubt(table, target)
        if doubt is not None:
            called = f", where it is called {name!r}" if name != target.name else ""
            warnings.warn(
                f"parameter {target.name!r} runs from {_shown(target)} here but from {_shown(table)} in the table"
                f"{called}: {doubt}. Are the units the same? Use the table's here, or pre-train on the table in those "
                "used here. If the ranges are meant, the table knows little of this one",
                TableWarning,
                stacklevel=stacklevel + 1,
            )


def _is_number(parameter: Parameter) -> TypeGuard[Scaled]:
    return isinstance(parameter, Scaled) and not parameter.indexed_levels


def _doubt(table: Scaled, target: Scaled) -> str | None:
    ends, here = _raw_ends(table), _raw_ends(target)
    if not (table.log and here[0] <= 0):
        low, high = np.asarray(table.to_coordinates(here, "unit"))[:, 0]
        if min(high, 1.0) - max(low, 0.0) < LEAST_OVERLAP * min(high - low, 1.0):
            return "they have little or nothing in common"
    if table.log or target.log:
        return None  # a range on a logarithmic scale may well be narrowed to a few of its decades
    largest = sorted([np.abs(ends).max(), np.abs(here).max()])
    ratio = largest[1] / largest[0]
    return f"their largest numbers are {ratio:.0f} times apart" if ratio >= MOST_APART * (1 - 1e-9) else None


def _raw_ends(parameter: Scaled) -> Float[np.ndarray, " 2"]:
    return np.exp(parameter.ends) if parameter.log else np.array(parameter.ends)


def _shown(parameter: Scaled) -> str:
    low, high = _raw_ends(parameter)
    return f"{low:g} to {high:g}"
