"""Tables that people write, as CSV or Excel."""

import csv
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mkbo_plugins.errors import TableError, TableWarning
from mkbo_plugins.files import write_atomically
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.messages.rows import Origin
from mkbo_plugins.space.cells import is_unit, quantity, reads_as_number
from mkbo_plugins.space.parameters import Level
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.csvfiles import read_csv, with_points
from mkbo_plugins.tables.exports import PARAMETER, completed, export_of, record_columns
from mkbo_plugins.tables.sheets import Sheet, guarded
from mkbo_plugins.tables.trials import PENDING
from mkbo_plugins.tables.workbooks import SHEET_MARK, read_workbook, workbook_bytes

if TYPE_CHECKING:
    import pandas as pd

EXCEL = (".xlsx", ".xlsm")
NO_UNIT = ("", "-", "1", "[-]", "(-)", "[]")
"""What a second line of a header holds below a column without a unit."""


def read_table_file(path: Path, space: ParameterSpace | None = None, levels: Sequence[str] = ()) -> "pd.DataFrame":
    """Read a table whose first row names its columns; rows without any value are left out.

    Its index holds the numbers of lines or rows in the file, by which messages call them. Empty cells are missing
    values, and so are words such as ``NA`` and ``None``, except in the column of a parameter with a level of that name.
    Where all levels of a parameter are texts, its column is read as text. Numbers that all have the same unit behind
    them are read as numbers, and a second line of the header that holds units is left out. In a column of numbers the
    word ``pending`` is a missing value.

    Parameters
    ----------
    path
        A CSV file of UTF-8 text, or an Excel workbook. CSV has commas and decimal points, or semicolons, as many in
        every line, and decimal points or commas. A workbook of several sheets is followed by the name of one:
        ``book.xlsx::Sheet1``.
    space
        Parameters with levels, some of which may be called like a missing value.
    levels
        Columns of categories: read as text, every word of which is a level.

    Raises
    ------
    TableError
        If the file does not exist or is not such a table.
    ImportError
        If a workbook is given and openpyxl is not installed.

    Warns
    -----
    TableWarning
        If names of columns begin or end with blanks, which are left out, semicolons separate columns, or units are left
        out, in cells or in a line of their own.
    """
    import pandas as pd

    book, name = sheet_of(path)
    workbook = book.suffix.lower() in EXCEL
    known: dict[str, tuple[Level, ...] | None] = dict.fromkeys(levels)
    known |= {p.name: p.indexed_levels for p in (() if space is None else space.parameters) if p.indexed_levels}
    sheet, commas = (read_workbook(book, name), False) if workbook else read_csv(path)
    if commas:
        texts = {j for j, column in enumerate(sheet.header) if column.strip() in known}
        rows = [[cell if j in texts else with_points(cell) for j, cell in enumerate(row)] for row in sheet.rows]
        sheet = sheet.with_rows(rows)
    noun = "row" if workbook else "line"
    sheet = _without_units(sheet, path, noun)
    text = StringIO(newline="")
    width = len(sheet.header)
    csv.writer(text).writerows([*row, *[""] * (width - len(row))] for row in (sheet.header, *sheet.rows))
    engine: Literal["python", "c"] = "python" if workbook else "c"  # a workbook's numbers are kept to the last digit
    table = _with_levels(
        lambda **options: pd.read_csv(
            StringIO(text.getvalue()), index_col=False, skip_blank_lines=False, engine=engine, **options
        ),
        sheet.header,
        known,
    )
    origin = Origin(noun, f"{book.name}{SHEET_MARK}{name}" if name else book.name)
    table.index = pd.Index(sheet.numbers, name=origin)
    table = _with_names(table, sheet.header, path)
    _as_numbers(table, known, path)
    for column in [column for column in levels if column in table]:
        table[column] = table[column].astype("category")
    return table.dropna(how="all")


def read_trials_file(
    path: Path, space: ParameterSpace | None = None, levels: Sequence[str] = ()
) -> tuple["pd.DataFrame", tuple[str, ...]]:
    """Read a table as `read_table_file` does, of an export the rows that have an outcome, with its `record_columns`.

    Parameters
    ----------
    path, space, levels
        As there.
    """
    called = None if space is None else _and_with_prefix(space)
    table = read_table_file(path, called, [*levels, *(PARAMETER + name for name in levels)])
    export, records = export_of(table), record_columns(table)
    if export is not None:
        warnings.warn(
            f"{path} is a table of trials of {export.program}: its columns {list(records)} are no parameters",
            TableWarning,
            stacklevel=2,
        )
    return completed(table, () if space is None else space.names), records


def _and_with_prefix(space: ParameterSpace) -> ParameterSpace:
    """Return a space whose parameters are also there as Optuna's tables call them."""
    also = [replace(parameter, name=PARAMETER + parameter.name) for parameter in space.parameters]
    return ParameterSpace((*space.parameters, *(parameter for parameter in also if parameter.name not in space.names)))


def read_with_columns(path: Path, columns: Sequence[str]) -> "pd.DataFrame":
    """Read a table that must have some columns, as `read_table_file` does, with rows numbered from 0.

    Raises
    ------
    TableError
        If a column is missing, and as for `read_table_file`.
    """
    table = read_table_file(path)
    missing = [name for name in columns if name not in table]
    if missing:
        raise TableError(f"{path} has no column {missing[0]!r}, only {list(table)}{did_you_mean(missing[0], table)}")
    return table.reset_index(drop=True)


def sheet_of(path: Path) -> tuple[Path, str]:
    """Return the file of a table and, of a workbook, the name of the sheet, empty if none is named."""
    book, _, sheet = str(path).partition(SHEET_MARK)
    return Path(book), sheet


def write_table_file(table: "pd.DataFrame", path: Path) -> None:
    """Write a table as CSV, or as an Excel workbook if the name of the file says so; atomically.

    No text becomes a formula: in CSV, one that a spreadsheet would take for it has an apostrophe in front, which
    `read_table_file` takes away.
    """
    if path.suffix.lower() not in EXCEL:
        plain = table.map(lambda cell: guarded(cell) if isinstance(cell, str) else cell)
        write_atomically(path, plain.rename(columns=lambda name: guarded(str(name))).to_csv(index=False).encode())
        return
    write_atomically(path, workbook_bytes(table))


def _with_levels(
    read: "Callable[..., pd.DataFrame]", header: Sequence[str], levels: Mapping[str, tuple[Level, ...] | None]
) -> "pd.DataFrame":
    """Return a table, with columns of levels as they are written: ``None`` may be a level, and so may ``007``."""
    table = read()
    columns = {j: levels[name.strip()] for j, name in enumerate(header) if name.strip() in levels}
    texts = {j: known is None or all(isinstance(level, str) for level in known) for j, known in columns.items()}
    as_written = {
        kind: read(keep_default_na=False, na_values=[""], dtype=str if kind else None) for kind in set(texts.values())
    }
    for j, known in columns.items():
        written = as_written[texts[j]].iloc[:, j]
        if texts[j] or (table.iloc[:, j].isna() & written.isin(known or ())).any():
            table.isetitem(j, written.to_numpy())
    return table


def _without_units(sheet: Sheet, path: Path, noun: str) -> Sheet:
    """Return a sheet without a second line of the header, which holds units of columns of numbers."""
    if not sheet.rows:
        return sheet
    units = {j: cell for j, cell in enumerate(sheet.rows[0]) if cell.strip() not in NO_UNIT}
    if not units or not all(map(is_unit, units.values())):
        return sheet
    for j in units:
        cells = [row[j].strip() for row in sheet.rows[1:] if len(row) > j and row[j].strip()]
        if not cells or not all(map(reads_as_number, cells)):
            return sheet
    warnings.warn(
        f"{path}: {noun} {sheet.numbers[0]} holds units of columns, {', '.join(units.values())}, and is left out",
        TableWarning,
        stacklevel=3,
    )
    return replace(sheet, rows=sheet.rows[1:], numbers=sheet.numbers[1:])


def _as_numbers(table: "pd.DataFrame", levels: Container[str], path: Path) -> None:
    """Read the columns of a table that are numbers but for one unit behind each, or for the word pending."""
    import pandas as pd

    for name in [name for name in table.columns if name not in levels]:
        cells = table[name].dropna()
        if not len(cells) or not all(isinstance(cell, str) for cell in cells):
            continue
        open_ = cells.str.strip().str.casefold() == PENDING
        found = {row: quantity(cell) for row, cell in cells[~open_].items()}
        units = {None if one is None else one.unit for one in found.values()}
        if len(units) == 1 and None not in units:
            numbers = {row: one.number for row, one in found.items() if one is not None}
            warnings.warn(
                f"{path}: column {name!r} has {units.pop()!r} behind every number and is read as numbers",
                TableWarning,
                stacklevel=3,
            )
        elif open_.any() and all(map(reads_as_number, cells[~open_])):
            numbers = dict(cells[~open_])
        else:
            continue
        table[name] = pd.to_numeric(pd.Series(numbers)).reindex(table.index)


def _with_names(table: "pd.DataFrame", header: Sequence[str], path: Path) -> "pd.DataFrame":
    """Return a table with the names of its header, blanks around them stripped, and without empty nameless columns.

    Raises
    ------
    TableError
        If names are doubled, or half of the columns have values but no name.
    """
    names = [name.strip() for name in header]
    doubled = sorted({name for name in names if name and names.count(name) > 1})
    if doubled:
        raise TableError(f"{path}: columns {doubled} occur more than once; rename or drop the extra ones")
    padded = [name for name, plain in zip(header, names, strict=True) if plain and name != plain]
    if padded:
        warnings.warn(f"{path}: blanks around the column names {padded} are left out", TableWarning, stacklevel=4)
    filled = table.notna().any().tolist()
    nameless = [j for j, name in enumerate(names) if not name and filled[j]]
    if 2 * len(nameless) >= len(names):
        raise TableError(
            f"{path}: columns {[j + 1 for j in nameless]} have values but no name; is the header in the first line?"
        )
    table.columns = [name or f"Unnamed: {j}" for j, name in enumerate(names)]
    return table.loc[:, [bool(name) or filled[j] for j, name in enumerate(names)]]
