"""The cells of a table file as texts, whatever kind of file it is, and kinds of files that are none."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from mkbo_plugins.errors import TableError
from mkbo_plugins.space.cells import reads_as_number

EXPORTS = (
    'with Ax client.summarize().to_csv("trials.csv", index=False), with Optuna '
    'study.trials_dataframe().to_csv("trials.csv", index=False)'
)
_BRACKETED_NAME = re.compile(r"""\[[^\[\]{}"',:;\n]+\][^\n]*[,;]""")
_FORMULA = re.compile(r"\s*[=+@-].", re.DOTALL)
_GUARD = "'"


@dataclass(frozen=True)
class Sheet:
    """A header and the rows below it.

    Parameters
    ----------
    header
        Names of the columns.
    rows
        Texts of the cells of each row, no more than there are names; what lacks at the end is empty.
    numbers
        Number of each row in the file.
    header_number
        Number of the header there.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    header_number: int = 1

    def with_rows(self, rows: list[list[str]]) -> "Sheet":
        """Return the sheet with other texts in its rows."""
        return replace(self, rows=tuple(map(tuple, rows)))


_PICKLED = (*(bytes((0x80, protocol)) for protocol in range(2, 6)), b"\x1f\x8b", b"\x78\x9c")
"""How pickles begin, and files packed by gzip and zlib."""


def check_kind(path: Path, data: bytes) -> None:
    """Raise a `TableError` if a file is of a kind that is known not to be CSV; the message says what to do.

    Parameters
    ----------
    path
        The file.
    data
        Its bytes, or the first of them.
    """
    check_no_old_workbook(path, data)
    if data.startswith(b"PK\x03\x04"):
        raise TableError(f"{path} is a workbook or an archive, not CSV; a workbook has a name that ends in .xlsx")
    if data[:2] in _PICKLED:
        raise TableError(
            f"{path} is pickled or packed, such as a dump of scikit-optimize, and reading it could run code in it; in "
            "Python: pretrain(skopt.load(file), space=space)"
        )
    start = data[:4096].decode("utf-8-sig", errors="replace").lstrip()
    if start[:1] in ("{", "[") and not _BRACKETED_NAME.match(start):
        raise TableError(
            f"{path} begins with {start[0]}: it is JSON or another text of nested values, not a table; save the trials "
            f"as CSV, {EXPORTS}"
        )


def check_no_old_workbook(path: Path, data: bytes) -> None:
    """Raise a `TableError` if a file is an Excel workbook of the kind before .xlsx, or one with a password."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise TableError(f"{path} is an old Excel workbook (.xls) or has a password; save it as .xlsx without one")


def guarded(text: str) -> str:
    """Return a text with an apostrophe in front where a spreadsheet would take it for a formula, as ``=A1``, ``-OH``.

    `unguarded` takes it away again, from every text that has one.
    """
    bare = text.lstrip(_GUARD)
    return _GUARD + text if _FORMULA.match(bare) and not (bare == text and reads_as_number(text)) else text


def unguarded(text: str) -> str:
    """Return the text that `guarded` has made another of."""
    return text[1:] if text.startswith(_GUARD) and _FORMULA.match(text.lstrip(_GUARD)) else text
