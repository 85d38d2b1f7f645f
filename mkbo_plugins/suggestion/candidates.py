"""Where suggested experiments may lie: a list of candidates, or anywhere in a parameter space."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.sobol import sobol_points
from mkbo_plugins.errors import NothingLeftError
from mkbo_plugins.space.parameters import Numeric, Parameter
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.trials import differ, equal_up_to_rounding

SPREAD = 1024
"""Points spread over the space."""

STEPS = (0.1, 0.03, 0.01, 0.003)
"""Widths of random steps, as shares of ranges, by which the best of them are refined."""

CENTRES, NEIGHBOURS = 8, 32
RESOLUTION = 1000
"""Steps that a real parameter's range is divided into, for settings that people can set."""

Merit = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class FiniteCandidates:
    """A list of candidates, each to be tried once; equal ones as often as they are listed.

    Parameters
    ----------
    space
        The parameters.
    points
        Raw points, (M, d).
    """

    space: ParameterSpace
    points: Float[np.ndarray, "M d"]

    @property
    def initial(self) -> Float[np.ndarray, "M d"]:
        """Points that stand for all, (M, d)."""
        return self.points

    def number(self, index: int) -> int | None:
        """Return the number of a candidate to report."""
        return int(index)

    def untried(
        self, tried: Float[np.ndarray, "t d"], n: int
    ) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, "k d"]]:
        """Return numbers and points of candidates not among those tried, at least n of them.

        Raises
        ------
        NothingLeftError
            If there are fewer.
        """
        free = np.ones(len(self.points), dtype=bool)
        for point in tried:
            same = np.flatnonzero(free & equal_up_to_rounding(self.points, point))
            free[same[:1]] = False
        left = np.flatnonzero(free)
        if len(left) < n:
            raise NothingLeftError(_too_few(n, len(left), len(self.points)))
        return left, self.points[left]

    def best(self, merit: Merit, tried: Float[np.ndarray, "t d"], left: int) -> tuple[int, Float[np.ndarray, "1 d"]]:
        """Return number and point (1, d) of the untried candidate of greatest merit."""
        indices, points = self.untried(tried, left)
        i = int(np.argmax(merit(points)))
        return int(indices[i]), points[i : i + 1]


@dataclass(frozen=True, eq=False)
class SpaceCandidates:
    """Points anywhere in a space, searched by points spread over it and random steps from the best of these.

    All keep the constraints of the space.

    Parameters
    ----------
    space
        The parameters.
    seed
        Seed of points and steps.
    """

    space: ParameterSpace
    seed: int

    @cached_property
    def _unit(self) -> Float[np.ndarray, "M d"]:
        return sobol_points(len(self.space.names), SPREAD, self.seed)

    @cached_property
    def initial(self) -> Float[np.ndarray, "M d"]:
        """Points spread over the space, (M, d)."""
        raw = self._raw(self._unit)
        if self._kept:
            draws = self.space.walk.draws(len(raw), np.random.default_rng(self.seed))
            raw[:, self._kept] = self.space.walk.on_steps(draws, self._decimals)
        return raw

    def number(self, index: int) -> int | None:
        """Return None: these candidates have no numbers."""
        return None

    def untried(
        self, tried: Float[np.ndarray, "t d"], n: int
    ) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, "k d"]]:
        """Return numbers and points of different spread points not among those tried, at least n of them.

        Raises
        ------
        NothingLeftError
            If there are fewer.
        """
        _, first = np.unique(self.initial, axis=0, return_index=True)
        kept = np.sort(first)
        kept = kept[differ(self.initial[kept], tried)]
        if len(kept) < n:
            raise NothingLeftError(
                f"{n} experiments are asked for, but only {len(kept)} different ones were found untried"
            )
        return kept, self.initial[kept]

    def best(self, merit: Merit, tried: Float[np.ndarray, "t d"], left: int) -> tuple[int, Float[np.ndarray, "1 d"]]:
        """Return a number without meaning, and the point (1, d) of greatest merit found that was not tried."""
        kept, points = self.untried(tried, left)
        unit, values = self._unit[kept], merit(points)
        rng = np.random.default_rng(self.seed)
        for width in STEPS:
            best = np.argsort(-values)[:CENTRES]
            centres = unit[best]
            steps = rng.normal(0.0, width, (len(centres), NEIGHBOURS, unit.shape[1]))
            near = np.clip(centres[:, None, :] + steps, 0.0, 1 - 1e-12).reshape(-1, unit.shape[1])
            raw = self._raw(near)
            if self._kept:
                around = np.repeat(points[best], NEIGHBOURS, axis=0)[:, self._kept]
                raw[:, self._kept] = self.space.walk.on_steps(self.space.walk.near(around, width, rng), self._decimals)
            fresh = differ(raw, tried)
            if fresh.any():
                unit, points = np.concatenate([unit, near[fresh]]), np.concatenate([points, raw[fresh]])
                values = np.concatenate([values, merit(raw[fresh])])
        i = int(np.argmax(values))
        return i, points[i : i + 1]

    @property
    def _kept(self) -> list[int]:
        """Places of the parameters that constraints name."""
        return list(self.space.constrained)

    @cached_property
    def _decimals(self) -> Int[np.ndarray, " c"]:
        region = self.space.walk.polytope
        return _decimals(region.upper - region.lower)

    def _raw(self, unit: Float[np.ndarray, "M d"]) -> Float[np.ndarray, "M d"]:
        raw = self.space.from_unit(unit)
        return np.column_stack([_settable(p, raw[:, j]) for j, p in enumerate(self.space.parameters)])


def _settable(parameter: Parameter, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Round a real parameter to `RESOLUTION` decimal steps of its range, a logarithmic one to as many of its value."""
    if not isinstance(parameter, Numeric) or parameter.integer:
        return values
    extent = values if parameter.log else np.full_like(values, parameter.upper - parameter.lower)
    rounded = [round(float(v), int(k)) for v, k in zip(values, _decimals(extent), strict=True)]
    return np.clip(rounded, parameter.lower, parameter.upper)


def _decimals(extent: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return the numbers of decimals that divide extents into `RESOLUTION` steps or more."""
    return np.ceil(-np.log10(extent / RESOLUTION)).astype(int)


def _too_few(n: int, left: int, count: int) -> str:
    if not left:
        return "the only candidate has been tried" if count == 1 else f"all {count} candidates have been tried"
    asked = "1 experiment is" if n == 1 else f"{n} experiments are"
    return f"{asked} asked for, but {left} of {count} candidates {'is' if left == 1 else 'are'} left"
