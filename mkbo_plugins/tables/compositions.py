"""Columns that sum to a constant, as the parts of a mixture do."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.constraints import LinearConstraint
from mkbo_plugins.space.parameters import Numeric, Parameter, is_finite_number

FEWEST_ROWS = 5
"""Rows that must use columns which sum to a constant: fewer may by accident."""

FEWEST_VALUES = 3
"""Different values that each column must have in these rows."""

MOST_ROWS = 0.9
"""Share of the rows that use the columns in which the sum must be the constant: others may hold mistakes."""

PER_CENT = 1e-2
"""Share of the constant up to which sums may differ, for the digits that were not written."""

MOST_COLUMNS = 12
"""Columns up to which all sets of them are tried; of more, neighbours, and the linear dependences among all."""

MOST_NEIGHBOURS = 40
"""Columns side by side whose sum is looked at; of more, only where linear dependences lead to them."""

USUAL_WHOLES = (1.0, 100.0)
"""What two columns must sum to: any other constant is as likely an accident, or one column written twice."""


@dataclass(frozen=True)
class ConstantSum:
    """Columns that sum to a constant.

    Parameters
    ----------
    names
        The columns.
    total
        The constant.
    unused
        Numbers of rows, counting from 0, in which all are 0 or empty.
    odd
        Numbers of the other rows in which the sum is another.
    """

    names: tuple[str, ...]
    total: float
    unused: tuple[int, ...]
    odd: tuple[int, ...]

    @property
    def constraint(self) -> LinearConstraint:
        """The constraint that a space says this by."""
        return LinearConstraint(tuple((name, 1.0) for name in self.names), self.total, self.total)

    def sentence(self, rows: RowNames, *, taken: bool) -> str:
        """Return what was found, and what to do; `taken` if a space taken from the table says it of itself."""
        found = f"columns {list(self.names)} sum to {self.total:g}"
        if taken and self.complete:
            return (
                f"{found} in every row: without --space, mkbo pretrain takes this as a constraint, so that only points "
                "which keep it are suggested; if it is an accident, give a space"
            )
        where = "every row that uses them" if self.unused else "every row"
        if self.odd:
            where = f"most rows, but not in {rows.at(self.odd)} (check these for mistakes)"
        listed = ", ".join(f'"{name}"' for name in self.names)
        return (
            f"{found} in {where}; if they are the parts of a mixture, say so in the space, in TOML by [[constraint]] "
            f"with sum = [{listed}] and equals = {self.total:g}, in Python by ParameterSpace.from_dict(..., "
            "constraints=[...]): else points are suggested that cannot be made"
        )

    @property
    def complete(self) -> bool:
        """Whether it holds in every row."""
        return not self.unused and not self.odd


def sums_not_said(
    columns: Mapping[str, Sequence[Any]],
    rows: RowNames,
    parameters: Iterable[Parameter],
    constraints: Iterable[LinearConstraint] = (),
    *,
    taken: bool = False,
) -> list[str]:
    """Return remarks on columns that sum to a constant of which no constraint speaks.

    Parameters
    ----------
    columns
        Values by name of the column, (N,) each.
    rows
        What the rows are called.
    parameters
        What the columns are taken as.
    constraints
        Constraints of the space.
    taken
        Whether parameters were taken from the columns.
    """
    said = [set(constraint.names) for constraint in constraints]
    numeric = {p.name: columns[p.name] for p in parameters if isinstance(p, Numeric)}
    return [one.sentence(rows, taken=taken) for one in constant_sums(numeric) if set(one.names) not in said]


def constant_sums(columns: Mapping[str, Sequence[Any]]) -> list[ConstantSum]:
    """Return the smallest sets of columns that sum to a constant, an empty cell counting as 0.

    Left out are columns of anything but numbers, with negative ones, or with hardly any different values; sets of which
    every row uses one column only, as columns that mark a level do; and pairs, unless they sum to 1 or 100.

    Parameters
    ----------
    columns
        Values by name of the column, (N,) each.
    """
    read = {name: _numbers(values) for name, values in columns.items()}
    numbers = {name: values for name, values in read.items() if values is not None}
    if len(numbers) < 2:
        return []
    names, X = list(numbers), np.column_stack(list(numbers.values()))
    lost = np.array([0.5 * 10.0 ** -_decimals(values) for values in X.T])
    found: list[tuple[set[int], ConstantSum]] = []
    for chosen in sorted(_sets(X, lost), key=len):
        if not any(smaller <= set(chosen) for smaller, _ in found):
            one = _constant(X[:, chosen], float(lost[list(chosen)].sum()), [names[j] for j in chosen])
            found += [] if one is None else [(set(chosen), one)]
    return [one for _, one in found]


def _numbers(values: Sequence[Any]) -> Float[np.ndarray, " N"] | None:
    import pandas as pd

    filled = [0.0 if pd.isna(value) else value for value in values]
    if not all(map(is_finite_number, filled)):
        return None
    numbers = np.array(filled, dtype=float)
    return numbers if (numbers >= 0).all() and len(np.unique(numbers)) >= FEWEST_VALUES else None


def _decimals(values: Float[np.ndarray, " N"]) -> int:
    """Return how many decimals numbers were written with."""
    return max(len(f"{value:.15g}".partition(".")[2]) if value < 1e15 else 0 for value in values)


def _sets(X: Float[np.ndarray, "N c"], lost: Float[np.ndarray, " c"]) -> list[tuple[int, ...]]:
    """Return the sets of columns to try."""
    count = X.shape[1]
    if count <= MOST_COLUMNS:
        return [chosen for size in range(2, count + 1) for chosen in combinations(range(count), size)]
    ends = (min(i + MOST_NEIGHBOURS, count) for i in range(count))
    neighbours = [tuple(range(i, j)) for i, end in enumerate(ends) for j in range(i + 2, end + 1)]
    return neighbours + _dependent(X, lost)


def _dependent(X: Float[np.ndarray, "N c"], lost: Float[np.ndarray, " c"]) -> list[tuple[int, ...]]:
    """Return sets of columns whose sums are constant in every row, as far as these share no columns."""
    if len(X) < X.shape[1] + 2:
        return []
    unit = np.maximum(lost, 1e-10 * np.abs(X).max(axis=0))
    _, sizes, axes = np.linalg.svd((X - X.mean(axis=0)) / unit, full_matrices=False)
    basis = axes[sizes <= np.sqrt(len(X))]
    # Projected on the dependences, columns of one set are alike in their units, and those of others are 0.
    weights = np.abs(basis.T @ basis) / unit
    chosen = [tuple(map(int, np.flatnonzero(row > 0.5 * row.max()))) for row in weights if row.max() > 0]
    return list(dict.fromkeys(chosen))


def _constant(values: Float[np.ndarray, "N c"], lost: float, names: list[str]) -> ConstantSum | None:
    """Return the sum of columns if it is constant and no accident."""
    used = (values > 0).any(axis=1)
    if used.sum() < FEWEST_ROWS or ((values > 0).sum(axis=1) <= 1).all():
        return None
    sums = values[used].sum(axis=1)
    total = _plain(float(np.median(sums)), lost)
    slack = min(lost, PER_CENT * total) + 1e-9 * total
    right = np.abs(sums - total) <= slack
    if right.mean() < MOST_ROWS or right.sum() < FEWEST_ROWS:
        return None
    if len(names) == 2 and not np.isclose(total, USUAL_WHOLES, rtol=1e-9).any():
        return None
    inside = values[used][right]
    if any(len(np.unique(column)) < FEWEST_VALUES or np.ptp(column) <= 4 * slack for column in inside.T):
        return None
    rows: Int[np.ndarray, " u"] = np.flatnonzero(used)
    return ConstantSum(tuple(names), total, tuple(map(int, np.flatnonzero(~used))), tuple(map(int, rows[~right])))


def _plain(total: float, lost: float) -> float:
    """Return the number of fewest digits that a sum may be, given what its terms lost."""
    return next(
        (float(f"{total:.{digits}g}") for digits in range(1, 12) if abs(float(f"{total:.{digits}g}") - total) <= lost),
        float(f"{total:.12g}"),
    )
