"""Everything that is wrong with a table at once, where training would stop at the first fault."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from mkbo_plugins.errors import MkboError, MkboWarning, SpaceError, TableWarning
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.parameters import Parameter
from mkbo_plugins.space.space import ParameterSpace, check_doubled, parameter_of_column
from mkbo_plugins.tables.compositions import sums_not_said
from mkbo_plugins.tables.replicates import joined_replicates, replicates_note
from mkbo_plugins.tables.table import PresentRows, Task, check_rows, check_target, present_rows, read_table

if TYPE_CHECKING:
    import pandas as pd


class Severity(StrEnum):
    """What a finding means."""

    ERROR = "error"
    REMARK = "remark"


MANY_LEVELS = 0.8
"""Share of rows with a level of their own, from which on a column of text rather names rows."""


@dataclass(frozen=True)
class Finding:
    """Something about a table.

    Parameters
    ----------
    severity
        An error keeps the table from being trained on; a remark deserves a look.
    column
        The column, or None for the table as a whole.
    message
        What was found, in which rows, and what to do.
    """

    severity: Severity
    column: str | None
    message: str


def inspect_table(
    table: "pd.DataFrame",
    target: str,
    space: ParameterSpace | None = None,
    *,
    task: Task = "regression",
    log_target: bool = False,
    groups: str | None = None,
    noise: str | None = None,
    ignore: tuple[str, ...] = (),
) -> list[Finding]:
    """Return what is wrong with a table, column by column, errors first.

    Parameters
    ----------
    table
        The table.
    target
        Name of the target column.
    space
        Its parameters; None takes every other column that is neither `groups` nor `noise` nor ignored.
    task, log_target, groups, noise
        As for `pretrain`.
    ignore
        Columns that are no parameters, where there is no space.
    """
    present = [str(name) for name in table.columns]
    findings = _found(None, lambda: check_doubled(present, present)) or _found(None, lambda: check_rows(len(table)))
    if findings:
        return findings
    others = [name for name in present if name not in {target, groups, noise, *ignore}]
    findings = _of_target(table, target, task, log_target=log_target)
    parameters = []
    for name in others if space is None else space.names:
        parameter, faults = _of_parameter(table, name, space)
        parameters += [] if parameter is None else [parameter]
        findings += faults
    doubts = doubts_of_columns(table, parameters, taken=space is None and len(others) > 1)
    findings += [Finding(Severity.REMARK, name, doubt) for name, doubt in doubts.items()]
    limits = () if space is None else space.constraints
    columns = {parameter.name: table[parameter.name].tolist() for parameter in parameters}
    sums = sums_not_said(columns, RowNames.of(table), parameters, limits, taken=space is None)
    findings += [Finding(Severity.REMARK, None, remark) for remark in sums]
    unused = [] if space is None else [name for name in others if name not in space.names]
    if unused:
        findings.append(Finding(Severity.REMARK, None, f"columns {unused} are not in the space and are not used"))
    if not _errors(findings):
        whole = ParameterSpace(tuple(parameters), limits)
        settings: dict[str, Any] = {"task": task, "log_target": log_target, "groups": groups, "noise": noise}
        further = _found(None, lambda: _read(table, target, whole, settings))
        messages = {finding.message for finding in findings}
        findings += [finding for finding in further if finding.message not in messages]
    return sorted(findings, key=lambda finding: finding.severity is Severity.REMARK)


def _read(table: "pd.DataFrame", target: str, space: ParameterSpace, settings: dict[str, Any]) -> None:
    """Read a table as training does, and warn of rows that repeat a setting."""
    data = read_table(table, target, space, missing="drop", **settings)
    joined = joined_replicates(data)
    if joined is not data:
        warnings.warn(replicates_note(joined, len(data.y)), TableWarning, stacklevel=2)


def doubts_of_columns(table: "pd.DataFrame", parameters: Iterable[Parameter], *, taken: bool) -> dict[str, str]:
    """Return, for columns that may not be meant as they are taken, why not.

    Parameters
    ----------
    table
        The table.
    parameters
        What they are taken as.
    taken
        Whether they were taken from its columns, so that some may be none.
    """
    doubts = {}
    for parameter in parameters:
        name, levels = parameter.name, parameter.indexed_levels
        alike = _alike(levels)
        if alike:
            doubts[name] = (
                f"levels of {name!r} differ only in case or blanks: {alike}; if they mean the same, write one"
            )
        elif taken and _names_rows(table[name].dropna(), levels):
            doubts[name] = (
                f"column {name!r} seems to name rows ({table[name].nunique()} values in {len(table)} rows); if it is "
                "no parameter, leave it out with table.drop(columns=...) (--ignore)"
            )
    return doubts


def _alike(levels: tuple[Any, ...]) -> list[list[Any]]:
    """Return levels that are the same but for case and blanks."""
    found: dict[str, list[Any]] = {}
    for level in levels:
        found.setdefault("".join(str(level).casefold().split()), []).append(level)
    return [same for same in found.values() if len(same) > 1]


def _names_rows(values: "pd.Series[Any]", levels: tuple[Any, ...]) -> bool:
    """Return whether nearly every row has its own level, or numbers count the rows."""
    if levels:
        return len(levels) > 2 and len(levels) >= MANY_LEVELS * len(values)
    return len(values) > 2 and bool((np.diff(values.to_numpy(dtype=float)) == 1).all())


def _of_target(table: "pd.DataFrame", target: str, task: Task, *, log_target: bool) -> list[Finding]:
    if target not in table.columns:
        columns = [str(name) for name in table.columns]
        hint = did_you_mean(target, columns)
        return [Finding(Severity.ERROR, target, f"target {target!r} is not a column; the table has {columns}{hint}")]

    def check(rows: PresentRows) -> None:
        y, classes = rows.target(target, task, log_target=log_target)
        check_target(y, target, classes, None)

    return _of_column(table, target, check)


def _of_parameter(
    table: "pd.DataFrame", name: str, space: ParameterSpace | None
) -> tuple[Parameter | None, list[Finding]]:
    """Return a parameter, taken from its column where no space is given, and what is wrong with the column."""
    if name not in table.columns:
        hint = did_you_mean(name, table.columns)
        message = f"column {name!r} is missing; the table has {list(table.columns)}{hint}"
        return None, [Finding(Severity.ERROR, name, message)]
    try:
        parameter = parameter_of_column(table[name]) if space is None else space[name]
    except SpaceError as error:
        return None, [Finding(Severity.ERROR, name, str(error))]
    single = ParameterSpace((parameter,))
    return parameter, _of_column(table, name, lambda rows: rows.inputs(single))


def _of_column(table: "pd.DataFrame", name: str, check: Callable[[PresentRows], object]) -> list[Finding]:
    """Return faults of a column, those that hide behind missing values too, or else remarks on it."""
    gaps = _found(name, lambda: present_rows(table, [name], "error"))
    others = _found(name, lambda: check(present_rows(table, [name], "drop")))
    return _errors(gaps + others) or others


def _errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def _found(column: str | None, check: Callable[[], object]) -> list[Finding]:
    """Return the error that a check raises and the warnings it gives."""
    faults = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check()
        except MkboError as error:
            faults.append(Finding(Severity.ERROR, column, str(error)))
    remarks = [w for w in caught if issubclass(w.category, MkboWarning)]
    return faults + [Finding(Severity.REMARK, column, str(remark.message)) for remark in remarks]
