"""Excel workbooks, read cell by cell in bounded memory and written without formulas."""

import datetime
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkbo_plugins.errors import TableError
from mkbo_plugins.tables.sheets import Sheet, check_no_old_workbook

if TYPE_CHECKING:
    import pandas as pd

SHEET_MARK = "::"
"""What separates a workbook from the name of one of its sheets."""

MOST_BYTES = 32 * 2**20
"""Size to which a part of a workbook may unpack: half a million cells or more."""

MOST_ROWS = 2**20
"""Rows of a sheet, as Excel has them."""

MOST_CELLS = 20_000_000
"""Cells of a sheet, empty ones left of a filled one included."""

_FAULTS = frozenset(["#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A"])


def read_workbook(path: Path, sheet: str) -> Sheet:
    """Return the cells of a sheet, which is named unless there is one only.

    Raises
    ------
    TableError
        If the file does not exist, is no workbook, or a damaged or too large one; if the sheet is to be named, or is
        none with cells; or if a cell stands right of the names in the first row.
    ImportError
        If openpyxl is not installed.
    """
    _need_openpyxl()
    import openpyxl

    rows = []
    try:
        _check_sizes(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            rows = list(_filled_rows(book[_chosen(path, book, sheet)], path))
        finally:
            book.close()
    except FileNotFoundError:
        raise TableError(f"{path} does not exist") from None
    except TableError:
        raise
    except Exception as error:  # openpyxl raises anything on a damaged file
        raise TableError(
            f"{path} cannot be read as an Excel workbook: {error or type(error).__name__}; open it and save it as "
            ".xlsx again, or as CSV"
        ) from error
    origin = f"{path.name}{SHEET_MARK}{sheet}" if sheet else path.name
    if not rows or rows[0][0] != 1:
        raise TableError(f"{origin} has no column names in its first row; put them there, and experiments below")
    (_, header), *below = rows
    for number, cells in below:
        if len(cells) > len(header):
            raise TableError(
                f"{origin}: row {number} has {cells[-1]!r:.60} in column {len(cells)}, but the first row has only "
                f"{len(header)} names; name that column, or clear the cell"
            )
    return Sheet(tuple(header), tuple(tuple(cells) for _, cells in below), tuple(number for number, _ in below))


def workbook_bytes(table: "pd.DataFrame") -> bytes:
    """Return a workbook of one sheet, in which every text is one, even where it begins as formulas do.

    Raises
    ------
    TableError
        If a text has characters that no workbook can hold.
    ImportError
        If openpyxl is not installed.
    """
    _need_openpyxl()
    import pandas as pd
    from openpyxl.utils.exceptions import IllegalCharacterError

    buffer = BytesIO()
    try:
        with pd.ExcelWriter(buffer, engine="openpyxl") as writer:
            table.to_excel(writer, index=False)
            for row in writer.book.active.iter_rows():
                for cell in row:
                    if isinstance(cell.value, str):
                        cell.data_type, cell.quotePrefix = "s", cell.data_type == "f"
    except IllegalCharacterError as error:
        raise TableError(f"a workbook cannot hold {error}: it has control characters; write CSV") from error
    return buffer.getvalue()


def _check_sizes(path: Path) -> None:
    """Raise a `TableError` if a part of a workbook unpacks to more than `MOST_BYTES`, or its kind is an old one."""
    with path.open("rb") as file:
        check_no_old_workbook(path, file.read(8))
        with zipfile.ZipFile(file) as archive:
            large = [part.filename for part in archive.infolist() if part.file_size > MOST_BYTES]
    if large:
        raise TableError(
            f"{path} is too large: {large[0]!r} in it unpacks to more than {MOST_BYTES // 2**20} MiB; save the sheet "
            "alone as CSV"
        )


def _chosen(path: Path, book: Any, sheet: str) -> str:
    names = [one.title for one in book.worksheets]
    if sheet and sheet not in names:
        kind = "the sheet {!r} is a chart" if sheet in book.sheetnames else "no sheet {!r}"
        raise TableError(f"{path} has {kind.format(sheet)}; sheets with cells are {names}")
    if not sheet and len(names) != 1:
        hint = f"name one, as in {path}{SHEET_MARK}{names[0]}" if names else "none of them has cells"
        raise TableError(f"{path} has the sheets {names or book.sheetnames}; {hint}")
    return sheet or names[0]


def _filled_rows(sheet: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and texts of each row that holds anything, up to its last filled cell."""
    sheet.reset_dimensions()  # those declared may be any
    cells = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        cells += len(row)
        if number > MOST_ROWS or cells > MOST_CELLS:
            raise TableError(
                f"{path} is too large: it has cells beyond row {min(number, MOST_ROWS)} or {MOST_CELLS} cells; save "
                "the table alone as CSV"
            )
        texts = [_text(value) for value in row]
        while texts and not (texts[-1] if number == 1 else texts[-1].strip()):
            texts.pop()
        if texts:
            yield number, texts


def _text(value: Any) -> str:
    """Return the value of a cell as CSV has it; errors of formulas are empty."""
    if value is None or (isinstance(value, str) and value in _FAULTS):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return value.isoformat(" ") if isinstance(value, datetime.datetime) else str(value)


def _need_openpyxl() -> None:
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Excel workbooks need openpyxl; install it with: pip install 'mkbo_plugins[excel]'"
        ) from error
