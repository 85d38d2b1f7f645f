"""The terms of a pair sum, a block of them at a time, and what is known of them before any point is."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.arrays import Array, chunks, constant
from mkbo_plugins.core.evaluation import doubledouble as dd
from mkbo_plugins.core.evaluation.features import extended_log_damping, extended_products
from mkbo_plugins.core.evaluation.pair_terms import PairTerms, concatenate, merge
from mkbo_plugins.core.evaluation.prepared import MAX_ENTRIES
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints

SCALE_STEPS = 1 << 10
"""Logarithmic scales are multiples of its inverse, so that their sums and differences are exact."""

SPREAD = 0.35
"""Largest number by which a logarithm of a coefficient is shifted; e to twice this is 2, as exponentials repeat."""

BLOCK_PAIRS = 1 << 11
"""Pairs of one block."""

WIDE_EXPONENT, WIDE_BLOCK_PAIRS = 100.0, 1 << 14
"""Largest exponent of one coordinate in the frame from which on most terms vanish at most points, and pairs of one
block then."""


class Block(NamedTuple):
    """Terms of a pair sum in double precision."""

    pairs: Float[Array, "p k"]
    """Products, rounded logarithms of coefficients and ones, (p, d + 2)."""
    factors: Float[Array, " p"]
    """The factors of either sign that the coefficients lack, (p,)."""
    common: Float[Array, "p k"]
    """What is multiplied by |u| and by whether some coordinate of u is zero, or none, to get the rounding errors of the
    exponent that other terms share, times the roots of their numbers, in units of one operation's, (p, d + 2)."""


class Origin(NamedTuple):
    """S(0), the square of the sum of all coefficients, in units of the square of the largest."""

    value: dd.DoubleDouble
    error: float


@dataclass(frozen=True, eq=False)
class PairBlocks:
    """Unordered pairs of weighted points, those of equal products as one term, in blocks of bounded memory.

    Parameters
    ----------
    kernel
        The free kernel whose series h is summed.
    points
        Weighted points z_i, (N, d).
    sign
        Signs of their coefficients c_i, (N,), each -1 or 1.
    log_abs
        Logarithms of the coefficients' absolute values, (N,).
    """

    kernel: FreeKernel
    points: Float[np.ndarray, "N d"]
    sign: Float[np.ndarray, " N"]
    log_abs: dd.DoubleDouble

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again, so that copies and pickles stay small."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def pairs(self) -> int:
        """Number of unordered pairs."""
        return self.points.shape[0] * (self.points.shape[0] + 1) // 2

    @cached_property
    def terms(self) -> int:
        """Number of terms, at most that of pairs."""
        return self.pairs if self.merged is None else len(self.merged.sign)

    @cached_property
    def unit(self) -> float:
        """About the logarithm of the largest coefficient, rounded up; those of all coefficients are relative to it."""
        return math.ceil(float(self.log_abs.hi.max()) * SCALE_STEPS) / SCALE_STEPS

    @cached_property
    def reach(self) -> Float[np.ndarray, " d"]:
        """Bounds on the absolute products of any pair, (d,)."""
        # No pair has larger products than one of its points has with itself.
        products = np.asarray(self.kernel.weighted(self.points)) * self.points
        return (self.kernel.exponent_rate or 1.0) * products.max(axis=0)

    @cached_property
    def widest(self) -> int | None:
        """Coordinate of so large exponents that most terms vanish at most points, None where there is none."""
        if self.kernel.exponent_rate is None or self.reach.max() <= WIDE_EXPONENT:
            return None
        return int(self.reach.argmax())

    @cached_property
    def origin(self) -> Origin:
        """The sum at the middle of the frame, of an exponential series."""
        logs = dd.add(self.log_abs, dd.from_double(np.full_like(self.sign, -self.unit)))
        coefficients = dd.scale(dd.exp(logs), self.sign)
        total = dd.sum_axis(coefficients, 0)
        # Errors of logarithms, exponentials and of the sum by halves.
        relative = 2.0**-104 * (100 + 2 * np.abs(self.log_abs.hi) + abs(self.unit))
        lost = float(relative @ np.abs(coefficients.hi))
        return Origin(dd.multiply(total, total), (2 * abs(float(total.hi)) + lost) * lost)

    def rounded(self, like: Array) -> Iterator[Block]:
        """Yield the terms in double precision as arrays like `like`."""
        for block in self._stored if self._stored is not None else self._rounded():
            yield Block(*(constant(part, like) for part in block))

    def extended(self, like: Array) -> Iterator[PairTerms]:
        """Yield the terms in double-double arithmetic as arrays like `like`."""
        for products, log_size, sign in self._extended():
            yield PairTerms(products.like(like), log_size.like(like), constant(sign, like))

    @cached_property
    def merged(self) -> PairTerms | None:
        """All terms where they are few enough to be kept, those of equal products as one."""
        if self.pairs * (self.points.shape[1] + 3) > MAX_ENTRIES:
            return None
        return merge(concatenate(list(self._unmerged())))

    @cached_property
    def _stored(self) -> list[Block] | None:
        return None if self.merged is None else list(self._rounded())

    def _rounded(self) -> Iterator[Block]:
        rng = np.random.default_rng(0)
        for (products, log_size, sign), copies in zip(self._extended(), self._copies(), strict=True):
            common = _common(np.abs(products.hi), copies)
            # On the grid of the scales, so that their sum is exact, and at random, so that equal coefficients and near
            # exponents of many terms share no rounding error: exponentials of near numbers err alike.
            rounded = np.round((log_size.hi + rng.uniform(-SPREAD, SPREAD, len(sign))) * SCALE_STEPS) / SCALE_STEPS
            factor = dd.exp(dd.add(log_size, dd.from_double(-rounded))).hi
            yield Block(np.column_stack([products.hi, rounded, np.ones(len(sign))]), sign * factor, common)

    def _copies(self) -> Iterator[Int[np.ndarray, "p d"]]:
        """Yield the numbers of terms that share each coordinate's product, a block of terms at a time."""
        if self.merged is not None:
            counts = np.column_stack([_repeats(column) for column in np.abs(self.merged.products.hi).T])
            yield from (counts[run] for run in self._runs())
        else:
            # Terms of two points each with the value of others are as many as the product of their numbers.
            counts = np.column_stack([_repeats(column) for column in np.abs(self.points).T])
            yield from (counts[i] * counts[j] for i, j in self._pair_indices())

    def _extended(self) -> Iterator[PairTerms]:
        if self.merged is None:
            yield from self._unmerged()
        else:
            yield from (self.merged.select(run) for run in self._runs())

    def _runs(self) -> list[slice]:
        return chunks(self.terms, BLOCK_PAIRS if self.widest is None else WIDE_BLOCK_PAIRS)

    def _unmerged(self) -> Iterator[PairTerms]:
        """Yield the terms of pairs, a block of them at a time."""
        log_two = dd.log(np.array([2.0]))
        for i, j in self._pair_indices():
            products = extended_products(self.kernel, self.points[i], self.points[j])
            log_size = dd.add(self.log_abs.at(i), self.log_abs.at(j))
            # The unit is taken off before rounding to double, so that no digits are spent on it.
            log_size = dd.add(log_size, dd.from_double(np.full(len(i), -2 * self.unit)))
            # Two different points are a pair in either order.
            twice = np.where(i == j, 0.0, 1.0)
            log_size = dd.add(log_size, dd.scale(log_two, twice))
            yield PairTerms(products, log_size, self.sign[i] * self.sign[j])

    def _pair_indices(self) -> Iterator[tuple[Int[np.ndarray, " p"], Int[np.ndarray, " p"]]]:
        """Yield indices of the unordered pairs of points, a block of them at a time."""
        count = self.points.shape[0]
        # Places in the triangle follow from running numbers, so that no array of all pairs is needed.
        starts = np.concatenate([[0], np.cumsum(np.arange(count, 0, -1))])
        # In random order few neighbours have one sign, so that partial sums stay small.
        order = np.random.default_rng(0).permutation(count)
        for start in range(0, self.pairs, BLOCK_PAIRS):
            flat = np.arange(start, min(start + BLOCK_PAIRS, self.pairs))
            i = np.searchsorted(starts, flat, side="right") - 1
            yield order[i], order[i + flat - starts[i]]


def compose(base: FreeKernel, tables: tuple[WeightedPoints, ...], dimension: int) -> PairBlocks:
    """Return the pairs of all products of the tables' points: a chain of re-weightings is one by these."""
    points, sign = np.ones((1, dimension)), np.ones(1)
    log_abs = dd.from_double(np.zeros(1))
    for table in tables:
        used = table.alpha != 0
        z, alpha = table.points[used], table.alpha[used]
        points = (points[:, None, :] * z[None, :, :]).reshape(-1, dimension)
        sign = np.multiply.outer(sign, np.sign(alpha)).ravel()
        # Products of coefficients of several tables, and their damping, might overflow or vanish.
        logs = dd.log(np.abs(alpha))
        if base.damping_rate:
            logs = dd.add(logs, extended_log_damping(base, z))
        grown = dd.add(log_abs.at((slice(None), None)), logs.at((None, slice(None))))
        log_abs = dd.DoubleDouble(grown.hi.ravel(), grown.lo.ravel())
    return PairBlocks(base, points, sign, log_abs)


def _common(products: Float[np.ndarray, "p d"], copies: Int[np.ndarray, "p d"]) -> Float[np.ndarray, "p k"]:
    """Return the last part of a block of products >= 0 (p, d), copies of each of which are in the sum, (p, d)."""
    # Nothing is rounded where a product is zero.
    rounds = products > 0
    each = np.where(rounds, copies, 0)
    of_any = each.sum(axis=1)
    of_all = np.where(rounds.any(axis=1), np.where(rounds, copies, of_any[:, None]).min(axis=1), 1)
    # A product is rounded, as is its double, and its sum with others; the sum of all when the coefficient is added.
    sizes = products * (2 * np.sqrt(each) + np.sqrt(of_any)[:, None])
    return np.column_stack([sizes, SPREAD * np.sqrt(of_any), SPREAD * np.sqrt(of_all)])


def _repeats(values: Float[np.ndarray, " p"]) -> Int[np.ndarray, " p"]:
    """Return how often the value of each entry occurs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return count[place]
