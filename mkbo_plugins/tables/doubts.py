"""Columns of a table that may not be meant as they are taken."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.cells import are_dates
from mkbo_plugins.space.parameters import Numeric, Parameter, is_finite_number
from mkbo_plugins.tables.compositions import constant_sums
from mkbo_plugins.tables.records import is_called_setting, records, without, words

if TYPE_CHECKING:
    import pandas as pd

MANY_LEVELS = 0.8
"""Share of rows with a value of their own, from which on a column of text rather names rows, and one of numbers is no
grid."""

GRID = 0.5
"""Share of rows with a value of their own, up to which a column is a grid of settings."""

DECADES = 3
"""Decades that positive numbers span, from which on their logarithm may be meant."""

SENTINELS = frozenset(sign * number for number in (99.0, 999.0, 9999.0, 99999.0, 1e30) for sign in (-1, 1))
"""Numbers that programs write for a missing value."""

_RESULTS = (
    "yield yields selectivity conversion purity accuracy acc precision recall f1 auc auroc rmse mse mae r2 loss losses "
    "metric metrics score scores error err objective fitness reward perplexity latency throughput result results "
    "outcome response cost costs price time duration runtime elapsed"
)
_ROWS = "id ids nr no number index idx run trial sample experiment exp row"
_OF_RESULTS = frozenset(_RESULTS.split())
_OF_ROWS = frozenset(_ROWS.split())


class Doubt(NamedTuple):
    """Something to ask about a column, or about several if `column` is None."""

    column: str | None
    message: str
    no_parameters: tuple[str, ...] = ()
    """Columns that may be no parameters."""


def doubts_of_columns(
    table: "pd.DataFrame", parameters: Iterable[Parameter], target: str, *, described: bool, named: bool
) -> list[Doubt]:
    """Return what columns may mean other than what they are taken as.

    Parameters
    ----------
    table
        The table.
    parameters
        What its columns are taken as.
    target
        Name of the target column.
    described
        Whether a space describes the parameters.
    named
        Whether the user has named them, so that each is one.
    """
    doubts: list[Doubt] = []
    known = tuple(parameters)
    only = len(known) == 1
    asked_whether = not described and not named and not only
    if asked_whether:
        doubts += _of_records(table, known)
    silent = {name for doubt in doubts for name in doubt.no_parameters}
    for parameter in [p for p in known if p.name not in silent]:
        name, column = parameter.name, table[parameter.name].dropna()
        alike = _alike(parameter.indexed_levels)
        if alike:
            doubts.append(
                Doubt(
                    name, f"levels of {name!r} differ only in case or blanks: {alike}; if they mean the same, write one"
                )
            )
        elif described:
            continue
        elif are_dates(parameter.indexed_levels):
            doubts.append(
                Doubt(
                    name,
                    f"column {name!r} holds dates or times, taken as {len(parameter.indexed_levels)} levels without an "
                    "order; if it is no parameter, leave it out with table.drop(columns=...) (--ignore), else write a "
                    "number, such as hours since the start",
                    (name,),
                )
            )
        elif asked_whether and _names_rows(name, column, parameter.indexed_levels):
            doubts.append(
                Doubt(
                    name,
                    f"column {name!r} seems to name rows ({column.nunique()} values in {len(table)} rows); if it is no "
                    "parameter, leave it out with table.drop(columns=...) (--ignore)",
                    (name,),
                )
            )
        elif isinstance(parameter, Numeric):
            doubts += _of_decades(parameter)
    asked = [p.name for p in known if isinstance(p, Numeric) and not described]
    doubts += [doubt for name in [*asked, target] if name in table for doubt in _of_sentinels(table, name)]
    if asked_whether:
        silent |= {doubt.column for doubt in doubts if doubt.column is not None}
        doubts += _of_results(table, [p for p in known if p.name not in silent])
        remedy = without([p.name for p in known], [name for doubt in doubts for name in doubt.no_parameters])
        doubts += [Doubt(None, remedy)] if remedy else []
    return doubts


def _of_records(table: "pd.DataFrame", known: Sequence[Parameter]) -> list[Doubt]:
    """Return doubts about columns that keep a record of runs, but for those that are seen to be dates or ids."""
    plain = [
        p
        for p in known
        if not are_dates(p.indexed_levels) and not _names_rows(p.name, table[p.name].dropna(), p.indexed_levels)
    ]
    found = records(table, [p.name for p in plain], [p.name for p in plain if not isinstance(p, Numeric)])
    return [Doubt(one.columns[0] if len(one.columns) == 1 else None, one.message, one.columns) for one in found]


def _alike(levels: tuple[Any, ...]) -> list[list[Any]]:
    """Return levels that are the same but for case and blanks."""
    found: dict[str, list[Any]] = {}
    for level in levels:
        found.setdefault("".join(str(level).casefold().split()), []).append(level)
    return [same for same in found.values() if len(same) > 1]


def _names_rows(name: str, column: "pd.Series[Any]", levels: tuple[Any, ...]) -> bool:
    """Return whether nearly every row has its own level, or whole numbers count the rows, some of which may lack."""
    if levels:
        return len(levels) > 2 and len(levels) >= MANY_LEVELS * len(column)
    numbers = column.to_numpy(dtype=float)
    if len(numbers) < 3 or (numbers != np.round(numbers)).any() or len(np.unique(numbers)) < len(numbers):
        return False
    steps = np.diff(numbers)
    return bool((steps > 0).all() and np.mean(steps == 1) > GRID) or not _OF_ROWS.isdisjoint(words(name)[-1:])


def _of_decades(parameter: Numeric) -> list[Doubt]:
    low, high = parameter.lower, parameter.upper
    if low <= 0 or parameter.log or high / low < 10**DECADES * (1 - 1e-9):
        return []
    return [
        Doubt(
            parameter.name,
            f"column {parameter.name!r} is positive and spans {np.log10(high / low):.1f} decades, {low:g} to {high:g}, "
            "but is taken on a linear scale; if a factor means more than a difference, as for rates and amounts, "
            "describe it in a space with log = true; mkbo check --write-space writes one to begin with",
        )
    ]


def _of_sentinels(table: "pd.DataFrame", name: str) -> list[Doubt]:
    """Return a doubt about numbers that stand for missing values and are far from all others."""
    values = np.array([float(v) if is_finite_number(v) else np.nan for v in table[name]])
    doubts = []
    for value in sorted(SENTINELS.intersection(values.tolist())):
        others = values[np.isfinite(values) & ~np.isin(values, list(SENTINELS))]
        if not len(others):
            continue
        low, high = others.min(), others.max()
        if min(abs(value - low), abs(value - high)) > high - low and not low <= value <= high:
            where = RowNames.of(table).at(np.flatnonzero(values == value))
            doubts.append(
                Doubt(
                    name,
                    f"column {name!r} holds {value:g} in {where}, far from its other values, {low:g} to {high:g}; if "
                    "it stands for a missing value, leave the cell empty",
                )
            )
    return doubts


def _of_results(table: "pd.DataFrame", parameters: Sequence[Parameter]) -> list[Doubt]:
    """Return the question whether columns are results, by their names or as they lie on no grid where others do."""
    share = {p.name: table[p.name].nunique() / max(1, table[p.name].count()) for p in parameters}
    numeric = {p.name: table[p.name].tolist() for p in parameters if isinstance(p, Numeric)}
    parts = {name for one in constant_sums(numeric) for name in one.names}
    grid = [name for name in numeric if share[name] <= GRID]
    asked = [
        p.name
        for p in parameters
        if isinstance(p, Numeric)
        and p.name not in parts
        and not is_called_setting(p.name)
        and (
            (not _OF_RESULTS.isdisjoint(words(p.name)) and share[p.name] > GRID)
            or (bool(grid) and share[p.name] >= MANY_LEVELS and not _of_decades(p))
        )
    ]
    if not asked:
        return []
    settings = [p.name for p in parameters if p.name not in asked]
    beside = f" beside {settings}" if settings else ""
    return [
        Doubt(
            asked[0] if len(asked) == 1 else None,
            f"columns {asked} have many different values{beside}: are they results of a run or settings of it? Results "
            "are left out with ignore= (--ignore), or the settings named with parameters= (--parameters); a table that "
            "predicts one result from another looks good and is of no use for new settings",
            tuple(asked),
        )
    ]
