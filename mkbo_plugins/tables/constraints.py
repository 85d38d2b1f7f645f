"""Rows of people's tables that break the constraints of a space, and constraints that a target does not have."""

import warnings

import numpy as np
from jaxtyping import Float

from mkbo_plugins.errors import TableWarning
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.constraints import broken
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
