"""Files that people write: tables as CSV or Excel, parameter spaces as TOML."""

import csv
import tomllib
import warnings
from collections.abc import Callable, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkbo_plugins.errors import SpaceError, TableError, TableWarning
from mkbo_plugins.files import write_atomically
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.messages.rows import Origin
from mkbo_plugins.space.parameters import parse_parameter
from mkbo_plugins.space.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd

EXCEL = (".xlsx", ".xlsm")
CONSTRAINT = "constraint"
"""Name of the sections of a space's constraints."""

SHEET_MARK = "::"
"""What separates a workbook from the name of one of its sheets."""


def read_table_file(path: Path, space: ParameterSpace | None = None) -> "pd.DataFrame":
    """Read a table whose first row names its columns; rows without any value are left out.

    Its index holds the numbers of lines or rows in the file, by which messages call them. Empty cells are missing
    values, and so are words such as ``NA`` and ``None``, except in the column of a parameter with a level of that name.
    Where all levels of a parameter are texts, its column is read as text.

    Parameters
    ----------
    path
        A CSV file with commas, decimal points and UTF-8 text, or an Excel workbook. A workbook of several sheets is
        followed by the name of one: ``book.xlsx::Sheet1``.
    space
        Parameters with levels, some of which may be called like a missing value.

    Raises
    ------
    TableError
        If the file does not exist or is not such a table.
    ImportError
        If a workbook is given and openpyxl is not installed.

    Warns
    -----
    TableWarning
        If names of columns begin or end with blanks, which are left out.
    """
    book, sheet = sheet_of(path)
    table = _read_sheet(book, sheet, space) if book.suffix.lower() in EXCEL else _read_csv(path, space)
    return table.dropna(how="all")


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

    Sections ``[[constraint]]`` are its constraints.

    Raises
    ------
    SpaceError
        If the file does not exist, is not TOML, or describes no space; the message names every faulty parameter.
    """
    try:
        spec = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SpaceError(f"{path} does not exist") from None
    except tomllib.TOMLDecodeError as error:
        raise SpaceError(
            f"{path} cannot be read as TOML: {error}; names with anything but letters, digits, _ and - are quoted, as "
            'in ["time (s)"]'
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(f"{path} cannot be read as TOML: {error}") from error
    constraints = spec.pop(CONSTRAINT) if isinstance(spec.get(CONSTRAINT), list) else []
    faults = [fault for name, entry in spec.items() if (fault := _fault(name, entry))]
    faults += [
        f"a constraint needs a section [[{CONSTRAINT}]], got {c!r}" for c in constraints if not isinstance(c, dict)
    ]
    if faults:
        raise SpaceError(f"{path}: " + "; ".join(faults))
    try:
        return ParameterSpace.from_dict(spec, constraints=constraints)
    except SpaceError as error:
        raise SpaceError(f"{path}: {error}") from error


def _fault(name: str, entry: Any) -> str | None:
    """Return what is wrong with the section of a parameter."""
    if name == CONSTRAINT and isinstance(entry, dict) and {"sum", "coefficients"} & set(entry):
        return f"a constraint is written with two brackets, [[{CONSTRAINT}]]"
    if not isinstance(entry, dict):
        return f"parameter {name!r} needs a section [{name}] with bounds = [low, high] or levels = [...], got {entry!r}"
    nested = next((key for key, value in entry.items() if isinstance(value, dict)), None)
    if nested is not None:
        return f'the section {name}.{nested} is one inside {name!r}; a name with a dot is quoted, ["{name}.{nested}"]'
    try:
        parse_parameter(name, entry)
    except SpaceError as error:
        return str(error)
    return None


def _read_csv(path: Path, space: ParameterSpace | None) -> "pd.DataFrame":
    import pandas as pd

    records = _records(path)
    if not records:
        raise TableError(f"{path} is empty; a table has a line of column names, and a line for each row")
    (first, header), *rows = records
    if len(header) == 1 and any(separator in header[0] for separator in ";\t"):
        raise TableError(
            f"{path} has the single column {header[0]!r}; save it with commas between columns and with decimal points"
        )
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
    text = StringIO(newline="")
    csv.writer(text).writerows(row + [""] * (len(header) - len(row)) for _, row in records)
    table = _with_levels(
        lambda **options: pd.read_csv(StringIO(text.getvalue()), index_col=False, skip_blank_lines=False, **options),
        header,
        space,
    )
    table.index = pd.Index([line for line, _ in rows], name=Origin("line", path.name))
    return _with_names(table, header, path)


def _with_levels(
    read: "Callable[..., pd.DataFrame]", header: Sequence[str], space: ParameterSpace | None
) -> "pd.DataFrame":
    """Return a table, with columns of levels as they are written: ``None`` may be a level, and so may ``007``."""
    table = read()
    levels = {} if space is None else {p.name: p.indexed_levels for p in space.parameters}
    columns = {j: levels[name.strip()] for j, name in enumerate(header) if levels.get(name.strip())}
    texts = {j: all(isinstance(level, str) for level in known) for j, known in columns.items()}
    as_written = {
        kind: read(keep_default_na=False, na_values=[""], dtype=str if kind else None) for kind in set(texts.values())
    }
    for j, known in columns.items():
        written = as_written[texts[j]].iloc[:, j]
        if texts[j] or (table.iloc[:, j].isna() & written.isin(known)).any():
            table.isetitem(j, written.to_numpy())
    return table


def _records(path: Path) -> list[tuple[int, list[str]]]:
    """Return the lines of a CSV file that hold anything, each with the number of its (first) line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise TableError(f"{path} does not exist") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text; in Excel choose 'CSV UTF-8', or pass the .xlsx") from error
    records: list[tuple[int, list[str]]] = []
    line = 1
    reader = csv.reader(StringIO(text, newline=""))
    try:
        for record in reader:
            filled = [i for i, cell in enumerate(record) if cell.strip()]
            if filled:
                records.append((line, record[: max(filled) + 1] if records else record))
            line = reader.line_num + 1
    except csv.Error as error:
        raise TableError(f"{path} cannot be read as a CSV table: {error} in line {line}") from error
    return records


def _read_sheet(path: Path, sheet: str, space: ParameterSpace | None) -> "pd.DataFrame":
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
            header = pd.read_excel(book, sheet_name=sheet or names[0], header=None, nrows=1)
            called = ["" if pd.isna(name) else str(name) for name in header.iloc[0]] if len(header) else []
            table = _with_levels(
                lambda **options: pd.read_excel(book, sheet_name=sheet or names[0], **options), called, space
            )
    except FileNotFoundError:
        raise TableError(f"{path} does not exist") from None
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise TableError(f"{path} cannot be read as an Excel workbook: {error}; save it as .xlsx or as CSV") from error
    origin = f"{path.name}{SHEET_MARK}{sheet}" if sheet else path.name
    if not called:
        raise TableError(f"{origin} has no column names in its first row; put them there, and experiments below")
    table.index = pd.RangeIndex(2, len(table) + 2, name=Origin("row", origin))
    return _with_names(table, called, path)


def _with_names(table: "pd.DataFrame", header: list[str], path: Path) -> "pd.DataFrame":
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


def _need_openpyxl() -> None:
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Excel workbooks need openpyxl; install it with: pip install 'mkbo_plugins[excel]'"
        ) from error
