"""The trials of a running campaign as a table: measured ones, and pending ones whose outcome is still empty."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mkbo_plugins.errors import TableError
from mkbo_plugins.parameters import is_finite_number, odd_rows
from mkbo_plugins.space import ParameterSpace, check_columns
from mkbo_plugins.table import row_list

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Trials:
    """What was tried so far, in raw units.

    Parameters
    ----------
    X
        Points measured, (n, d).
    y
        Their outcomes, (n,).
    pending
        Points whose outcome is not known yet, (p, d).
    """

    X: np.ndarray
    y: np.ndarray
    pending: np.ndarray

    @property
    def tried(self) -> np.ndarray:
        """All points, (n + p, d)."""
        return np.concatenate([self.X, self.pending])

    @classmethod
    def none(cls, space: ParameterSpace) -> "Trials":
        """Return a campaign that has not begun."""
        empty = np.empty((0, len(space.names)))
        return cls(empty, np.empty(0), empty)

    @classmethod
    def from_table(cls, table: "pd.DataFrame", target: str, space: ParameterSpace) -> "Trials":
        """Read trials from a table with a column for each parameter and one for the outcome, empty where pending.

        Raises
        ------
        MkboError
            If a column is missing, a parameter's value is not one it can take, or an outcome is neither empty nor a
            finite number; the message names the column and rows.
        """
        if target in space.names:
            raise TableError(f"target {target!r} is also a parameter of the space; name the column of outcomes")
        check_columns(list(table.columns), [*space.names, target])
        raw = space.to_raw(table)
        pending = table[target].isna().to_numpy()
        values = table[target].tolist()
        faulty = [i for i, value in enumerate(values) if not pending[i] and not is_finite_number(value)]
        if faulty:
            faulty = odd_rows(values, faulty)
            raise TableError(
                f"outcomes in column {target!r} must be numbers, or empty while pending, got "
                f"{values[faulty[0]]!r:.60} in rows {row_list(np.array(faulty))}"
            )
        y = np.array([float(value) for value, open_ in zip(values, pending, strict=True) if not open_])
        return cls(raw[~pending], y, raw[pending])


def outcome_column(columns: Sequence[str], parameters: Sequence[str], known: str, ignored: Sequence[str] = ()) -> str:
    """Return the column that holds the outcome: the one called as in the table of knowledge, or the only other one.

    Parameters
    ----------
    columns
        Columns of the table of trials.
    parameters
        Those of them that are parameters.
    known
        Name of the target in the table of knowledge.
    ignored
        Columns that are no outcomes.

    Raises
    ------
    TableError
        If there is no such column, or several.
    """
    others = [name for name in columns if name not in parameters and name not in ignored]
    if known in others:
        return known
    if len(others) != 1:
        raise TableError(
            f"the outcome could be any of the columns {others}; name it with --target"
            if others
            else f"the trials have no column of outcomes, only {list(columns)}; add one, empty while pending"
        )
    return others[0]
