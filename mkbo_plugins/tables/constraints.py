"""Rows of people's tables that break the constraints of a space, and constraints that a target does not have."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.region.polytope import Polytope
from mkbo_plugins.errors import TableWarning
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.constraints import LinearConstraint, broken, polytope
from mkbo_plugins.space.mapping import Affine, Constant, Source
from mkbo_plugins.space.parameters import Numeric
from mkbo_plugins.space.space import ParameterSpace

AS_WRITTEN = 2e-3
"""Share of a constraint's largest number by which rows may break it: people write few digits."""


def warn_broken(
    X: Float[np.ndarray, "N columns"], space: ParameterSpace, names: RowNames, *, stacklevel: int = 3
) -> None:
    """Warn of rows that break the constraints of a space by more than what was lost by writing few digits.

    Parameters
    ----------
    X, space, names, stacklevel
        As for `mkbo_plugins.tables.table.warn_outside`.

    Warns
    -----
    TableWarning
        For each constraint with such rows.
    """
    for constraint in space.constraints:
        excess = broken(constraint, space.names, X, AS_WRITTEN)
        rows = np.flatnonzero(excess)
        if rows.size:
            most = np.abs(excess).max()
            warnings.warn(
                f"the constraint {constraint} is not kept in {names.at(rows)}, by up to {most:.3g}; check these rows, "
                "or the constraint",
                TableWarning,
                stacklevel=stacklevel,
            )


def warn_of_lost(
    space: ParameterSpace,
    sources: Mapping[str, Source],
    names: Sequence[str],
    region: Polytope,
    where: str,
    remedy: str,
    *,
    stacklevel: int = 2,
) -> None:
    """Warn of each constraint of a table's space that a target does not keep.

    Parameters
    ----------
    space
        The table's parameters, with constraints.
    sources
        What stands for them in the target, by their names.
    names, region
        Numeric parameters of the target, and which values it lets them take together.
    where
        What messages call the target, as in "the experiment".
    remedy
        What to do.
    stacklevel
        As for `warnings.warn`, 2 being the caller of this function's caller.

    Warns
    -----
    TableWarning
        For each such constraint, with the values that its sum can take there.
    """
    for constraint in space.constraints:
        ends = _ends(constraint, sources, names, region)
        slack = 1e-6 * max(abs(end) for end in (constraint.least, constraint.most) if np.isfinite(end))
        if ends is not None and constraint.least - slack <= ends[0] and ends[1] <= constraint.most + slack:
            continue
        found = "" if ends is None else f", where {constraint.form} runs from {ends[0]:.6g} to {ends[1]:.6g}"
        warnings.warn(
            f"the table's space keeps {constraint}, but {where} does not{found}; {remedy}",
            TableWarning,
            stacklevel=stacklevel + 1,
        )


def _ends(
    constraint: LinearConstraint, sources: Mapping[str, Source], names: Sequence[str], region: Polytope
) -> tuple[float, float] | None:
    """Return between which numbers a constraint's sum lies in a target; None if it is none of numbers there."""
    form, shift = np.zeros(len(names)), 0.0
    for name, weight in constraint.coefficients:
        source = sources.get(name)
        if isinstance(source, Constant):
            shift += weight * source.number
        elif isinstance(source, Affine) and not source.log and set(source.columns) <= set(names):
            shift += weight * source.intercept
            for column, factor in source.terms:
                form[names.index(str(column))] += weight * factor
        else:
            return None
    ends = region.interval(form) if np.abs(form).max(initial=0.0) > 0 else (0.0, 0.0)
    return None if ends is None else (ends[0] + shift, ends[1] + shift)


def warn_of_lost_by_name(
    space: ParameterSpace,
    target: ParameterSpace,
    fixed: Mapping[str, float],
    where: str,
    remedy: str,
    *,
    stacklevel: int = 2,
) -> None:
    """Warn as `warn_of_lost` where a target's parameters are called as the table's.

    Parameters
    ----------
    space, where, remedy, stacklevel
        As there.
    target
        The target's parameters, with their constraints.
    fixed
        Raw numbers of parameters that it keeps constant, by name.
    """
    names = [p.name for p in target.parameters if isinstance(p, Numeric)]
    sources: dict[str, Source] = {name: Affine(((name, 1.0),)) for name in names}
    sources |= {name: Constant(number) for name, number in fixed.items()}
    region = polytope(target.parameters, target.constraints)
    warn_of_lost(space, sources, names, region, where, remedy, stacklevel=stacklevel + 1)
