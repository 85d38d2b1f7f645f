"""CSV files: commas between columns, or semicolons where every line has as many of them."""

import csv
import re
import warnings
from io import StringIO
from pathlib import Path

from mkbo_plugins.errors import TableError, TableWarning
from mkbo_plugins.files import read_start
from mkbo_plugins.space.cells import DECIMAL_COMMA, NUMBER, UNIT
from mkbo_plugins.tables.sheets import Sheet, check_kind, unguarded

_WITH_COMMA = re.compile(rf"\s*{DECIMAL_COMMA}\s*(?:{UNIT})?\s*")
_WITH_POINT = re.compile(rf"\s*(?=[^A-Za-z]*\.){NUMBER}\s*(?:{UNIT})?\s*|[+-]?\d{{1,3}}(?:\.\d{{3}})+,\d+")

MOST_BYTES = 2**27
"""Size of a file that is read."""

MOST_CELLS = 8_000_000
"""Cells of a table that is read: they take about 2 GB."""

_THIN_OUT = "leave out columns that are not needed, or keep every tenth row"

Records = list[tuple[int, list[str]]]


def read_csv(path: Path) -> tuple[Sheet, bool]:
    """Return the cells of a CSV file, and whether its numbers have decimal commas.

    Raises
    ------
    TableError
        If it does not exist, is no such table, or a line has more values than the header.

    Warns
    -----
    TableWarning
        If columns are separated by semicolons.
    """
    try:
        data = read_start(path, MOST_BYTES + 1)
    except FileNotFoundError:
        raise TableError(f"{path} does not exist") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}") from error
    check_kind(path, data)
    if len(data) > MOST_BYTES:
        raise TableError(f"{path} is larger than {MOST_BYTES // 2**20} MiB; {_THIN_OUT}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text; in Excel choose 'CSV UTF-8', or pass the .xlsx") from error
    records, commas = _separated(path, text)
    (first, header), *rows = records
    rows = [(line, _filled(row)) for line, row in rows]
    for line, row in rows:
        if len(row) > len(header):
            hint = (
                "is the header in the first line?"
                if len(header) == 1
                else "rows of another table, such as one that mkbo suggest has written, are joined by the names of "
                "columns (copy only those that are in the header), and numbers need decimal points"
            )
            raise TableError(
                f"{path}: line {line} has {len(row)} values, but the header in line {first} has {len(header)}; {hint}"
            )
    cells = tuple(tuple(map(unguarded, row)) for _, row in rows)
    return Sheet(tuple(map(unguarded, header)), cells, tuple(line for line, _ in rows), first), commas


def with_points(text: str) -> str:
    """Return a number with a decimal comma with a point instead, and any other text as it is."""
    return text.replace(",", ".", 1) if _WITH_COMMA.fullmatch(text) else text


def _separated(path: Path, text: str) -> tuple[Records, bool]:
    """Return the lines of a CSV file that hold anything, split, and whether numbers have decimal commas."""
    records = _records(path, text, ",")
    if not records:
        raise TableError(f"{path} is empty; a table has a line of column names, and a line for each row")
    first, header = records[0]
    if not any(";" in name for name in header):
        if len(header) == 1 and "\t" in header[0]:
            raise TableError(
                f"{path} has the single column {header[0]!r}; save it with commas between columns, or as .xlsx"
            )
        return records, False
    split = _records(path, text, ";")
    uneven = [line for line, row in split if len(row) != len(split[0][1])]
    if not uneven and (not _even(records) or _only_decimal(split)):
        return split, _decimal_commas(path, split)
    if len(header) == 1:
        why = f"line {uneven[0]} has not as many of them as the header in line {first}" if uneven else "and commas too"
        raise TableError(f"{path} has semicolons between columns, {why}; mend it, or save it as .xlsx")
    return records, False


def _records(path: Path, text: str, separator: str) -> Records:
    records: Records = []
    line, cells = 1, 0
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator)
    try:
        for record in reader:
            if any(cell.strip() for cell in record):
                records.append((line, record))
                cells += len(record)
            if cells > MOST_CELLS:
                raise TableError(f"{path} has more than {MOST_CELLS:,} cells; {_THIN_OUT}")
            line = reader.line_num + 1
    except csv.Error as error:
        raise TableError(f"{path} cannot be read as a CSV table: {error} in line {line}") from error
    return records


def _filled(row: list[str]) -> list[str]:
    """Return a row up to its last cell that holds anything."""
    return row[: 1 + max(i for i, cell in enumerate(row) if cell.strip())]


def _even(records: Records) -> bool:
    return len(records[0][1]) > 1 and len({len(row) for _, row in records}) == 1


def _only_decimal(records: Records) -> bool:
    """Return whether commas below the header are those of numbers, of one at least."""
    commas = [cell for _, row in records[1:] for cell in row if "," in cell]
    return bool(commas) and all(map(_WITH_COMMA.fullmatch, commas))


def _decimal_commas(path: Path, records: Records) -> bool:
    """Return whether numbers have decimal commas; all or none of them."""
    found: dict[bool, tuple[str, int]] = {}
    for line, row in records[1:]:
        for cell in row:
            if _WITH_COMMA.fullmatch(cell):
                found.setdefault(True, (cell, line))
            elif _WITH_POINT.fullmatch(cell):
                found.setdefault(False, (cell, line))
    if len(found) > 1:
        (comma, one), (point, other) = found[True], found[False]
        raise TableError(
            f"{path} has numbers with decimal commas, {comma!r} in line {one}, and others with points, {point!r} in "
            f"line {other}; write one kind, without thousands apart, or save it as .xlsx"
        )
    warnings.warn(
        f"{path} is read with semicolons between columns{' and decimal commas' if True in found else ''}",
        TableWarning,
        stacklevel=5,
    )
    return True in found
