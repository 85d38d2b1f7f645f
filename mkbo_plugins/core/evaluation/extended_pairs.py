"""The pair sum of an exponential series in double-double arithmetic."""

import math
from dataclasses import dataclass

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.evaluation import doubledouble as dd
from mkbo_plugins.core.evaluation.pair_sum import PairedPoints, PairSum
from mkbo_plugins.core.evaluation.prepared import SumForm

EXTENDED_NEAR = 2.0**-16
"""Exponents near zero, as `NEAR` of `pair_sum`, in this arithmetic."""


@dataclass(frozen=True, eq=False)
class ExtendedPairSum(PairSum):
    """The pair sum of an exponential series in double-double arithmetic, about a hundred times as slow."""

    name = "extended pairs"
    from_point = SumForm.from_point

    def _sum_far(self, met: PairedPoints) -> Float[Array, " m"]:
        xp = array_namespace(met.left)
        U, scale = dd.two_product(met.left, met.right), dd.two_sum(-met.half_left, -met.half_right)
        total = dd.from_double(xp.zeros_like(met.half_left))
        # Which terms vanish is told well enough by the leading parts.
        arguments = self._arguments(U.hi, -scale.hi)
        for products, log_size, sign in self.blocks.extended(met.left):
            pairs = xp.concat([products.hi, log_size.hi[:, None], xp.ones_like(sign[:, None])], axis=1)
            for rows, index in self._meetings(arguments, pairs):
                exponent = dd.dot(U.at(rows), products.at(index))
                exponent = dd.add(exponent, log_size.at((None, index)))
                exponent = dd.add(exponent, scale.at((rows, None)))
                summed = dd.sum_axis(dd.scale(dd.exp(exponent), sign[index]), 1)
                total.hi[rows], total.lo[rows] = dd.add(total.at(rows), summed)
        return total.hi

    def _sum_near(self, met: PairedPoints) -> Float[Array, " m"]:
        U, scale = dd.two_product(met.left, met.right), dd.two_sum(-met.half_left, -met.half_right)
        total = dd.from_double(array_namespace(met.left).zeros_like(met.half_left))
        for products, log_size, sign in self.blocks.extended(met.left):
            coefficients = dd.scale(dd.exp(log_size), sign).at((None, slice(None)))
            for rows in self._row_chunks(met.left):
                terms = dd.multiply(dd.expm1(dd.dot(U.at(rows), products)), coefficients)
                total.hi[rows], total.lo[rows] = dd.add(total.at(rows), dd.sum_axis(terms, 1))
        total = dd.add(total, self.blocks.origin.value.like(met.left))
        return dd.multiply(total, dd.exp(scale)).hi

    @property
    def _near(self) -> float:
        return EXTENDED_NEAR

    def _relative_error(self, exponents: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return (100 + exponents) * (1e-29 * math.sqrt(self.pairs))

    @property
    def _unit_error(self) -> float:
        return 2.0**-104

    @property
    def _left_out(self) -> float:
        return 1e-32
