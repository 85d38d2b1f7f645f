"""One map from columns to coordinates, for every host.

Hosts differ in how they name, order, scale and encode what they optimise over. Each turns its columns into numbers, or
their logarithms, and one weight for each level, and says by an `Affine`, `Levels` or `Constant` what stands for a
parameter. The rest is the same for NumPy arrays and PyTorch tensors, and differentiable in the latter.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
from array_api_compat import device
from jaxtyping import Bool, Float, Int

from mkbo_plugins.core.arrays import Array, array_namespace, constant
from mkbo_plugins.space.matching import check_above_zero
from mkbo_plugins.space.parameters import Frame, Level, Parameter, Scaled

Terms: TypeAlias = tuple[tuple[Hashable, float], ...]
"""Labels of columns, and what these are multiplied by."""


class Coordinate(NamedTuple):
    """A coordinate ``factor * (s - low) / (high - low) - (factor - 1)``.

    The intercept and the terms add up to a number, or to its natural logarithm if `of_log`; s is the one or, `on_log`,
    the other.
    """

    terms: Terms
    intercept: float = 0.0
    of_log: bool = False
    on_log: bool = False
    low: float = 0.0
    high: float = 1.0
    factor: float = 1.0


@dataclass(frozen=True)
class Affine:
    """A number, or its natural logarithm if `log`, that is affine in columns, most often one of them."""

    terms: Terms
    intercept: float = 0.0
    log: bool = False

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """Labels of the columns."""
        return tuple(label for label, _ in self.terms)

    def coordinates(self, parameter: Parameter, frame: Frame) -> list[Coordinate]:
        """Return the coordinate of a parameter that has a scale."""
        scaled, factor = cast(Scaled, parameter), 2.0 if frame == "centred" else 1.0
        return [Coordinate(self.terms, self.intercept, self.log, scaled.log, *scaled.ends, factor)]


@dataclass(frozen=True)
class Levels:
    """Weights of levels, in columns labelled by `name` and place; levels of a parameter that are absent have none."""

    name: str
    levels: tuple[Level, ...]

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """Labels of the columns."""
        return tuple((self.name, place) for place in range(len(self.levels)))

    def coordinates(self, parameter: Parameter, frame: Frame) -> list[Coordinate]:
        """Return the coordinates of a parameter that can take these levels, weighted sums of those of the levels."""
        raw = np.array([parameter.to_raw(level) for level in self.levels])
        corners = parameter.to_coordinates(raw, frame).T.tolist()
        return [Coordinate(tuple((c, z) for c, z in zip(self.columns, row, strict=True) if z)) for row in corners]


@dataclass(frozen=True)
class Constant:
    """A raw number that the target keeps."""

    number: float
    columns: ClassVar[tuple[Hashable, ...]] = ()

    def coordinates(self, parameter: Parameter, frame: Frame) -> list[Coordinate]:
        """Return the coordinates of a parameter."""
        return [Coordinate((), z) for z in parameter.to_coordinates(np.array(self.number), frame).tolist()]


Source: TypeAlias = Affine | Levels | Constant


@dataclass(frozen=True)
class CoordinateMap:
    """Map from columns with labels, (..., v), to coordinates, (..., m)."""

    columns: tuple[Hashable, ...]
    coordinates: tuple[Coordinate, ...]

    @classmethod
    def of(cls, columns: Iterable[Hashable], sources: Iterable[tuple[Source, Parameter, Frame]]) -> "CoordinateMap":
        """Return the map to the coordinates of parameters, each with what stands for it."""
        return cls(tuple(columns), tuple(z for source, p, frame in sources for z in source.coordinates(p, frame)))

    def __call__(self, X: Array) -> Float[Array, "... m"]:
        """Return the coordinates of columns.

        Raises
        ------
        SpaceError
            If a number whose logarithm is taken is not above 0.
        """
        _, low, high, factor = constant(self._scales, X)
        return factor * ((self._on_scale(X) - low) / (high - low)) - (factor - 1)

    def vjp(self, X: Float[np.ndarray, "... v"], upstream: Float[np.ndarray, "... m"]) -> Float[np.ndarray, "... v"]:
        """Pull gradients in the coordinates, (..., m), back to gradients in the columns, (..., v)."""
        _, low, high, factor = self._scales
        slope = factor / (high - low)
        if self._exps.any():
            slope = slope * np.where(self._exps, self._on_scale(X), 1.0)
        if self._logs.any():
            slope = slope / np.where(self._logs, self._affine(X), 1.0)
        return (upstream * slope) @ self._weights.T

    @cached_property
    def is_affine(self) -> bool:
        """Whether there are no logarithms or powers between columns and coordinates."""
        return not (self._exps.any() or self._logs.any())

    def _on_scale(self, X: Array) -> Float[Array, "... m"]:
        xp, s = array_namespace(X), self._affine(X)
        if self._logs.any():
            logs = xp.asarray(self._logs, device=device(X))
            numbers = xp.where(logs, s, 1.0)
            check_above_zero(numbers, self._names)
            s = xp.where(logs, xp.log(numbers), s)
        if self._exps.any():
            exps = xp.asarray(self._exps, device=device(X))
            s = xp.where(exps, xp.exp(xp.where(exps, s, 0.0)), s)
        return s

    def _affine(self, X: Array) -> Float[Array, "... m"]:
        xp = array_namespace(X)
        terms: Any = sum(
            constant(weight, X) * xp.take(X, xp.asarray(index, device=device(X)), axis=-1)
            for index, weight in self._terms
        )
        return xp.broadcast_to(constant(self._scales[0], X), (*X.shape[:-1], len(self.coordinates))) + terms

    @cached_property
    def _terms(self) -> list[tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"]]]:
        """The first terms of all coordinates, columns and weights, (m,) each; then the second ones, and so on."""
        rounds = zip_longest(*(z.terms for z in self.coordinates), fillvalue=(next(iter(self.columns), None), 0.0))
        return [(np.array([self.columns.index(c) for c, _ in r]), np.array([w for _, w in r])) for r in rounds]

    @cached_property
    def _weights(self) -> Float[np.ndarray, "v m"]:
        """What columns are multiplied by in each coordinate, before its scale."""
        weights = np.zeros((len(self.columns), len(self.coordinates)))
        for index, weight in self._terms:
            np.add.at(weights, (index, np.arange(len(index))), weight)
        return weights

    @cached_property
    def _scales(self) -> Float[np.ndarray, "4 m"]:
        return np.array([(z.intercept, z.low, z.high, z.factor) for z in self.coordinates]).reshape(-1, 4).T

    @cached_property
    def _logs(self) -> Bool[np.ndarray, " m"]:
        return np.array([z.on_log and not z.of_log for z in self.coordinates])

    @cached_property
    def _exps(self) -> Bool[np.ndarray, " m"]:
        return np.array([z.of_log and not z.on_log for z in self.coordinates])

    @cached_property
    def _names(self) -> list[Any]:
        return [z.terms[0][0] if z.terms else None for z in self.coordinates]
