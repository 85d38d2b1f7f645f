"""What commands have in common: checks before work begins, and output for scripts."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from mkbo_plugins.errors import ArtefactError, TableError
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.tables.inputfiles import sheet_of


def check_writable(path: Path, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse a file that cannot be written, or is an input, before time is spent on what goes into it.

    Parameters
    ----------
    path
        The file to write.
    inputs
        Files that the command reads, sheets of workbooks among them; None where one is not given.
    """
    for other in inputs:
        if other is not None and _same_file(path, sheet_of(other)[0]):
            raise ArtefactError(f"cannot write {path}: the command reads it as well; name another file to write")
    if path.is_dir():
        raise ArtefactError(f"cannot write {path}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ArtefactError(f"cannot write {path}: its folder does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ArtefactError(f"cannot write {path}: its folder cannot be written to; choose another")


def check_ignored(ignore: Sequence[str] | None, columns: Iterable[str], used: Iterable[str | None]) -> tuple[str, ...]:
    """Return the columns that are to be ignored, if they are columns and not named as anything else.

    Parameters
    ----------
    ignore
        Values of ``--ignore``.
    columns
        Columns of the tables.
    used
        Names of targets, groups and parameters of a given space.
    """
    given, known = tuple(ignore or ()), list(dict.fromkeys(columns))
    unknown = [name for name in given if name not in known]
    if unknown:
        close = did_you_mean(unknown[0], known)
        raise TableError(
            f"--ignore names {unknown}, which are not columns, one --ignore for each; the table has {known}{close}"
        )
    needed = [name for name in given if name in set(used)]
    if needed:
        raise TableError(f"--ignore names {needed}, which are used as target, groups or parameter; drop one of the two")
    return given


def _same_file(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def counted(number: int, noun: str) -> str:
    """Return a number of things with their noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_json(value: Any) -> None:
    """Print a value for scripts."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))
