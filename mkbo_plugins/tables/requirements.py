"""What a campaign requires of further outcomes, and what was measured of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from mkbo_plugins.errors import TableError
from mkbo_plugins.messages.hints import did_you_mean, shown_value
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.parameters import is_finite_number
from mkbo_plugins.space.space import ParameterSpace, check_columns
from mkbo_plugins.tables.table import standard_deviations

if TYPE_CHECKING:
    import pandas as pd

_WRITTEN = re.compile(r"\s*(?P<outcome>.*?)\s*(?P<sign>>=|<=)\s*(?P<bound>[^<>=]*?)\s*")


@dataclass(frozen=True)
class Requirement:
    """An outcome that must stay above or below a bound.

    Parameters
    ----------
    outcome
        Its name.
    bound
        The bound, which is allowed.
    at_least
        Whether the outcome must be at least the bound, else at most.
    """

    outcome: str
    bound: float
    at_least: bool

    def __str__(self) -> str:
        return f"{self.outcome} {'>=' if self.at_least else '<='} {self.bound:g}"

    @classmethod
    def parse(cls, text: str) -> "Requirement":
        """Read what is written as ``yield >= 80`` or ``impurity <= 0.5``.

        Raises
        ------
        TableError
            If it is written otherwise.
        """
        written = _WRITTEN.fullmatch(text)
        if written is None or not written["outcome"]:
            raise TableError(
                f"a requirement (--require) is written as 'yield >= 80' or 'impurity <= 0.5', got {text!r}"
            )
        try:
            bound = float(written["bound"])
        except ValueError:
            bound = np.nan
        if not np.isfinite(bound):
            raise TableError(
                f"the bound of the requirement (--require) {text!r} must be a number, got {written['bound']!r}"
            )
        return cls(written["outcome"], bound, written["sign"] == ">=")

    def met(self, values: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Return which values meet it, (n,)."""
        return values >= self.bound if self.at_least else values <= self.bound


@dataclass(frozen=True, eq=False)
class Required:
    """A requirement with what was measured of its outcome.

    Parameters
    ----------
    requirement
        The requirement.
    X
        Points where the outcome was measured, (m, d) in raw units.
    y
        Its values, (m,).
    of_trials
        Its values at the trials whose own outcome is known, (n,), in their order.
    """

    requirement: Requirement
    X: Float[np.ndarray, "m d"]
    y: Float[np.ndarray, " m"]
    of_trials: Float[np.ndarray, " n"]

    @classmethod
    def from_table(
        cls, requirement: Requirement, table: "pd.DataFrame", target: str, space: ParameterSpace
    ) -> "Required":
        """Read values from a table of trials, where they may be empty in rows without a value of the target.

        Raises
        ------
        TableError
            If there is no such column, it is a parameter or the target, or a value is missing or no number; the message
            names the rows.
        """
        name = requirement.outcome
        check_named(table, f"--require {str(requirement)!r}", name)
        if name in space.names or name == target:
            kind = "a parameter; give it bounds in --space" if name in space.names else "the outcome that is optimised"
            raise TableError(f"--require {str(requirement)!r}: {name!r} is {kind}; only further outcomes are required")
        values = _numbers(table, name, measured_rows(table, target))
        present = np.isfinite(values)
        return cls(requirement, space.to_raw(table)[present], values[present], values[measured_rows(table, target)])


def measured_rows(table: "pd.DataFrame", target: str) -> Int[np.ndarray, " n"]:
    """Return the numbers of the rows whose outcome is a number, (n,)."""
    import pandas as pd

    return np.flatnonzero(pd.to_numeric(table[target], errors="coerce").notna())


def check_named(table: "pd.DataFrame", option: str, name: str) -> None:
    """Raise a `TableError` if an option names a column that a table of trials does not have once."""
    columns = [str(column) for column in table.columns]
    if name not in columns:
        raise TableError(
            f"{option}: the table of --done has no column {name!r}, only {columns}{did_you_mean(name, columns)}"
        )
    check_columns(columns, [name])


def noise_of_trials(table: "pd.DataFrame", target: str, noise: str) -> Float[np.ndarray, " n"]:
    """Return the known standard deviations of measured outcomes, (n,), from a column of a table of trials.

    Raises
    ------
    TableError
        If there is no such column, or a measured row has no finite number above 0 in it.
    """
    check_named(table, "--noise", noise)
    rows = measured_rows(table, target)
    names = RowNames.of(table.iloc[rows], rows.tolist())
    return standard_deviations(table[noise].to_numpy()[rows], f"noise in column {noise!r}", names)


def all_met(required: Sequence[Required], count: int) -> Bool[np.ndarray, " n"]:
    """Return which of so many measured trials meet every requirement, (n,)."""
    return np.all([np.ones(count, dtype=bool), *(one.requirement.met(one.of_trials) for one in required)], axis=0)


def _numbers(table: "pd.DataFrame", name: str, needed: Int[np.ndarray, " n"]) -> Float[np.ndarray, " N"]:
    """Return a column's numbers, (N,), NaN where it is empty in a row that is not needed."""
    empty = table[name].isna().to_numpy()
    values = table[name].tolist()
    faulty = [i for i, value in enumerate(values) if not empty[i] and not is_finite_number(value)]
    if faulty:
        raise TableError(
            f"required outcomes in column {name!r} must be numbers, got {shown_value(values[faulty[0]])} in "
            f"{RowNames.of(table).at(faulty)}; mend them"
        )
    lacking = needed[empty[needed]]
    if lacking.size:
        raise TableError(
            f"values of the required outcome {name!r} are missing in {RowNames.of(table).at(lacking)}, where the "
            "experiment is measured; fill them in, or leave the outcome empty as well while it is pending"
        )
    return np.array([np.nan if gap else float(value) for value, gap in zip(values, empty, strict=True)])
