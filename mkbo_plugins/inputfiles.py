"""Files that people write: tables as CSV or Excel, parameter spaces as TOML."""

import tomllib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from mkbo_plugins.errors import SpaceError, TableError
from mkbo_plugins.files import write_atomically
from mkbo_plugins.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd

EXCEL = (".xlsx", ".xlsm")
SHEET_MARK = "::"
"""What separates a workbook from the name of one of its sheets."""


def read_table_file(path: Path) -> "pd.DataFrame":
    """Read a table whose first row names its columns; rows without any value are left out.

    Parameters
    ----------
    path
        A CSV file with commas, decimal points and UTF-8 text, or an Excel workbook. A workbook of several sheets is
        followed by the name of one: ``book.xlsx::Sheet1``.

    Raises
    ------
    TableError
        If the file does not exist or is not such a table.
    ImportError
        If a workbook is given and openpyxl is not installed.
    """
    book, _, sheet = str(path).partition(SHEET_MARK)
    table = _read_sheet(Path(book), sheet) if Path(book).suffix.lower() in EXCEL else _read_csv(path)
    return table.dropna(how="all").reset_index(drop=True)


def write_table_file(table: "pd.DataFrame", path: Path) -> None:
    """Write a table as CSV, or as an Excel workbook if the name of the file says so; atomically."""
    if path.suffix.lower() not in EXCEL:
        write_atomically(path, table.to_csv(index=False).encode())
        return
    _need_openpyxl()
    buffer = BytesIO()
    table.to_excel(buffer, index=False)
    write_atomically(path, buffer.getvalue())


def read_space_file(path: Path) -> ParameterSpace:
    """Read a parameter space from TOML: for each parameter a section of what `ParameterSpace.from_dict` takes.

    Raises
    ------
    SpaceError
        If the file does not exist, is not TOML, or describes no space.
    """
    try:
        spec = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpaceError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpaceError(f"{path} cannot be read as TOML: {error}") from error
    return ParameterSpace.from_dict(spec)


def _read_csv(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except FileNotFoundError:
        raise TableError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(
            f"{path} cannot be read as a CSV table: {error}; save it as CSV with commas, decimal points and UTF-8 text"
        ) from error
    if len(table.columns) == 1 and any(separator in table.columns[0] for separator in ";\t"):
        raise TableError(
            f"{path} has the single column {table.columns[0]!r}; save it with commas between columns and with "
            "decimal points"
        )
    return table


def _read_sheet(path: Path, sheet: str) -> "pd.DataFrame":
    import zipfile

    import pandas as pd

    _need_openpyxl()
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            names = book.sheet_names
            if sheet and sheet not in names:
                raise TableError(f"{path} has no sheet {sheet!r}; it has {names}")
            if not sheet and len(names) > 1:
                raise TableError(f"{path} has the sheets {names}; name one, as in {path}{SHEET_MARK}{names[0]}")
            return pd.read_excel(book, sheet_name=sheet or names[0])
    except FileNotFoundError:
        raise TableError(f"{path} does not exist") from None
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise TableError(f"{path} cannot be read as an Excel workbook: {error}; save it as .xlsx or as CSV") from error


def _need_openpyxl() -> None:
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Excel workbooks need openpyxl; install it with: pip install 'mkbo_plugins[excel]'"
        ) from error
