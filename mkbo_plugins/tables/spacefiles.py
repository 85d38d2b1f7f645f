"""A parameter space as a TOML file with comments, written for a person to edit."""

import json
import re
from collections.abc import Container, Iterable, Sequence

from mkbo_plugins.space.constraints import LinearConstraint
from mkbo_plugins.space.parameters import Level, Numeric, Parameter, is_number

IS_IT_ONE = "# Is this a parameter? mkbo check asks; if it is none, delete the section."


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
