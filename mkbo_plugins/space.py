"""Named parameters in raw units, and the frame: the fixed coordinates a pre-trained covariance lives in.

A *raw* array has one column per parameter: the value itself for real, integer and ordered numeric parameters, the
index of the level for categorical parameters and for ordered levels that are not numbers. *Frame coordinates* have one
column per numeric or ordered parameter and one {0, 1} column per level of a categorical one.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, constant
from mkbo_plugins.errors import SpaceError

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = Literal["centred", "unit"]
FRAMES: tuple[Frame, ...] = ("centred", "unit")
Level: TypeAlias = str | bool | int | float


@dataclass(frozen=True)
class Parameter(ABC):
    """A named parameter."""

    name: str

    @property
    @abstractmethod
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of the frame coordinates of this parameter."""

    @abstractmethod
    def to_coordinates(self, column: Array, frame: Frame) -> Array:
        """Map a raw column (...) to frame coordinates (..., number of coordinates), for arrays and tensors alike."""

    @abstractmethod
    def to_raw(self, value: Any) -> float:
        """Return the raw number of one user-facing value.

        Raises
        ------
        SpaceError
            If the value is not one this parameter can take; values beyond the bounds are accepted.
        """

    @abstractmethod
    def from_unit(self, u: np.ndarray) -> np.ndarray:
        """Map numbers in [0, 1) to raw values spread evenly over the parameter, for space-filling designs."""

    @abstractmethod
    def to_spec(self) -> dict[str, Any]:
        """Return the mapping that `ParameterSpace.from_dict` reads."""

    def from_raw(self, raw: float) -> Level:
        """Return the user-facing value of a raw number.

        Raises
        ------
        SpaceError
            If the raw number is to be the index of a level and is not.
        """
        return float(raw)


@dataclass(frozen=True)
class Numeric(Parameter):
    """A real or integer parameter between two bounds, on a linear or logarithmic scale.

    Parameters
    ----------
    lower, upper
        Bounds in raw units, ``lower < upper``; above 0 when `log`.
    log
        Whether the coordinate is linear in the logarithm.
    integer
        Whether only whole numbers are meaningful.
    """

    lower: float
    upper: float
    log: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        for bound in (self.lower, self.upper):
            if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not math.isfinite(bound):
                raise SpaceError(f"parameter {self.name!r}: bounds must be finite numbers, got {bound!r}")
            if self.integer and bound != int(bound):
                raise SpaceError(f"parameter {self.name!r}: bounds of an integer must be whole, got {bound!r}")
        if not self.lower < self.upper:
            raise SpaceError(
                f"parameter {self.name!r}: the lower bound must be below the upper one, got "
                f"({self.lower!r}, {self.upper!r}); swap them, or leave a constant parameter out of the space"
            )
        if self.log and self.lower <= 0:
            raise SpaceError(
                f"parameter {self.name!r}: a log scale needs bounds above 0, got ({self.lower!r}, {self.upper!r}); "
                "raise the lower bound or drop 'log'"
            )
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return (self.name,)

    def to_coordinates(self, column: Array, frame: Frame) -> Array:
        xp = array_namespace(column)
        low, high = self.lower, self.upper
        if self.log:
            column, low, high = xp.log(column), math.log(low), math.log(high)
        unit = (column - low) / (high - low)
        return (2 * unit - 1 if frame == "centred" else unit)[..., None]

    def to_raw(self, value: Any) -> float:
        number = _number(value, self.name)
        if self.log and number <= 0:
            raise SpaceError(f"parameter {self.name!r} is on a log scale and must be above 0, got {value!r}")
        if self.integer and number != round(number):
            raise SpaceError(f"parameter {self.name!r} takes whole numbers, got {value!r}")
        return number

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        if self.integer:
            return np.minimum(self.lower + np.floor(u * (self.upper - self.lower + 1)), self.upper)
        if self.log:
            return np.clip(self.lower * (self.upper / self.lower) ** u, self.lower, self.upper)
        return self.lower + u * (self.upper - self.lower)

    def from_raw(self, raw: float) -> Level:
        return round(raw) if self.integer and raw == round(raw) else float(raw)

    def to_spec(self) -> dict[str, Any]:
        return {"bounds": [self.lower, self.upper], "log": self.log, "integer": self.integer}


@dataclass(frozen=True)
class Ordered(Parameter):
    """Levels with an order: numbers placed by their value, other levels placed evenly by rank.

    Parameters
    ----------
    levels
        At least two distinct levels, numbers in increasing order.
    """

    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        _check_levels(self.name, self.levels)
        if self.numeric and list(self.levels) != sorted(self.levels):  # type: ignore[type-var]
            raise SpaceError(f"parameter {self.name!r}: numeric levels must increase, got {list(self.levels)}")

    @property
    def numeric(self) -> bool:
        """Whether every level is a number."""
        return all(_is_number(level) for level in self.levels)

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def _ends(self) -> tuple[float, float]:
        return (float(self.levels[0]), float(self.levels[-1])) if self.numeric else (0.0, len(self.levels) - 1.0)

    def to_coordinates(self, column: Array, frame: Frame) -> Array:
        low, high = self._ends
        unit = (column - low) / (high - low)
        return (2 * unit - 1 if frame == "centred" else unit)[..., None]

    def to_raw(self, value: Any) -> float:
        index = _level_index(value, self.name, self.levels)
        return float(self.levels[index]) if self.numeric else float(index)

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        index = np.minimum((u * len(self.levels)).astype(int), len(self.levels) - 1)
        return np.asarray(self.levels, dtype=float)[index] if self.numeric else index.astype(float)

    def from_raw(self, raw: float) -> Level:
        return float(raw) if self.numeric else _level_at(raw, self.name, self.levels)

    def to_spec(self) -> dict[str, Any]:
        return {"levels": list(self.levels), "ordered": True}


@dataclass(frozen=True)
class Categorical(Parameter):
    """Levels without an order, one {0, 1} coordinate each.

    Parameters
    ----------
    levels
        At least two distinct levels.
    """

    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        _check_levels(self.name, self.levels)

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={level}" for level in self.levels)

    def to_coordinates(self, column: Array, frame: Frame) -> Array:  # noqa: ARG002 - one-hot in both frames
        xp = array_namespace(column)
        index = constant(np.arange(len(self.levels)), column)
        # Linear between neighbouring indices, so that a relaxed index has a gradient; exact at whole ones.
        return xp.clip(1 - xp.abs(column[..., None] - index), 0.0, None)

    def to_raw(self, value: Any) -> float:
        return float(_level_index(value, self.name, self.levels))

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        return np.minimum(np.floor(u * len(self.levels)), len(self.levels) - 1)

    def from_raw(self, raw: float) -> Level:
        return _level_at(raw, self.name, self.levels)

    def to_spec(self) -> dict[str, Any]:
        return {"levels": list(self.levels), "ordered": False}


@dataclass(frozen=True)
class ParameterSpace:
    """Named parameters of a table and of the covariance pre-trained on it.

    Parameters
    ----------
    parameters
        The parameters, in column order; names must differ.

    Raises
    ------
    SpaceError
        If there is no parameter, or two share a name.
    """

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        if not self.parameters:
            raise SpaceError("a space needs at least one parameter")
        duplicates = sorted({name for name in self.names if self.names.count(name) > 1})
        if duplicates:
            raise SpaceError(f"parameter names must differ, found twice: {duplicates}")

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any]) -> "ParameterSpace":
        """Build a space from a mapping of parameter names to short descriptions.

        Parameters
        ----------
        spec
            ``(low, high)`` for a real parameter, with ``"log"`` and/or ``"int"`` appended for a logarithmic scale or
            whole numbers; a list of levels for a categorical one (ordered, and placed by value, if all are numbers);
            or a mapping with ``bounds`` (and ``log``, ``integer``) or ``levels`` (and ``ordered``).

        Raises
        ------
        SpaceError
            If a description is not one of these; the message names the parameter.

        Examples
        --------
        >>> space = ParameterSpace.from_dict({"lr": (1e-5, 1e-1, "log"), "gas": ["Argon", "Air"]})
        >>> space.coordinate_names
        ('lr', 'gas=Argon', 'gas=Air')
        """
        if not isinstance(spec, Mapping):
            raise SpaceError(f"a space is described by a mapping of names, got {type(spec).__name__}")
        return cls(tuple(_parse(name, entry) for name, entry in spec.items()))

    @classmethod
    def from_table(cls, table: "pd.DataFrame", target: str) -> "ParameterSpace":
        """Build a space from the columns of a table other than `target`, with bounds at the extremes found.

        Numbers become real parameters, text and booleans categorical ones with sorted levels.

        Raises
        ------
        SpaceError
            If a column is constant or holds nothing but missing values.
        """
        spec: dict[str, Any] = {}
        for name in table.columns:
            if name == target:
                continue
            column = table[name].dropna()
            if column.nunique() < 2:
                raise SpaceError(f"column {name!r} is constant or empty: describe the space without it, or drop it")
            if column.dtype.kind in "iuf":
                spec[str(name)] = (float(column.min()), float(column.max()))
            else:
                spec[str(name)] = {"levels": sorted({_plain(value) for value in column}, key=str), "ordered": False}
        return cls.from_dict(spec)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return a mapping that `from_dict` reads back into an equal space."""
        return {parameter.name: parameter.to_spec() for parameter in self.parameters}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in column order."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of the frame coordinates."""
        return tuple(name for parameter in self.parameters for name in parameter.coordinate_names)

    @cached_property
    def coordinate_owners(self) -> tuple[str, ...]:
        """Name of the parameter that each frame coordinate belongs to."""
        return tuple(parameter.name for parameter in self.parameters for _ in parameter.coordinate_names)

    def coordinate_ranges(self, frame: Frame) -> np.ndarray:
        """Width of the interval each frame coordinate spans inside the bounds, (d,)."""
        wide = 2.0 if frame == "centred" else 1.0
        return np.array([1.0 if isinstance(p, Categorical) else wide for p in self.parameters for _ in p.coordinate_names])

    def __getitem__(self, name: str) -> Parameter:
        """Return the parameter called `name`."""
        if name not in self.names:
            raise SpaceError(f"unknown parameter {name!r}; the space has {list(self.names)}")
        return self.parameters[self.names.index(name)]

    def to_coordinates(self, X: Array, frame: Frame = "centred") -> Array:
        """Map raw points (..., number of parameters) to frame coordinates (..., d), for arrays and tensors alike."""
        check_frame(frame)
        if X.shape[-1] != len(self.parameters):
            raise SpaceError(
                f"expected {len(self.parameters)} columns in the order {list(self.names)}, got {X.shape[-1]}"
            )
        xp = array_namespace(X)
        return xp.concat([p.to_coordinates(X[..., j], frame) for j, p in enumerate(self.parameters)], axis=-1)

    def to_raw(self, points: Any) -> np.ndarray:
        """Return user-facing points as a checked raw array.

        Parameters
        ----------
        points
            A DataFrame (columns found by name, others ignored), a mapping or a sequence of mappings of names to
            values, or an array-like (n, number of parameters) in column order. Numeric arrays are raw already;
            elsewhere categorical values are levels.

        Returns
        -------
        ndarray
            Raw values, (n, number of parameters).

        Raises
        ------
        SpaceError
            If a column is missing, or a value is missing, not finite, or not one that its parameter can take. The
            message names the parameter and the rows.
        """
        if isinstance(points, Mapping):
            points = [points]
        if hasattr(points, "columns"):
            columns = _table_columns(points, self.names)
        elif _is_records(points):
            columns = {name: [_record_value(record, name, i) for i, record in enumerate(points)] for name in self.names}
        else:
            return self._checked_array(points)
        raw = [_gather(p.to_raw, columns[p.name]) for p in self.parameters]
        return np.column_stack(raw) if raw[0].size else np.empty((0, len(self.names)))

    def _checked_array(self, points: Any) -> np.ndarray:
        array = np.asarray(points)
        if array.ndim != 2 or array.shape[1] != len(self.names):
            raise SpaceError(
                f"expected points (n, {len(self.names)}) with columns {list(self.names)}, got shape {array.shape}"
            )
        if array.dtype.kind in "fiu":
            raw = [_gather(lambda v, p=p: p.to_raw(p.from_raw(v)), array[:, j]) for j, p in enumerate(self.parameters)]
        else:
            raw = [_gather(p.to_raw, array[:, j]) for j, p in enumerate(self.parameters)]
        return np.column_stack(raw)

    def from_raw(self, X: np.ndarray) -> list[dict[str, Level]]:
        """Return raw points (n, number of parameters) as user-facing mappings of names to values."""
        return [{p.name: p.from_raw(v) for p, v in zip(self.parameters, row, strict=True)} for row in np.asarray(X)]

    def sobol(self, n: int, seed: int | None = 0) -> np.ndarray:
        """Return `n` space-filling raw points, (n, number of parameters), from a scrambled Sobol sequence."""
        from scipy.stats import qmc

        engine = qmc.Sobol(len(self.parameters), seed=seed)
        unit = engine.random_base2(max(0, math.ceil(math.log2(max(n, 1)))))[:n]
        return np.column_stack([p.from_unit(unit[:, j]) for j, p in enumerate(self.parameters)])


def check_frame(frame: str) -> None:
    """Raise a `SpaceError` unless `frame` is one of `FRAMES`."""
    if frame not in FRAMES:
        raise SpaceError(f"frame must be one of {list(FRAMES)}, got {frame!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value it stands for."""
    return value.item() if isinstance(value, np.generic) else value


def _number(value: Any, name: str) -> float:
    value = _plain(value)
    if value is None or (_is_number(value) and math.isnan(value)):
        raise SpaceError(f"parameter {name!r}: value missing")
    if not _is_number(value) or not math.isfinite(value):
        raise SpaceError(f"parameter {name!r} takes finite numbers, got {value!r}")
    return float(value)


def _level_index(value: Any, name: str, levels: Sequence[Level]) -> int:
    value = _plain(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise SpaceError(f"parameter {name!r}: value missing; its levels are {list(levels)}")
    for index, level in enumerate(levels):
        if isinstance(level, bool) == isinstance(value, bool) and level == value:
            return index
    raise SpaceError(f"parameter {name!r}: unknown level {value!r}; its levels are {list(levels)}")


def _level_at(index: float, name: str, levels: Sequence[Level]) -> Level:
    if not math.isfinite(index) or index != round(index) or not 0 <= index < len(levels):
        raise SpaceError(
            f"parameter {name!r}: in a numeric array a level is given by its index, 0 to {len(levels) - 1} for "
            f"{list(levels)}; got {_plain(index)!r}"
        )
    return levels[round(index)]


def _check_levels(name: str, levels: Sequence[Level]) -> None:
    if len(levels) < 2:
        raise SpaceError(f"parameter {name!r} needs at least two levels, got {list(levels)}; leave a constant out")
    for level in levels:
        if not isinstance(level, (str, bool, int, float)) or (isinstance(level, float) and not math.isfinite(level)):
            raise SpaceError(f"parameter {name!r}: levels must be text, numbers or booleans, got {level!r}")
    if len({(isinstance(level, bool), level) for level in levels}) < len(levels):
        raise SpaceError(f"parameter {name!r}: levels must differ, got {list(levels)}")


def _gather(convert: Callable[[Any], float], values: Iterable[Any]) -> np.ndarray:
    """Convert a column, gathering the faulty rows into one message."""
    raw, faults = [], []
    for row, value in enumerate(values):
        try:
            raw.append(convert(value))
        except SpaceError as error:
            faults.append((row, error))
    if faults:
        rows = [row for row, _ in faults]
        shown = f"row {rows[0]}" if len(rows) == 1 else f"rows {rows[:10]}{' and more' if len(rows) > 10 else ''}"
        raise SpaceError(f"{faults[0][1]} ({shown}, counting from 0)")
    return np.asarray(raw, dtype=float)


def _is_records(points: Any) -> bool:
    return isinstance(points, Sequence) and len(points) > 0 and all(isinstance(p, Mapping) for p in points)


def _record_value(record: Mapping[str, Any], name: str, row: int) -> Any:
    if name not in record:
        raise SpaceError(f"point {row} lacks parameter {name!r}; it has {sorted(map(str, record))}")
    return record[name]


def _table_columns(table: Any, names: Sequence[str]) -> dict[str, Any]:
    present = list(table.columns)
    missing = [name for name in names if name not in present]
    if missing:
        raise SpaceError(f"columns {missing} are missing; the table has {present}")
    doubled = [name for name in names if present.count(name) > 1]
    if doubled:
        raise SpaceError(f"columns {doubled} occur more than once; rename or drop the extra ones")
    return {name: table[name].tolist() for name in names}


_FLAGS = {"log": "log", "int": "integer"}


def _parse(name: Any, entry: Any) -> Parameter:
    if not isinstance(name, str) or not name:
        raise SpaceError(f"parameter names must be non-empty text, got {name!r}")
    if isinstance(entry, Parameter):
        return entry
    if isinstance(entry, Mapping):
        return _parse_mapping(name, entry)
    if isinstance(entry, tuple):
        return _parse_bounds(name, entry)
    if isinstance(entry, list):
        if len(entry) == 2 and all(_is_number(level) for level in entry):
            raise SpaceError(
                f"parameter {name!r}: a list of two numbers could mean bounds or levels; write the tuple "
                f"({entry[0]}, {entry[1]}) for bounds or {{'levels': {entry}}} for levels"
            )
        return _parse_mapping(name, {"levels": entry})
    raise SpaceError(
        f"parameter {name!r}: expected (low, high), (low, high, 'log'), (low, high, 'int') or a list of levels, "
        f"got {entry!r}"
    )


def _parse_bounds(name: str, entry: tuple[Any, ...]) -> Numeric:
    flags = [_FLAGS.get(flag) if isinstance(flag, str) else None for flag in entry[2:]]
    if len(entry) < 2 or None in flags or len(set(flags)) < len(flags):
        raise SpaceError(
            f"parameter {name!r}: expected (low, high) with 'log' and/or 'int' behind it, got {entry!r}; "
            "levels are written as a list"
        )
    return Numeric(name, _plain(entry[0]), _plain(entry[1]), log="log" in flags, integer="integer" in flags)


def _parse_mapping(name: str, entry: Mapping[str, Any]) -> Parameter:
    kinds = {"bounds": {"bounds", "log", "integer"}, "levels": {"levels", "ordered"}}
    kind = next((kind for kind, keys in kinds.items() if kind in entry and set(entry) <= keys), None)
    if kind is None:
        raise SpaceError(
            f"parameter {name!r}: expected 'bounds' (with 'log', 'integer') or 'levels' (with 'ordered'), "
            f"got keys {sorted(map(str, entry))}"
        )
    for flag in ("log", "integer", "ordered"):
        if not isinstance(entry.get(flag, False), bool):
            raise SpaceError(f"parameter {name!r}: {flag!r} must be true or false, got {entry[flag]!r}")
    values = entry[kind]
    if not isinstance(values, (list, tuple)) or (kind == "bounds" and len(values) != 2):
        raise SpaceError(f"parameter {name!r}: {kind!r} must be a list, of two numbers for bounds, got {values!r}")
    if kind == "bounds":
        low, high = (_plain(value) for value in values)
        return Numeric(name, low, high, log=entry.get("log", False), integer=entry.get("integer", False))
    levels = tuple(_plain(level) for level in values)
    ordered = entry.get("ordered", bool(levels) and all(_is_number(level) for level in levels))
    return Ordered(name, levels) if ordered else Categorical(name, levels)
