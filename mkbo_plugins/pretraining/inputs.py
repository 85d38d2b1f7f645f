"""The tables that one call of `pretrain` is given, each with what belongs to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mkbo_plugins.covariance.combined import union_of_spaces
from mkbo_plugins.errors import MkboError, MkboWarning, SpaceError, TableError, TableWarning
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.compositions import sums_not_said
from mkbo_plugins.tables.exports import completed
from mkbo_plugins.tables.table import TrainingTable


@dataclass(frozen=True, eq=False)
class Source:
    """A table with its target, space, groups, weights and noise as for `pretrain`.

    Parameters
    ----------
    label
        What it is called in messages, such as ``"table 2"``; empty where there is only one.
    """

    label: str
    table: Any
    target: str | None
    space: ParameterSpace
    groups: Any
    sample_weight: Any
    noise: Any

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Say in errors which table they are about."""
        try:
            yield
        except MkboError as error:
            if not self.label:
                raise
            raise type(error)(f"{self.label}: {error}") from error

    def named(self, warning: MkboWarning) -> MkboWarning:
        """Return a warning that says which table it is about."""
        if self.label:
            warning.args = (f"{self.label}: {warning}",)
        return warning

    def remarks(self, data: TrainingTable) -> list[MkboWarning]:
        """Return remarks on columns of its rows that sum to a constant of which the space does not speak."""
        columns = dict(zip(self.space.names, data.X.T, strict=True))
        rows = RowNames.of(self.table).only(data.numbers.tolist())
        found = sums_not_said(columns, rows, self.space.parameters, self.space.constraints)
        return [TableWarning(remark) for remark in found]


def sources_of(table: Any, target: Any, space: Any, groups: Any, sample_weight: Any, noise: Any) -> list[Source]:
    """Return the table, or each of a list of tables.

    Parameters
    ----------
    table, target, space, groups, sample_weight, noise
        As for `pretrain`.

    Raises
    ------
    TableError
        If the list of tables is empty, or another list has not one entry for each.
    SpaceError
        If a space is none, tables describe a parameter differently, or no table has a parameter of their common space.
    """
    if not isinstance(table, list):
        _check_spaces([space])
        return [Source("", completed(table, space.names), target, space, groups, sample_weight, noise)]
    tables = table
    if not tables:
        raise TableError("the list of tables is empty; give at least one")
    given = {"target": target, "groups": groups, "sample_weight": sample_weight, "noise": noise}
    targets, *others = (_per_table(values, len(tables), name) for name, values in given.items())
    labels = [f"table {i + 1}" if len(tables) > 1 else "" for i in range(len(tables))]
    _check_spaces(spaces := _per_table(space, len(tables), "space"))
    tables = [completed(one, of_one.names) for one, of_one in zip(tables, spaces, strict=True)]
    spaces = _spaces(tables, space)
    return [Source(*of_one) for of_one in zip(labels, tables, targets, spaces, *others, strict=True)]


def check_alike(sources: Sequence[Source]) -> None:
    """Raise a `SpaceError` unless all tables have the same parameters, in one order."""
    for source in sources[:-1]:
        if source.space != sources[-1].space:
            raise SpaceError(
                f"combine='chain' (--combine chain) needs tables with the same parameters, but {source.label} has "
                f"{list(source.space.names)} and {sources[-1].label} {list(sources[-1].space.names)}; give all tables "
                "one ParameterSpace, or use combine='sum' (--combine sum)"
            )


def _per_table(values: Any, tables: int, name: str) -> list[Any]:
    if not isinstance(values, list):
        return [values] * tables
    if len(values) != tables:
        raise TableError(
            f"{name} must be given once for all tables, or as a list with one entry for each of {tables}, got "
            f"{len(values)}"
        )
    return values


def _spaces(tables: Sequence[Any], space: Any) -> list[ParameterSpace]:
    spaces = _per_table(space, len(tables), "space")
    if isinstance(space, list) or len(tables) == 1:
        union_of_spaces(spaces)
        return spaces
    present = [_columns(table, space) for table in tables]
    lacking = [name for name in space.names if not any(name in columns for columns in present)]
    if lacking:
        raise SpaceError(f"parameters {lacking} of the space are columns of no table; add, rename or drop them")
    parted = [c for c in space.constraints if not any(set(c.names) <= set(columns) for columns in present)]
    if parted:
        raise SpaceError(
            f"the constraint {parted[0]} is on parameters that no table has together; leave it out here, and describe "
            "the target, with its constraints, by a space of its own, space= (--space)"
        )
    return [_part(space, columns) for columns in present]


def _part(space: ParameterSpace, columns: Sequence[Any]) -> ParameterSpace:
    """Return the parameters of a space that are columns, and the constraints on these."""
    return ParameterSpace(
        tuple(p for p in space.parameters if p.name in columns),
        tuple(c for c in space.constraints if set(c.names) <= set(columns)),
    )


def _check_spaces(spaces: Sequence[Any]) -> None:
    for one in spaces:
        if not isinstance(one, ParameterSpace):
            raise MkboError(
                f"space must be a ParameterSpace, got {type(one).__name__}; describe one with "
                "ParameterSpace.from_dict, or take it from the table with ParameterSpace.from_table(table, target)"
            )


def _columns(table: Any, space: ParameterSpace) -> list[Any]:
    """Return names of a table's columns; arrays and results have all parameters of the space."""
    return list(table.columns) if hasattr(table, "columns") else list(space.names)
