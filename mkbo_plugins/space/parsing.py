"""Short descriptions of parameters, as `ParameterSpace.from_dict` accepts them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.space.described import Described, Descriptor
from mkbo_plugins.space.parameters import (
    Categorical,
    Numeric,
    Ordered,
    Parameter,
    is_finite_number,
    is_number,
    plain_value,
)

_FLAGS = {"log": "log", "int": "integer"}


def parse_parameter(name: Any, entry: Any) -> Parameter:
    """Return the parameter that a short description stands for, as `ParameterSpace.from_dict` accepts it.

    Raises
    ------
    SpaceError
        If the description has no meaning.
    """
    if not isinstance(name, str) or not name:
        raise SpaceError(f"parameter names must be non-empty text, got {name!r}")
    if isinstance(entry, Parameter):
        if entry.name != name:
            raise SpaceError(f"parameter {name!r} is described by one named {entry.name!r}; give both the same name")
        return entry
    if isinstance(entry, Mapping):
        return _parse_mapping(name, entry)
    if hasattr(entry, "columns"):
        return _parse_mapping(name, {"levels": entry})
    if isinstance(entry, tuple):
        return _parse_bounds(name, entry)
    if isinstance(entry, list):
        if len(entry) == 2 and all(is_number(level) for level in entry):
            raise SpaceError(
                f"parameter {name!r}: a list of two numbers could mean bounds or levels; write the tuple "
                f"({entry[0]}, {entry[1]}) for bounds or {{'levels': {entry}}} for levels"
            )
        return _parse_mapping(name, {"levels": entry})
    raise SpaceError(
        f"parameter {name!r}: expected (low, high), (low, high, 'log'), (low, high, 'int'), a list of levels or a "
        f"DataFrame of their descriptors, got {entry!r}"
    )


def _parse_bounds(name: str, entry: tuple[Any, ...]) -> Numeric:
    flags = [_FLAGS.get(flag) if isinstance(flag, str) else None for flag in entry[2:]]
    if len(entry) < 2 or None in flags or len(set(flags)) < len(flags):
        raise SpaceError(
            f"parameter {name!r}: expected (low, high) with 'log' and/or 'int' behind it, got {entry!r}; "
            "levels are written as a list"
        )
    return Numeric(name, plain_value(entry[0]), plain_value(entry[1]), log="log" in flags, integer="integer" in flags)


def _key_hint(entry: Mapping[str, Any]) -> str:
    known = ("bounds", "log", "integer", "levels", "ordered", "descriptors")
    return next((did_you_mean(key, known) for key in entry if key not in known), "")


def _parse_mapping(name: str, entry: Mapping[str, Any]) -> Parameter:
    kinds = {"bounds": {"bounds", "log", "integer"}, "levels": {"levels", "ordered", "descriptors"}}
    kind = next((kind for kind, keys in kinds.items() if kind in entry and set(entry) <= keys), None)
    if kind is None:
        raise SpaceError(
            f"parameter {name!r}: expected 'bounds' (with 'log', 'integer') or 'levels' (with 'ordered', "
            f"'descriptors'), got keys {sorted(map(str, entry))}{_key_hint(entry)}"
        )
    for flag in ("log", "integer", "ordered"):
        if not isinstance(entry.get(flag, False), (bool, np.bool_)):
            raise SpaceError(f"parameter {name!r}: {flag!r} must be true or false, got {entry[flag]!r}")
    values = entry[kind]
    if kind == "levels" and (isinstance(values, Mapping) or hasattr(values, "columns") or "descriptors" in entry):
        return _parse_described(name, values, entry)
    if not isinstance(values, (list, tuple)) or (kind == "bounds" and len(values) != 2):
        raise SpaceError(f"parameter {name!r}: {kind!r} must be a list, of two numbers for bounds, got {values!r}")
    if kind == "bounds":
        low, high = (plain_value(value) for value in values)
        return Numeric(name, low, high, log=bool(entry.get("log")), integer=bool(entry.get("integer")))
    levels = tuple(plain_value(level) for level in values)
    ordered = entry.get("ordered", bool(levels) and all(is_number(level) for level in levels))
    return Ordered(name, levels) if ordered else Categorical(name, levels)


def _parse_described(name: str, values: Any, entry: Mapping[str, Any]) -> Described:
    if entry.get("ordered"):
        raise SpaceError(
            f"parameter {name!r}: levels with descriptors have no order; drop 'ordered', or make it a descriptor"
        )
    if "descriptors" not in entry:
        return Described.of(name, values if isinstance(values, Mapping) else _rows(name, values))
    descriptors = entry["descriptors"]
    if not isinstance(values, (list, tuple)) or not isinstance(descriptors, (list, tuple)):
        raise SpaceError(
            f"parameter {name!r}: beside 'descriptors', both are lists; numbers of each level are written as "
            "levels = {level: {descriptor: number}}"
        )
    return Described(name, tuple(map(plain_value, values)), tuple(_descriptor(name, given) for given in descriptors))


def _descriptor(name: str, given: Any) -> Descriptor:
    whole = isinstance(given, Mapping) and set(given) == {"name", "numbers", "bounds"}
    if not whole or not all(isinstance(given[key], (list, tuple)) for key in ("numbers", "bounds")):
        raise SpaceError(
            f"parameter {name!r}: a descriptor has a 'name', 'numbers' of each level and 'bounds', got {given!r:.60}"
        )
    if len(given["bounds"]) != 2:
        raise SpaceError(f"parameter {name!r}: 'bounds' of a descriptor are two numbers, got {given['bounds']!r:.60}")
    for number in (*given["numbers"], *given["bounds"]):
        if not is_finite_number(number):
            raise SpaceError(
                f"parameter {name!r}: descriptor {given['name']!r} must have finite numbers, got {number!r:.60}"
            )
    return Descriptor(given["name"], tuple(map(float, given["numbers"])), *map(float, given["bounds"]))


def _rows(name: str, frame: Any) -> dict[Any, dict[Any, Any]]:
    """Return the rows of a DataFrame, whose index are the levels."""
    for axis, noun in ((frame.index, "levels"), (frame.columns, "descriptors")):
        if not axis.is_unique:
            doubled = list(dict.fromkeys(axis[axis.duplicated()]))
            raise SpaceError(f"parameter {name!r}: {noun} {doubled} occur more than once; keep one of each")
    return {
        plain_value(level): dict(zip(frame.columns, row, strict=True))
        for level, row in zip(frame.index, frame.astype(object).to_numpy(), strict=True)
    }
