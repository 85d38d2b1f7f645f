"""The trials of a running campaign as a table: measured ones, and pending ones whose outcome is still empty."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from mkbo_plugins.core.spread import check_spread
from mkbo_plugins.errors import TableError
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.parameters import is_finite_number
from mkbo_plugins.space.space import ParameterSpace, check_columns
from mkbo_plugins.tables.constraints import warn_broken
from mkbo_plugins.tables.table import odd_cells, warn_outside

if TYPE_CHECKING:
    import pandas as pd


FAILED = "failed"
"""What stands in the column of outcomes where an experiment gave none."""

PENDING = "pending"
"""What may stand there, as an empty cell does, where the outcome is not known yet."""

SAME = 1e-12
"""Relative difference up to which two values are the same: spreadsheets keep 15 digits."""


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
    failed
        Points at which an experiment gave no outcome and will give none, (f, d).
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    pending: Float[np.ndarray, "p d"]
    failed: Float[np.ndarray, "f d"] = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        if not len(self.failed):
            object.__setattr__(self, "failed", self.X[:0])

    @property
    def tried(self) -> Float[np.ndarray, "t d"]:
        """All points, (n + p + f, d)."""
        return np.concatenate([self.X, self.pending, self.failed])

    @classmethod
    def none(cls, space: ParameterSpace) -> "Trials":
        """Return a campaign that has not begun."""
        empty = np.empty((0, len(space.names)))
        return cls(empty, np.empty(0), empty)

    @classmethod
    def from_table(cls, table: "pd.DataFrame", target: str, space: ParameterSpace) -> "Trials":
        """Read trials from a table with a column for each parameter and one for the outcome.

        An outcome is a number, empty while pending, or the word ``failed`` where there will be none.

        Raises
        ------
        MkboError
            If a column is missing, a parameter's value is not one it can take, or an outcome is neither empty,
            ``failed`` nor a finite number; the message names the column and rows.

        Warns
        -----
        TableWarning
            If rows lie outside the bounds of the space, or break its constraints.
        """
        if target in space.names:
            raise TableError(f"target {target!r} is also a parameter of the space; name the column of outcomes")
        check_columns(list(table.columns), [*space.names, target])
        raw = space.to_raw(table)
        warn_outside(raw, space, RowNames.of(table))
        warn_broken(raw, space, RowNames.of(table))
        values = _outcomes(table[target].tolist())
        pending, failed = (np.array([value == kind for value in values], dtype=bool) for kind in (None, FAILED))
        measured = ~(pending | failed)
        faulty = [int(i) for i in np.flatnonzero(measured) if not is_finite_number(values[i])]
        if faulty:
            raise TableError(
                f"outcomes in column {target!r} must be numbers, empty while pending, or the word {FAILED!r}, got "
                f"{odd_cells(values, faulty, RowNames.of(table))}"
            )
        y = np.array([float(values[i]) for i in np.flatnonzero(measured)])
        check_spread(y, f"column {target!r} of outcomes")
        return cls(raw[measured], y, raw[pending], raw[failed])


def _outcomes(cells: Sequence[Any]) -> list[Any]:
    """Return cells with None for empty ones, and `FAILED` for that word, beside which numbers were read as text."""
    import pandas as pd

    words = [cell.strip().lower() if isinstance(cell, str) else cell for cell in cells]
    known = [
        None if pd.isna(word) or word == PENDING else FAILED if word == FAILED else cell
        for word, cell in zip(words, cells, strict=True)
    ]
    if FAILED not in known:
        return known
    return [_number(value) if isinstance(value, str) and value != FAILED else value for value in known]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def equal_up_to_rounding(points: Float[np.ndarray, "N d"], point: Float[np.ndarray, " d"]) -> Bool[np.ndarray, " N"]:
    """Return which points (N, d) are a point (d,), up to the digits that files keep, (N,)."""
    return np.isclose(points, point, rtol=SAME, atol=0.0).all(axis=1)


def differ(points: Float[np.ndarray, "N d"], tried: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " N"]:
    """Return which points (N, d) are not among those tried, (n, d), as booleans (N,)."""
    alike = (equal_up_to_rounding(points, point) for point in tried)
    return ~np.any([np.zeros(len(points), dtype=bool), *alike], axis=0)


def outcome_column(
    columns: Sequence[str],
    parameters: Sequence[str],
    known: Sequence[str],
    ignored: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> str:
    """Return the column that holds the outcome: the one called as in the table of knowledge, or the only other one.

    Parameters
    ----------
    columns
        Columns of the table of trials.
    parameters
        Those of them that are parameters.
    known
        Names of targets in tables of knowledge, of which one that is a column is meant.
    ignored
        Columns that are no outcomes.
    labels
        Columns that describe candidates; they are outcomes only where they are named.

    Raises
    ------
    TableError
        If there is no such column, or several.
    """
    possible = [name for name in columns if name not in parameters and name not in ignored]
    others = [name for name in possible if name not in labels]
    others = sorted(set(known).intersection(others)) or others
    if len(others) > 1:
        raise TableError(f"the outcome could be any of the columns {others}; name it with --target")
    if not others:
        named = f", or name one of them, as in --target {shlex.quote(possible[-1])}" if possible else ""
        also = f"; {possible} are columns of the candidates too" if possible else ""
        raise TableError(
            f"the trials have no column of outcomes, only {list(columns)}{also}; add one, empty while pending{named}"
        )
    return others[0]


def check_not_mistaken(table: "pd.DataFrame", target: str, others: Sequence[str]) -> None:
    """Check that the outcomes are not in another column than the one that was found.

    Parameters
    ----------
    table
        The table of trials.
    target
        The column of outcomes.
    others
        Columns that have no use.

    Raises
    ------
    TableError
        If the column of outcomes is empty, and another one is not.
    """
    if table.empty or table[target].notna().any():
        return
    filled = [name for name in others if any(map(is_finite_number, table[name]))]
    if filled:
        raise TableError(
            f"the column of outcomes, {target!r}, is empty, but {filled} hold numbers; name the outcomes, as in "
            f"--target {shlex.quote(filled[0])} (or --target {shlex.quote(target)} if nothing was measured yet)"
        )
