"""Everything that is wrong with a table at once, where training would stop at the first fault."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mkbo_plugins.errors import MkboError, MkboWarning, TableWarning
from mkbo_plugins.messages.hints import did_you_mean, listed
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.parameters import Parameter
from mkbo_plugins.space.space import ParameterSpace, check_doubled
from mkbo_plugins.tables.compositions import sums_not_said
from mkbo_plugins.tables.doubts import doubts_of_columns
from mkbo_plugins.tables.replicates import joined_replicates, replicates_note
from mkbo_plugins.tables.table import FEWEST_ROWS, PresentRows, Task, check_rows, check_target, present_rows, read_table
from mkbo_plugins.tables.taken import NOTHING_VARIES, take_parameters, taken_columns

if TYPE_CHECKING:
    import pandas as pd


class Severity(StrEnum):
    """What a finding means."""

    ERROR = "error"
    REMARK = "remark"


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
    parameters: tuple[str, ...] | None = None,
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
    parameters
        Columns that are the parameters, where there is no space; None takes all others.
    """
    present = [str(name) for name in table.columns]
    findings = _found(None, lambda: check_doubled(present, present)) or _found(None, lambda: check_rows(len(table)))
    if findings:
        return findings
    others = taken_columns(present, {target, groups, noise, *ignore}, parameters)
    findings = _of_target(table, target, task, log_target=log_target)
    known: Sequence[Parameter] = ()
    if space is None:
        lacking = [name for name in others if name not in present]
        findings += [_missing(table, name) for name in lacking]
        taken = take_parameters(table, [name for name in others if name in present])
        findings += [Finding(Severity.ERROR, name, fault) for name, fault in taken.faults.items()]
        if taken.constant:
            findings.append(Finding(Severity.REMARK, None, taken.left_out))
        if not (taken.parameters or taken.faults or lacking):
            findings.append(Finding(Severity.ERROR, None, NOTHING_VARIES))
        known = taken.parameters
    else:
        findings += [_missing(table, name) for name in space.names if name not in present]
        known = [parameter for parameter in space.parameters if parameter.name in present]
    for parameter in known:
        findings += _of_parameter(table, parameter)
    doubts = doubts_of_columns(
        table, known, target, described=space is not None, named=space is not None or parameters is not None
    )
    findings += [Finding(Severity.REMARK, doubt.column, doubt.message) for doubt in doubts]
    limits = () if space is None else space.constraints
    columns = {parameter.name: table[parameter.name].tolist() for parameter in known}
    sums = sums_not_said(columns, RowNames.of(table), known, limits, taken=space is None)
    findings += [Finding(Severity.REMARK, None, remark) for remark in sums]
    unused = [] if space is None else [name for name in others if name not in space.names]
    if unused:
        findings.append(Finding(Severity.REMARK, None, f"columns {unused} are not in the space and are not used"))
    if not _errors(findings):
        whole = ParameterSpace(tuple(known), limits)
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


def _of_target(table: "pd.DataFrame", target: str, task: Task, *, log_target: bool) -> list[Finding]:
    if target not in table.columns:
        columns = [str(name) for name in table.columns]
        hint = did_you_mean(target, columns)
        return [
            Finding(Severity.ERROR, target, f"target {target!r} is not a column; the table has {listed(columns)}{hint}")
        ]

    def check(rows: PresentRows) -> None:
        y, classes = rows.target(target, task, log_target=log_target)
        check_target(y, target, classes, None)

    return _of_column(table, target, check, target)


def _missing(table: "pd.DataFrame", name: str) -> Finding:
    hint = did_you_mean(name, table.columns)
    return Finding(
        Severity.ERROR, name, f"column {name!r} is missing; the table has {listed(list(table.columns))}{hint}"
    )


def _of_parameter(table: "pd.DataFrame", parameter: Parameter) -> list[Finding]:
    """Return what is wrong with the column of a parameter."""
    single = ParameterSpace((parameter,))
    return _of_column(table, parameter.name, lambda rows: rows.inputs(single), None)


def _of_column(
    table: "pd.DataFrame", name: str, check: Callable[[PresentRows], object], target: str | None
) -> list[Finding]:
    """Return faults of a column, those that hide behind missing values too, or else remarks on it."""
    gaps = _found(name, lambda: present_rows(table, [name], "error", target))
    if gaps and table[name].count() < FEWEST_ROWS:
        return gaps
    others = _found(name, lambda: check(present_rows(table, [name], "drop", target)))
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
