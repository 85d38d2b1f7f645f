"""Named parameters: how their values map to raw numbers and to frame coordinates."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, constant
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.messages.hints import listed, shown_value

Frame: TypeAlias = Literal["centred", "unit"]
FRAMES: tuple[Frame, ...] = ("centred", "unit")
Level: TypeAlias = str | bool | int | float
FurtherLevels: TypeAlias = Sequence[Level] | Mapping[Level, Mapping[str, float]]
"""Levels, or levels with the numbers that describe them, by descriptor."""


@dataclass(frozen=True)
class Parameter(ABC):
    """A named parameter."""

    name: str

    @property
    @abstractmethod
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of the frame coordinates of this parameter."""

    @property
    def indexed_levels(self) -> tuple[Level, ...]:
        """Levels that raw numbers are indices of; none where raw numbers are the values themselves."""
        return ()

    @property
    def has_coordinate_per_level(self) -> bool:
        """Whether each level has a coordinate of its own, 1 at this level and 0 at others."""
        return False

    @abstractmethod
    def to_coordinates(self, column: Array, frame: Frame) -> Float[Array, "*shape d"]:
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
    def from_unit(self, u: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Map numbers in [0, 1) to raw values spread evenly over the parameter, for space-filling designs."""

    @abstractmethod
    def to_spec(self) -> dict[str, Any]:
        """Return the mapping that `ParameterSpace.from_dict` reads."""

    def check_raw(self, raw: float) -> float:
        """Return a raw number if this parameter can take it.

        Raises
        ------
        SpaceError
            If it cannot.
        """
        return self.to_raw(self.from_raw(raw))

    def from_raw(self, raw: float) -> Level:
        """Return the user-facing value of a raw number.

        Raises
        ------
        SpaceError
            If the raw number is to be the index of a level and is not.
        """
        return float(raw)


class Scaled(Parameter):
    """A parameter with one coordinate, linear in its raw number or in the logarithm of that."""

    log: bool = False

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """The numbers, or their logarithms, at both ends of the coordinate."""

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return (self.name,)

    def to_coordinates(self, column: Array, frame: Frame) -> Float[Array, "*shape d"]:
        if self.log:
            column = array_namespace(column).log(column)
        low, high = self.ends
        unit = (column - low) / (high - low)
        return (2 * unit - 1 if frame == "centred" else unit)[..., None]


@dataclass(frozen=True)
class Numeric(Scaled):
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
            if not is_finite_number(bound):
                raise SpaceError(f"parameter {self.name!r}: bounds must be finite numbers, got {bound!r:.60}")
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
        if self.log and math.log(self.lower) == math.log(self.upper):
            raise SpaceError(
                f"parameter {self.name!r}: the logarithms of the bounds ({self.lower!r}, {self.upper!r}) are equal in "
                "double precision; set bounds further apart or drop 'log'"
            )
        if not math.isfinite(self.upper - self.lower):
            raise SpaceError(
                f"parameter {self.name!r}: the bounds ({self.lower!r}, {self.upper!r}) are too far apart for double "
                "precision; use other units"
            )

    @property
    def ends(self) -> tuple[float, float]:
        return (math.log(self.lower), math.log(self.upper)) if self.log else (self.lower, self.upper)

    def to_raw(self, value: Any) -> float:
        number = _number(value, self.name)
        if self.log and number <= 0:
            raise SpaceError(f"parameter {self.name!r} is on a log scale and must be above 0, got {value!r}")
        if self.integer and number != round(number):
            raise SpaceError(
                f"parameter {self.name!r} takes whole numbers, got {value!r}; where others are meant, describe it in a "
                "space without integer = true"
            )
        return number

    def from_unit(self, u: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        # Every whole number stands for the interval that is rounded to it.
        margin = 0.5 if self.integer else 0.0
        low, high = self.lower - margin, self.upper + margin
        if self.log:
            low, high = math.log(low), math.log(high)
        value = low + u * (high - low)
        value = np.exp(value) if self.log else value
        return np.clip(np.floor(value + 0.5) if self.integer else value, self.lower, self.upper)

    def from_raw(self, raw: float) -> Level:
        return round(raw) if self.integer and math.isfinite(raw) and raw == round(raw) else float(raw)

    def to_spec(self) -> dict[str, Any]:
        return {"bounds": [self.lower, self.upper], "log": self.log, "integer": self.integer}


@dataclass(frozen=True)
class Ordered(Scaled):
    """Levels with an order: numbers placed by their value, other levels placed evenly by rank.

    Parameters
    ----------
    levels
        At least two distinct levels, numbers in increasing order. Numbers between or beyond them, as measured ones may
        be, are taken at their value.
    """

    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        _check_levels(self.name, self.levels)
        if self.numeric and list(self.levels) != sorted(self.levels):
            raise SpaceError(f"parameter {self.name!r}: numeric levels must increase, got {list(self.levels)}")

    @property
    def numeric(self) -> bool:
        """Whether every level is a number."""
        return all(is_number(level) for level in self.levels)

    @property
    def indexed_levels(self) -> tuple[Level, ...]:
        return () if self.numeric else self.levels

    @property
    def ends(self) -> tuple[float, float]:
        return (float(self.levels[0]), float(self.levels[-1])) if self.numeric else (0.0, len(self.levels) - 1.0)

    def to_raw(self, value: Any) -> float:
        return _number(value, self.name) if self.numeric else float(_level_index(value, self.name, self.levels))

    def from_unit(self, u: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        index = np.minimum((u * len(self.levels)).astype(int), len(self.levels) - 1)
        return np.asarray(self.levels, dtype=float)[index] if self.numeric else index.astype(float)

    def from_raw(self, raw: float) -> Level:
        if self.numeric:
            return next((level for level in self.levels if level == raw), float(raw))
        return _level_at(raw, self.name, self.levels)

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
        object.__setattr__(self, "levels", tuple(self.levels))
        _check_levels(self.name, self.levels)

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={level}" for level in self.levels)

    @property
    def indexed_levels(self) -> tuple[Level, ...]:
        return self.levels

    @property
    def has_coordinate_per_level(self) -> bool:
        return True

    def to_coordinates(self, column: Array, frame: Frame) -> Float[Array, "*shape d"]:
        return self.level_weights(column)

    def level_weights(self, column: Array) -> Float[Array, "*shape l"]:
        """Return a weight of 1 for the level that a raw column (...) has the index of, (..., number of levels)."""
        xp = array_namespace(column)
        index = constant(np.arange(len(self.levels)), column)
        # Linear between neighbouring indices, so that a relaxed index has a gradient, at the last one that from below.
        below = xp.clip(xp.floor(column), 0, len(self.levels) - 2)[..., None]
        share = column[..., None] - below
        # At the ends, libraries differ in the gradient of clipping.
        share = xp.where((share >= 0) & (share <= 1), share, xp.clip(share, 0.0, 1.0))
        return (1 - share) * (index == below) + share * (index == below + 1)

    def level_weights_vjp(self, column: Float[np.ndarray, "*shape"], upstream: Float[np.ndarray, "*shape d"]) -> Any:
        """Pull gradients in the weights of levels, (..., number of levels), back to a relaxed index, (...)."""
        below = np.clip(np.floor(column), 0, len(self.levels) - 2).astype(int)[..., None]
        of_lower, of_upper = (np.take_along_axis(upstream, below + place, axis=-1)[..., 0] for place in (0, 1))
        return of_upper - of_lower

    def only(self, levels: Sequence[Any]) -> "Categorical":
        """Return the parameter with some of its levels alone; raises a `SpaceError` if one is none of them."""
        return Categorical(self.name, tuple(self.levels[int(self.to_raw(level))] for level in levels))

    def widened(self, further: FurtherLevels) -> "Categorical":
        """Return the parameter with further levels behind its own.

        Raises
        ------
        SpaceError
            If one is there already, or comes with descriptors that the others lack.
        """
        if isinstance(further, Mapping):
            raise SpaceError(
                f"parameter {self.name!r}: its levels have no descriptors, so that those of {list(further)} cannot be "
                "compared; name further levels in a list"
            )
        return Categorical(self.name, (*self.levels, *further))

    def to_raw(self, value: Any) -> float:
        return float(_level_index(value, self.name, self.levels))

    def from_unit(self, u: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        return np.minimum(np.floor(u * len(self.levels)), len(self.levels) - 1)

    def from_raw(self, raw: float) -> Level:
        return _level_at(raw, self.name, self.levels)

    def to_spec(self) -> dict[str, Any]:
        return {"levels": list(self.levels), "ordered": False}


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, booleans not counted."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))


def is_finite_number(value: Any) -> bool:
    """Return whether a value is a real number that fits into a finite double, booleans not counted."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def plain_value(value: Any) -> Any:
    """Return a NumPy scalar as the Python value it stands for."""
    return value.item() if isinstance(value, np.generic) else value


def _number(value: Any, name: str) -> float:
    value = plain_value(value)
    if is_finite_number(value):
        return float(value)
    if is_missing(value):
        raise SpaceError(f"parameter {name!r}: value missing; give one, or leave the row out")
    raise SpaceError(f"parameter {name!r} takes finite numbers, got {shown_value(value)}")


def _level_index(value: Any, name: str, levels: Sequence[Level]) -> int:
    value = plain_value(value)
    if isinstance(value, (str, bool, int, float)):
        for index, level in enumerate(levels):
            if isinstance(level, bool) == isinstance(value, bool) and level == value:
                return index
    if is_missing(value):
        raise SpaceError(f"parameter {name!r}: value missing; its levels are {listed(levels)}")
    raise SpaceError(f"parameter {name!r}: unknown level {value!r:.60}; its levels are {listed(levels, value)}")


def is_missing(value: Any) -> bool:
    """Return whether a value stands for a missing one."""
    import pandas as pd

    return value is None or bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _level_at(index: float, name: str, levels: Sequence[Level]) -> Level:
    if not math.isfinite(index) or index != round(index) or not 0 <= index < len(levels):
        raise SpaceError(
            f"parameter {name!r}: in a numeric array a level is given by its index, 0 to {len(levels) - 1} for "
            f"{listed(levels)}; got {plain_value(index)!r}"
        )
    return levels[round(index)]


def _check_levels(name: str, levels: Sequence[Level]) -> None:
    if len(levels) < 2:
        raise SpaceError(f"parameter {name!r} needs at least two levels, got {list(levels)}; leave a constant out")
    for level in levels:
        if not isinstance(level, (str, bool)) and not is_finite_number(level):
            raise SpaceError(f"parameter {name!r}: levels must be text, numbers or booleans, got {level!r:.60}")
    if len({(isinstance(level, bool), level) for level in levels}) < len(levels):
        raise SpaceError(f"parameter {name!r}: levels must differ, got {listed(levels)}")
