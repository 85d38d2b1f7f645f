"""Tables of levels: a row for each substance, say, with the numbers that describe it."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mkbo_plugins.errors import SpaceError, TableError, TableWarning
from mkbo_plugins.messages.hints import did_you_mean, shown_value
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.parameters import Level, plain_value
from mkbo_plugins.tables.inputfiles import read_table_file

if TYPE_CHECKING:
    import pandas as pd

FILE = "file"
_KEYS = (FILE, "column", "descriptors")


def described_in_file(name: str, entry: Mapping[str, Any], folder: Path) -> Described:
    """Return the parameter of a section ``levels = {file = "ligands.csv"}`` of a space.

    Parameters
    ----------
    name
        Name of the parameter.
    entry
        The section. Beside ``file``, ``column`` may name the column of the levels, else the first, and ``descriptors``
        those that describe them, else all others.
    folder
        Where the file is, if its path is a relative one.

    Raises
    ------
    MkboError
        If the section or the file is not as described.
    """
    levels = entry["levels"]
    further = sorted(set(entry) - {"levels"}) + sorted(set(levels) - set(_KEYS))
    if further:
        raise SpaceError(f"parameter {name!r}: levels of a file have the keys {list(_KEYS)}, got {further} too")
    file, column, chosen = (levels.get(key) for key in _KEYS)
    if not isinstance(file, str) or not isinstance(column, (str, type(None))):
        raise SpaceError(f"parameter {name!r}: 'file' and 'column' of levels must be names, got {levels!r:.90}")
    if chosen is not None and not (isinstance(chosen, list) and all(isinstance(one, str) for one in chosen)):
        raise SpaceError(f"parameter {name!r}: 'descriptors' must be a list of columns, got {chosen!r:.60}")
    path = folder / file
    rows = read_levels(path, column, chosen)
    try:
        return Described.of(name, rows)
    except SpaceError as error:
        raise SpaceError(f"{path}: {error}") from error


def read_levels(
    path: Path, column: str | None = None, descriptors: Sequence[str] | None = None
) -> dict[Level, dict[str, float]]:
    """Return the numbers of levels by descriptor, from a table with a row for each level.

    Parameters
    ----------
    path
        A CSV file or Excel workbook, as `read_table_file` reads it.
    column
        Column of the levels, which are read as text; None is the first one.
    descriptors
        Columns of numbers; None are all others.

    Raises
    ------
    TableError
        If the file is no table, a column is missing, a level is missing or has several rows, or a descriptor is not a
        number everywhere.
    """
    table, column = _read(path, column)
    rows, levels = RowNames.of(table), table[column]
    others = [other for other in map(str, table) if other != column]
    chosen = others if descriptors is None else _found(path, descriptors, others)
    for other in chosen:
        _check_numbers(path, other, levels, table[other], rows, named=descriptors is not None)
    return {
        str(level): dict(zip(chosen, map(float, row), strict=True))
        for level, row in zip(levels, table[chosen].to_numpy(dtype=float), strict=True)
    }


def read_texts(path: Path, column: str) -> dict[Level, str]:
    """Return the text of each level in a column of a table whose first column are the levels.

    Raises
    ------
    TableError
        If the file is no table, the column is missing, a level or text is missing, or a level has several rows.
    """
    table, first = _read(path, None, texts=(column,))
    _found(path, [column], [other for other in map(str, table) if other != first])
    empty = table[column].isna().to_numpy().nonzero()[0]
    if empty.size:
        raise TableError(f"{path}: column {column!r} is empty in {RowNames.of(table).at(empty)}; fill it in")
    return dict(zip(table[first], table[column], strict=True))


def _read(path: Path, column: str | None, texts: Sequence[str] = ()) -> "tuple[pd.DataFrame, str]":
    """Return a table with a row for each level, and the name of the column of levels, all of them different texts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # given below, where it is read again
        header = list(map(str, read_table_file(path)))
    (column,) = header[:1] if column is None else _found(path, [column], header)
    table = read_table_file(path, levels=[column, *(text for text in texts if text in header)])
    table = table.astype({column: object} | {text: object for text in texts if text in table})
    rows, levels = RowNames.of(table), table[column]
    empty = levels.isna().to_numpy().nonzero()[0]
    if empty.size:
        raise TableError(f"{path}: column {column!r} names no level in {rows.at(empty)}; name it, or delete the row")
    doubled = levels.duplicated(keep=False).to_numpy().nonzero()[0]
    if doubled.size:
        level = levels.iloc[doubled[0]]
        where = (levels == level).to_numpy().nonzero()[0]
        raise TableError(f"{path}: level {level!r} of column {column!r} is in {rows.at(where)}; keep one row of each")
    return table, column


def _found(path: Path, wanted: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return wanted columns, or raise a `TableError` where one is missing."""
    for name in wanted:
        if name not in columns:
            raise TableError(f"{path} has no column {name!r}, only {list(columns)}{did_you_mean(name, columns)}")
    return list(wanted)


def _check_numbers(
    path: Path, column: str, levels: "pd.Series[Any]", cells: "pd.Series[Any]", rows: RowNames, *, named: bool
) -> None:
    """Raise a `TableError` unless a column holds a number for each level."""
    import pandas as pd

    faulty = np.flatnonzero(pd.to_numeric(cells, errors="coerce").isna() | (cells.dtype == bool))
    if not faulty.size:
        return
    text = [i for i in faulty.tolist() if not pd.isna(cells.iloc[i])]
    place = text[0] if text else int(faulty[0])
    of_level = f"{path}: descriptor {column!r} of level {levels.iloc[place]!r}, {rows.at([place])},"
    if not text:
        raise TableError(f"{of_level} is missing; write a number, or leave out the level or the column")
    others = "" if named else "; or name the columns that describe levels, descriptors = [...]"
    raise TableError(f"{of_level} must be a number, got {shown_value(plain_value(cells.iloc[place]))}{others}")
