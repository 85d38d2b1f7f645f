"""Everything that is wrong with a table at once, where training would stop at the first fault."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from mkbo_plugins.errors import MkboError, MkboWarning
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.space.parameters import Numeric
from mkbo_plugins.space.space import ParameterSpace, check_doubled
from mkbo_plugins.tables.table import Task, check_rows, read_table

if TYPE_CHECKING:
    import pandas as pd

_STAND_IN = "row number"
"""Name of a faultless parameter or target, for checks of one column by itself."""


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
        Its parameters; None takes every other column that is neither `groups` nor ignored.
    task, log_target, groups
        As for `pretrain`.
    ignore
        Columns that are no parameters, where there is no space.
    """
    settings: dict[str, Any] = {"task": task, "log_target": log_target}
    present = [str(name) for name in table.columns]
    findings = _found(None, lambda: check_doubled(present, present)) or _found(None, lambda: check_rows(len(table)))
    if findings:
        return findings
    others = [name for name in present if name not in {target, groups, *ignore}]
    if target in present:
        findings += _of_target(table, target, settings)
    else:
        hint = did_you_mean(target, present)
        findings.append(
            Finding(Severity.ERROR, target, f"target {target!r} is not a column; the table has {present}{hint}")
        )
    spaces = {}
    for name in others if space is None else space.names:
        spaces[name], faults = _parameter(table, name, space)
        findings += faults
    for name, single in spaces.items():
        doubts = doubts_of_columns(table, single, taken=space is None and len(others) > 1) if single else {}
        findings += [Finding(Severity.REMARK, name, doubt) for doubt in doubts.values()]
    if space is not None:
        unused = [name for name in others if name not in space.names]
        if unused:
            findings.append(Finding(Severity.REMARK, None, f"columns {unused} are not in the space and are not used"))
    if not any(finding.severity is Severity.ERROR for finding in findings):
        whole = ParameterSpace(tuple(p for found in spaces.values() if found for p in found.parameters))
        known = {finding.message for finding in findings}
        found = _found(None, lambda: read_table(table, target, whole, groups=groups, missing="drop", **settings))
        findings += [finding for finding in found if finding.message not in known]
    return sorted(findings, key=lambda finding: finding.severity is Severity.REMARK)


def doubts_of_columns(table: "pd.DataFrame", space: ParameterSpace, *, taken: bool) -> dict[str, str]:
    """Return, for columns that may not be meant as they are taken, why not.

    Parameters
    ----------
    table
        The table.
    space
        Its parameters.
    taken
        Whether they were taken from its columns, so that some may be none.
    """
    doubts = {}
    for parameter in space.parameters:
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


def _of_target(table: "pd.DataFrame", target: str, settings: dict[str, Any]) -> list[Finding]:
    rows = table[[target]].assign(**{_STAND_IN: np.arange(len(table))})
    stand_in = ParameterSpace((Numeric(_STAND_IN, 0, max(len(table), 2)),))
    return _of_column(target, lambda missing: read_table(rows, target, stand_in, missing=missing, **settings))


def _parameter(
    table: "pd.DataFrame", name: str, space: ParameterSpace | None
) -> tuple[ParameterSpace | None, list[Finding]]:
    """Return the space of one parameter, taken from its column where none is given, and what is wrong with it."""
    if name not in table.columns:
        hint = did_you_mean(name, table.columns)
        message = f"column {name!r} is missing; the table has {list(table.columns)}{hint}"
        return None, [Finding(Severity.ERROR, name, message)]
    numbers = np.arange(len(table))
    rows = table[[name]].assign(**{_STAND_IN: numbers})
    if space is not None:
        single = ParameterSpace((space[name],))
    else:
        try:
            single = ParameterSpace.from_table(rows, _STAND_IN)
        except MkboError as error:
            return None, [Finding(Severity.ERROR, name, str(error))]
    # Each row is a group of its own: only whole rows can be replicates.
    return single, _of_column(
        name, lambda missing: read_table(rows, _STAND_IN, single, groups=numbers, missing=missing)
    )


def _of_column(name: str, check: Callable[[Any], object]) -> list[Finding]:
    """Return faults of a column, also those that hide behind missing values."""
    found = _found(name, lambda: check("error"))
    faults = [f for f in found if f.severity is Severity.ERROR]
    if not faults:
        return found
    further = [f for f in _found(name, lambda: check("drop")) if f.severity is Severity.ERROR]
    return list(dict.fromkeys(faults + further))


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
