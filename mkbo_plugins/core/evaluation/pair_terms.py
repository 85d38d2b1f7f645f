"""The terms of a pair sum: equal ones merged, and those that count at given points."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.evaluation import doubledouble as dd
from mkbo_plugins.core.evaluation.features import EPS

ROWS = 256
"""Points that share the terms that count for any of them."""


class PairTerms(NamedTuple):
    """Terms ``sign * exp(log_size) * h(<products, u>)`` of a sum over pairs of points."""

    products: dd.DoubleDouble
    """Weighted products of the points of each pair, over sigma for exponential series, (p, d)."""
    log_size: dd.DoubleDouble
    """Logarithms of the absolute coefficients, (p,)."""
    sign: Float[np.ndarray, " p"]
    """Signs of the coefficients, (p,)."""

    def select(self, index: slice | np.ndarray) -> "PairTerms":
        """Return some of the terms."""
        return PairTerms(self.products.at(index), self.log_size.at(index), self.sign[index])


def concatenate(parts: list[PairTerms]) -> PairTerms:
    """Return the terms of all parts."""
    products, log_size = (
        dd.DoubleDouble(*(np.concatenate(arrays) for arrays in zip(*numbers, strict=True)))
        for numbers in zip(*(part[:2] for part in parts), strict=True)
    )
    return PairTerms(products, log_size, np.concatenate([part.sign for part in parts]))


def merge(terms: PairTerms) -> PairTerms:
    """Return one term for all of equal products, as there are many where coordinates take few values.

    Coefficients are summed in double-double arithmetic; terms that cancel are left out.
    """
    columns = np.concatenate(terms.products, axis=1)
    _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(columns):
        return terms
    order = np.argsort(group, kind="stable")
    group = group[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    largest = np.maximum.reduceat(terms.log_size.hi[order], starts)
    relative = dd.add(terms.log_size.at(order), dd.from_double(-largest[group]))
    total = _sums(dd.scale(dd.exp(relative), terms.sign[order]), group)
    nonzero = total.hi != 0
    if not nonzero.any():
        return terms
    total, largest = total.at(nonzero), largest[nonzero]
    low = dd.from_double(total.lo / total.hi)
    log_size = dd.add(dd.add(dd.log(np.abs(total.hi)), low), dd.from_double(largest))
    merged = PairTerms(terms.products.at(first[nonzero]), log_size, np.sign(total.hi))
    # In the order of pairs again, whose partial sums stay small.
    return merged.select(np.argsort(first[nonzero]))


def significant_terms(
    arguments: Float[Array, "m k"], pairs: Float[Array, "p k"], column: int, least: float
) -> Iterator[tuple[Int[Array, " rows"], Int[Array, " terms"]]]:
    """Yield indices of points, and of the pairs whose exponents may exceed a number for any of them.

    Parameters
    ----------
    arguments, pairs
        Factors (m, k) and (p, k) of the exponents ``arguments @ pairs^T``.
    column
        The column by which points are put together.
    least
        The number.
    """
    xp = array_namespace(arguments)
    order = xp.argsort(arguments[:, column])
    zero = xp.zeros_like(pairs)
    positive, negative = xp.maximum(pairs, zero), xp.minimum(pairs, zero)
    for start in range(0, arguments.shape[0], ROWS):
        rows = order[start : start + ROWS]
        near = xp.take(arguments, rows, axis=0)
        # The largest exponent over the box that these points span.
        bound = positive @ xp.max(near, axis=0) + negative @ xp.min(near, axis=0)
        rounding = 8 * EPS * (xp.abs(pairs) @ xp.max(xp.abs(near), axis=0))
        significant = xp.nonzero(bound + rounding > least)[0]
        if significant.shape[0]:
            yield rows, significant


def _sums(values: dd.DoubleDouble, group: Int[np.ndarray, " p"]) -> dd.DoubleDouble:
    """Return the sums of values (p,) of each group, whose members follow one another, by halves."""
    while True:
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        if len(starts) == len(group):
            return values
        rank = np.arange(len(group)) - starts[np.searchsorted(starts, np.arange(len(group)), side="right") - 1]
        left = np.flatnonzero(rank % 2 == 0)
        right = np.minimum(left + 1, len(group) - 1)
        partner = (right != left) & (group[right] == group[left])
        values = dd.add(values.at(left), dd.scale(values.at(right), partner.astype(float)))
        group = group[left]
