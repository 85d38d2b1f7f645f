"""Levels that are described by numbers, as substances are: alike levels have coordinates that are alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, constant
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.messages.hints import shown_value
from mkbo_plugins.space.parameters import (
    Categorical,
    Frame,
    FurtherLevels,
    Level,
    is_finite_number,
    is_missing,
    plain_value,
)

MOST_DESCRIPTORS = 50
"""Descriptors of a parameter, each of which has a weight to be learned."""

NEAR = 1e-6
"""Distance of two levels in every descriptor, in units of their ranges, up to which they cannot be told apart."""

MOST_RANGES = 1e6
"""What numbers of levels may lie beyond the range of a descriptor by, in units of it."""

FAR = 1e-2
"""The same, from which on it is said."""


@dataclass(frozen=True)
class Descriptor:
    """A number of each level, and the numbers between which it has the width of the frame.

    Parameters
    ----------
    name
        Its name.
    numbers
        A number for each level, in their order.
    lower, upper
        The numbers at both ends of the coordinate.
    """

    name: str
    numbers: tuple[float, ...]
    lower: float
    upper: float

    @property
    def unit(self) -> Float[np.ndarray, " l"]:
        """The numbers, scaled to [0, 1] between both ends, (number of levels,)."""
        return (np.array(self.numbers) - self.lower) / (self.upper - self.lower)


@dataclass(frozen=True)
class Described(Categorical):
    """Levels without an order, each a point whose coordinates are numbers that describe it.

    Parameters
    ----------
    levels
        At least two distinct levels.
    descriptors
        At least one descriptor, with a number for each level; two levels must differ in one of them.
    """

    descriptors: tuple[Descriptor, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "descriptors", tuple(self.descriptors))
        if len(set(self.levels)) < len(self.levels):
            raise SpaceError(
                f"parameter {self.name!r}: levels with descriptors cannot be both 1 and true, or 0 and false"
            )
        self._check_names()
        for descriptor in self.descriptors:
            self._check_numbers(descriptor)
        self._check_apart()

    @classmethod
    def of(cls, name: str, rows: Mapping[Level, Mapping[str, float]]) -> "Described":
        """Return levels by their numbers, with the extremes of each descriptor as the ends of its coordinate.

        Raises
        ------
        SpaceError
            If levels or numbers are not as described for this class, levels have not the same descriptors, or one is
            the same for all levels.
        """
        first = next((row for row in rows.values() if isinstance(row, Mapping)), {})
        columns = dict(zip(first, _numbers(name, rows, tuple(first)), strict=True))
        constant = [key for key, numbers in columns.items() if len(set(numbers)) == 1 and len(rows) > 1]
        if constant:
            raise SpaceError(
                f"parameter {name!r}: descriptors {constant} are the same for every level, "
                f"{shown_value(columns[constant[0]][0])}; leave them out"
            )
        found = (Descriptor(key, numbers, min(numbers), max(numbers)) for key, numbers in columns.items())
        return cls(name, tuple(rows), tuple(found))

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}.{name}" for name in self.descriptor_names)

    @property
    def has_coordinate_per_level(self) -> bool:
        return False

    @property
    def descriptor_names(self) -> tuple[str, ...]:
        """Names of the descriptors."""
        return tuple(descriptor.name for descriptor in self.descriptors)

    @property
    def rows(self) -> dict[Level, dict[str, float]]:
        """The numbers of each level, by descriptor."""
        return {level: {d.name: d.numbers[i] for d in self.descriptors} for i, level in enumerate(self.levels)}

    def to_coordinates(self, column: Array, frame: Frame) -> Float[Array, "*shape d"]:
        unit = np.column_stack([descriptor.unit for descriptor in self.descriptors])
        corners = 2 * unit - 1 if frame == "centred" else unit
        return array_namespace(column).matmul(self.level_weights(column), constant(corners, column))

    def to_raw(self, value: Any) -> float:
        try:
            return super().to_raw(value)
        except SpaceError as error:
            if is_missing(value):
                raise
            raise SpaceError(f"{error}; a further one needs its {self._named}, beside those of the others") from error

    def only(self, levels: Sequence[Any]) -> "Described":
        """Return the parameter with some of its levels alone; raises a `SpaceError` if one is none of them."""
        chosen = [int(self.to_raw(level)) for level in levels]
        return Described(
            self.name,
            tuple(self.levels[i] for i in chosen),
            tuple(replace(d, numbers=tuple(d.numbers[i] for i in chosen)) for d in self.descriptors),
        )

    def widened(self, further: FurtherLevels) -> "Described":
        """Return the parameter with further levels behind its own, in the same coordinates.

        Raises
        ------
        SpaceError
            If one is there already, has not the descriptors of the others, or cannot be told apart from one of them.
        """
        if not isinstance(further, Mapping):
            example = {level: dict.fromkeys(self.descriptor_names, ...) for level in further}
            raise SpaceError(
                f"parameter {self.name!r}: the levels {list(further)} need their {self._named}; give them in the space "
                "of the new problem (--space), or use "
                f"cov.with_levels({{{self.name!r}: {str(example).replace('Ellipsis', '...')}}}) in place of cov"
            )
        columns = _numbers(self.name, further, self.descriptor_names)
        return Described(
            self.name,
            (*self.levels, *further),
            tuple(replace(d, numbers=(*d.numbers, *new)) for d, new in zip(self.descriptors, columns, strict=True)),
        )

    def beyond(self, levels: Sequence[Level]) -> str | None:
        """Return a clause on the first number of some levels that lies clearly beyond its descriptor's range."""
        for descriptor in self.descriptors:
            for level in levels:
                place = int(self.to_raw(level))
                if not -FAR <= descriptor.unit[place] <= 1 + FAR:
                    return (
                        f"{descriptor.name!r} of {level!r} is {descriptor.numbers[place]:g}, beyond "
                        f"{descriptor.lower:g} to {descriptor.upper:g}"
                    )
        return None

    def to_spec(self) -> dict[str, Any]:
        found = [{"name": d.name, "numbers": list(d.numbers), "bounds": [d.lower, d.upper]} for d in self.descriptors]
        return super().to_spec() | {"descriptors": found}

    @property
    def _named(self) -> str:
        return f"descriptors {list(self.descriptor_names)}"

    def _check_names(self) -> None:
        names = self.descriptor_names
        if not names:
            raise SpaceError(
                f"parameter {self.name!r}: levels need at least one descriptor, a number for each; without any, name "
                "them in a list"
            )
        if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
            raise SpaceError(
                f"parameter {self.name!r}: descriptors need different names, non-empty text, got {list(names)}"
            )
        if len(names) > MOST_DESCRIPTORS:
            raise SpaceError(
                f"parameter {self.name!r} has {len(names)} descriptors, and at most {MOST_DESCRIPTORS} are taken: each "
                "has a weight to be learned. Choose those that matter, or a few principal components of them"
            )

    def _check_numbers(self, descriptor: Descriptor) -> None:
        where, ends = f"parameter {self.name!r}: descriptor {descriptor.name!r}", (descriptor.lower, descriptor.upper)
        if len(descriptor.numbers) != len(self.levels):
            raise SpaceError(f"{where} needs {len(self.levels)} numbers, one for each level, got {descriptor.numbers}")
        width = descriptor.upper - descriptor.lower
        if not 0 < width < np.inf or np.abs(descriptor.unit).max() > MOST_RANGES:
            raise SpaceError(
                f"{where} must have numbers near its bounds, the lower below the upper one, got "
                f"{min(descriptor.numbers):g} to {max(descriptor.numbers):g} and the bounds {ends}; use other units"
            )

    def _check_apart(self) -> None:
        from scipy.spatial import KDTree

        unit = np.column_stack([descriptor.unit for descriptor in self.descriptors])
        distances, nearest = KDTree(unit).query(unit, k=2, p=np.inf)
        if distances[:, 1].min() <= NEAR:
            i = int(distances[:, 1].argmin())
            i, j = sorted((i, next(int(k) for k in nearest[i] if k != i)))
            raise SpaceError(
                f"parameter {self.name!r}: levels {self.levels[i]!r} and {self.levels[j]!r} have the same "
                f"{self._named}, so that no model could tell them apart; add a descriptor in which they differ, or "
                "leave one out"
            )


def _numbers(name: str, rows: Mapping[Level, Mapping[str, float]], keys: Sequence[str]) -> list[tuple[float, ...]]:
    """Return the numbers of levels for each of their descriptors; all must have the same ones."""
    for level, row in rows.items():
        if not isinstance(row, Mapping):
            raise SpaceError(
                f"parameter {name!r}: level {level!r} needs numbers by descriptor, as {{'pKa': 2.7}}, got {row!r:.60}"
            )
        if set(row) != set(keys):
            lacking, strange = ([k for k in a if k not in b] for a, b in ((keys, row), (row, keys)))
            raise SpaceError(
                f"parameter {name!r}: level {level!r} must have the descriptors {list(keys)}, as the others; it lacks "
                f"{lacking}" + (f" and has {strange} besides" if strange else "")
            )
        for key in keys:
            number = plain_value(row[key])
            if is_finite_number(number):
                continue
            said = f"must be a finite number, got {shown_value(number)}"
            if is_missing(number):
                said = "is missing; give a number, or leave out the level or the descriptor"
            raise SpaceError(f"parameter {name!r}: descriptor {key!r} of level {level!r} {said}")
    return [tuple(float(row[key]) for row in rows.values()) for key in keys]
