"""A parameter space as a TOML file: read, and written with comments for a person to edit."""

import json
import re
import tomllib
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from mkbo_plugins.errors import MkboError, SpaceError
from mkbo_plugins.space.constraints import LinearConstraint
from mkbo_plugins.space.parameters import Level, Numeric, Parameter, is_number
from mkbo_plugins.space.parsing import parse_parameter
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.levelfiles import FILE, described_in_file

CONSTRAINT = "constraint"
"""Name of the sections of a space's constraints."""

IS_IT_ONE = "# Is this a parameter? mkbo check asks; if it is none, delete the section."


def read_space_file(path: Path) -> ParameterSpace:
    """Read a parameter space from TOML: for each parameter a section of what `ParameterSpace.from_dict` takes.

    Sections ``[[constraint]]`` are its constraints. Levels may be rows of a table, as `described_in_file` reads it.

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
    parameters: dict[str, Parameter] = {}
    faults = []
    for name, entry in spec.items():
        try:
            parameters[name] = _parameter(name, entry, path.parent)
        except (MkboError, ImportError) as error:
            faults.append(str(error))
    faults += [
        f"a constraint needs a section [[{CONSTRAINT}]], got {c!r}" for c in constraints if not isinstance(c, dict)
    ]
    if faults:
        raise SpaceError(f"{path}: " + "; ".join(faults))
    try:
        return ParameterSpace.from_dict(parameters, constraints=constraints)
    except SpaceError as error:
        raise SpaceError(f"{path}: {error}") from error


def _parameter(name: str, entry: Any, folder: Path) -> Parameter:
    """Return the parameter of a section; files that it names are in a folder."""
    if name == CONSTRAINT and isinstance(entry, dict) and {"sum", "coefficients"} & set(entry):
        raise SpaceError(f"a constraint is written with two brackets, [[{CONSTRAINT}]]")
    if not isinstance(entry, dict):
        raise SpaceError(
            f"parameter {name!r} needs a section [{name}] with bounds = [low, high] or levels = [...], got {entry!r}"
        )
    nested = next((key for key, value in entry.items() if isinstance(value, dict) and key != "levels"), None)
    if nested is not None:
        raise SpaceError(
            f'the section {name}.{nested} is one inside {name!r}; a name with a dot is quoted, ["{name}.{nested}"]'
        )
    levels = entry.get("levels")
    if isinstance(levels, dict) and not isinstance(levels.get(FILE, {}), dict):
        return described_in_file(name, entry, folder)
    return parse_parameter(name, entry)


def space_text(
    parameters: Sequence[Parameter],
    left_out: Iterable[str] = (),
    constraints: Iterable[LinearConstraint] = (),
    asked: Container[str] = (),
) -> str:
    """Return the TOML text that `read_space_file` reads back into the same parameters.

    Parameters
    ----------
    parameters
        The parameters, taken from columns.
    left_out
        Names of other columns, which are listed in a comment.
    constraints
        Constraints that sums of the parameters keep.
    asked
        Names of parameters that may be none, which a comment says.
    """
    lines = [
        "# Parameters as their columns were taken; edit what is meant otherwise, and delete sections of what is none.",
        "# Bounds are the extremes in the table: widen them if the new problem goes further.",
    ]
    others = ", ".join(map(_quoted, left_out))
    if others:
        lines.append(f"# Columns left out: {others}")
    limits = tuple(constraints)
    summed = {name for constraint in limits for name in constraint.names}
    for parameter in parameters:
        lines += ["", *([IS_IT_ONE] if parameter.name in asked else [])]
        lines += [f"[{_key(parameter.name)}]", *_described(parameter, summed=parameter.name in summed)]
    for constraint in limits:
        names = ", ".join(map(_quoted, constraint.names))
        lines += ["", "[[constraint]]  # as in every row; delete it if that is an accident"]
        lines += [f"sum = [{names}]", f"equals = {constraint.at_most!r}"]
    return "\n".join(lines) + "\n"


def _described(parameter: Parameter, *, summed: bool) -> list[str]:
    spec = parameter.to_spec()
    if isinstance(parameter, Numeric):
        low, high = (int(bound) if parameter.integer else bound for bound in spec["bounds"])
        flags = {
            "integer": (parameter.integer, "whole numbers only; delete this line if others make sense"),
            "log": (parameter.log, "steps that multiply rather than add"),
        }
        return [
            f"bounds = [{low!r}, {high!r}]",
            *(f"{flag} = true  # {why}" for flag, (holds, why) in flags.items() if holds),
            *(
                ["# log = true  # for steps that multiply rather than add"]
                if low > 0 and not (parameter.log or summed)
                else []
            ),
        ]
    levels = f"levels = [{', '.join(map(_level, spec['levels']))}]"
    if spec["ordered"]:
        return [levels, "ordered = true"]
    if all(map(is_number, spec["levels"])):
        return [levels, "ordered = false"]
    return [levels, "# ordered = true  # if they have an order: write them in it"]


def _level(level: Level) -> str:
    if isinstance(level, bool):
        return str(level).lower()
    return _quoted(level) if isinstance(level, str) else repr(level)


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    """Return a text as a basic string of TOML, whose escapes are those of JSON, and one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
