"""Which columns of a table are taken as its parameters where no space describes them."""

from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.columns import is_constant, parameter_of_column
from mkbo_plugins.space.constraints import LinearConstraint, check_constraints
from mkbo_plugins.space.parameters import Numeric, Parameter
from mkbo_plugins.tables.compositions import constant_sums

if TYPE_CHECKING:
    import pandas as pd

NOTHING_VARIES = "no column that may be a parameter varies; add rows with other settings, or other columns"


@dataclass(frozen=True)
class Taken:
    """What columns of a table are taken as.

    Parameters
    ----------
    parameters
        Parameters, in the order of the columns.
    constant
        Columns that are left out since they do not vary.
    faults
        What is wrong with each other column, by name.
    """

    parameters: tuple[Parameter, ...]
    constant: tuple[str, ...]
    faults: dict[str, str]

    @property
    def left_out(self) -> str:
        """What to say of constant columns; nothing where there is none."""
        if not self.constant:
            return ""
        verb = "is constant or empty and is" if len(self.constant) == 1 else "are constant or empty and are"
        return f"{_columns(self.constant)} {verb} left out: nothing can be learned about what does not vary"


def taken_columns(
    columns: Sequence[str], others: Set[str | None], parameters: Sequence[str] | None = None
) -> list[str]:
    """Return the columns taken as parameters: those named, or all, but for those that are something else."""
    return [name for name in (columns if parameters is None else parameters) if name not in others]


def take_parameters(table: "pd.DataFrame", names: Sequence[str]) -> Taken:
    """Return what columns of a table, each of which it has, are taken as."""
    constant, faults, parameters = [], {}, []
    for name in names:
        if is_constant(table[name]):
            constant.append(name)
            continue
        try:
            parameters.append(parameter_of_column(table[name]))
        except SpaceError as error:
            faults[name] = str(error)
    return Taken(tuple(parameters), tuple(constant), faults)


def sums_kept(table: "pd.DataFrame", parameters: Sequence[Parameter]) -> tuple[LinearConstraint, ...]:
    """Return constraints for parameters, taken from a table, that sum to a constant in every row."""
    numeric = {p.name: table[p.name].tolist() for p in parameters if isinstance(p, Numeric)}
    constraints: tuple[LinearConstraint, ...] = ()
    for found in filter(lambda one: one.complete, constant_sums(numeric)):
        with suppress(SpaceError):  # not within the extremes, up to rounding; training remarks on the columns
            check_constraints(parameters, (*constraints, found.constraint))
            constraints = (*constraints, found.constraint)
    return constraints


def _columns(names: Sequence[str]) -> str:
    return f"column {names[0]!r}" if len(names) == 1 else f"columns {list(names)}"
