"""What commands have in common: checks before work begins, and output for scripts."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from mkbo_plugins.errors import ArtefactError, TableError
from mkbo_plugins.files import destination
from mkbo_plugins.messages.hints import listed
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.space.constraints import LinearConstraint
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.parameters import Categorical, Level, Numeric, Parameter
from mkbo_plugins.tables.inputfiles import sheet_of

SHOWN_LEVELS = 8


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
    try:
        real, permissions = destination(path)
    except OSError as error:
        raise ArtefactError(f"cannot write {path}: {error.strerror}; name another file") from error
    if not real.parent.is_dir():
        raise ArtefactError(f"cannot write {path}: its folder does not exist; make it first")
    if not os.access(real.parent, os.W_OK):
        raise ArtefactError(f"cannot write {path}: its folder cannot be written to; choose another")
    if permissions is not None and not os.access(real, os.W_OK):
        raise ArtefactError(f"cannot write {path}: the file is protected from that; name another file")


def check_named(
    option: str, given: Sequence[str] | None, columns: Iterable[str], used: Iterable[str | None]
) -> tuple[str, ...]:
    """Return the columns that an option names, if they are columns and not named as anything else.

    Parameters
    ----------
    option
        The option, such as ``--ignore``.
    given
        Its values.
    columns
        Columns of the tables.
    used
        Names of targets, groups and parameters of a given space.
    """
    names, known = tuple(given or ()), list(dict.fromkeys(columns))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TableError(
            f"{option} names {unknown}, which are not columns, one {option} for each; the table has "
            f"{listed(known, unknown[0])}"
        )
    needed = [name for name in names if name in set(used)]
    if needed:
        raise TableError(f"{option} names {needed}, which are used as target, groups or parameter; drop one of the two")
    return names


def chosen_parameters(
    given: Sequence[str] | None, columns: Sequence[str], used: Iterable[str | None], others: dict[str, object]
) -> tuple[str, ...] | None:
    """Return the columns that ``--parameters`` names, once each, or None if it is not given.

    Parameters
    ----------
    given
        Its values, each the name of a column, or several with commas between them.
    columns, used
        As for `check_named`.
    others
        Options that say what the parameters are as well, with their values.
    """
    if not given:
        return None
    both = [option for option, value in others.items() if value]
    if both:
        raise TableError(f"--parameters and {both[0]} both say which columns are parameters; give one of them")
    names = [name for value in given for name in ([value] if value in columns else map(str.strip, value.split(",")))]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise TableError(f"--parameters names {doubled} more than once; name each once")
    return check_named("--parameters", names, columns, used)


def print_parameters(console: Terminal, parameters: Sequence[Parameter], sums: Sequence[LinearConstraint] = ()) -> None:
    """Print what columns are taken as, a line for each, and which of them sum to a constant."""
    for parameter in parameters:
        console.print(f"parameter {parameter.name}: {_kind(parameter)}", soft_wrap=True)
    for constraint in sums:
        console.print(
            f"columns {list(constraint.names)} sum to {constraint.most:g} in every row: this is taken as a constraint, "
            "which suggestions keep; give a space if it is an accident",
            soft_wrap=True,
        )


def _kind(parameter: Parameter) -> str:
    if isinstance(parameter, Numeric):
        kind, scale = "whole" if parameter.integer else "real", "log" if parameter.log else "linear"
        return f"{kind} numbers, {parameter.lower:g} to {parameter.upper:g}, {scale} scale"
    levels: Sequence[Level] = parameter.to_spec()["levels"]
    order = "without an order" if isinstance(parameter, Categorical) else "in order"
    if isinstance(parameter, Described):
        order = f"described by {', '.join(parameter.descriptor_names)}"
    shown = ", ".join(map(str, levels[:SHOWN_LEVELS])) + (", ..." if len(levels) > SHOWN_LEVELS else "")
    return f"{len(levels)} levels {order}: {shown}"


HOW_TAKEN = (
    "no --space given: parameters and bounds are taken from the columns; where these hold whole numbers, only such are "
    "proposed. To say otherwise, edit a space: mkbo check --write-space writes this one"
)
"""What to say below parameters that no space describes."""


def _same_file(one: Path, other: Path) -> bool:
    if os.path.exists(one) and os.path.exists(other):  # of names too long, the methods of paths raise errors
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def print_json(value: Any) -> None:
    """Print a value for scripts."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace"))
