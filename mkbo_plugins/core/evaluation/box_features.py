"""Explicit features of a re-weighted kernel in boxes around the frame, made when they are first asked for."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.evaluation.damped_truncation import without_small
from mkbo_plugins.core.evaluation.feature_sum import FeatureSum
from mkbo_plugins.core.evaluation.features import Weights, monomial_weights
from mkbo_plugins.core.evaluation.monomials import Monomials
from mkbo_plugins.core.evaluation.truncation import truncate
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints

RADII = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Half-widths of the boxes, in half-widths of the frame, for which features are looked for."""

SEARCH_RADII = (1.0, 1.1, 1.25, *RADII[1:])
"""The same for a search, whose points are all in one box: the numbers of features grow fast with its width."""

SLACK = 1 + 1e-6
"""Largest coordinate in the box of a search, in its half-widths, where hosts round on the way from their inputs to the
frame, often to single precision; what is left out of features grows by as little."""

LOG_LARGEST = 300.0
"""Logarithm of the largest monomial, whose square is still a number."""

MAX_MONOMIALS = 300_000
"""Number of features that is never exceeded; 2.4 MB for each point."""

CUT_SHARE = 0.25
"""Share of the tolerance that features left out since they are small beside the unit may take together."""


def largest_coordinate(*sets: Float[Array, "_n d"]) -> float:
    """Return the largest absolute coordinate of sets of points, (n, d) each, 0 where there are none."""
    xp = array_namespace(*sets)
    return max([float(xp.max(xp.abs(Z))) if math.prod(Z.shape) else 0.0 for Z in sets])


def smallest_box(reach: float, radii: Sequence[float] = RADII) -> float | None:
    """Return the half-width of the smallest of some boxes with a coordinate in it, None where there is none."""
    index = bisect_left(radii, reach)
    return radii[index] if index < len(radii) else None


@dataclass(frozen=True, eq=False)
class BoxFeatures:
    """The features of a re-weighted kernel, for each box around the frame those that meet a tolerance in it.

    Parameters
    ----------
    base, tables, tolerance, unit
        As for `CertifiedEvaluator`.
    most
        Number of features from which on they are too many.
    """

    base: FreeKernel
    tables: Sequence[WeightedPoints]
    tolerance: float
    unit: float | None
    most: int
    _made: dict[tuple[float, bool, bool], FeatureSum | None] = field(default_factory=dict, init=False, repr=False)

    def within(self, radius: float = 1.0, *, precise: bool = False, costly: bool = False) -> FeatureSum | None:
        """Return the features of a box around the frame, or None where they would be too many.

        Parameters
        ----------
        radius
            Half-width of the box, in half-widths of the frame.
        precise
            Compute their weights in double-double arithmetic in any case, not only where terms cancel at large.
        costly
            The precise ones also where the pair sum costs less, up to `MAX_MONOMIALS`.
        """
        key = (radius, precise, costly)
        if key not in self._made:
            if costly:
                self._made[key] = self._refine(self._build(radius, MAX_MONOMIALS))
            elif precise:
                self._made[key] = self._refine(self.within(radius))
            else:
                self._made[key] = self._cut(self._build(radius, self.most), radius)
        return self._made[key]

    def _build(self, radius: float, limit: int) -> FeatureSum | None:
        if not self.tables:
            return None
        tolerance = 0.0 if self.base.exponent_rate is None else self.tolerance
        truncation = truncate(self.base, self._scaled_tables, radius, tolerance, limit)
        if truncation is None:
            return None
        monomials, weights, charges = truncation
        if self._cancels(weights, monomials.degrees, radius):
            weights = monomial_weights(self.base, self._scaled_tables, monomials.exponents, extended=True)
        return self._assemble(monomials, weights, charges)

    def _cut(self, features: FeatureSum | None, radius: float) -> FeatureSum | None:
        """Return features without those that are nothing beside the unit, if there is one and points are in a box."""
        if features is None or self.unit is None or self.base.exponent_rate is None:
            return features
        return without_small(features, self.base, radius, CUT_SHARE * self.tolerance * self.unit)

    def _refine(self, features: FeatureSum | None) -> FeatureSum | None:
        """Return features with weights computed in double-double arithmetic."""
        if features is None:
            return None
        weights = monomial_weights(self.base, self._scaled_tables, features.monomials.exponents, extended=True)
        unit = math.exp(features.log_unit - self._log_scale)
        return self._assemble(features.monomials, weights, features.charges * unit**2)

    def _assemble(self, monomials: Monomials, weights: Weights, charges: Float[np.ndarray, " M"]) -> FeatureSum:
        unit = float(np.abs(weights.value).max()) or 1.0
        log_unit = math.log(unit) + self._log_scale
        return FeatureSum(
            monomials, weights.value / unit, weights.error_of_squares / unit**2, charges / unit**2, log_unit
        )

    @cached_property
    def _powers(self) -> list[int]:
        """Powers of two just above each table's largest coefficient."""
        return [int(np.frexp(np.abs(table.alpha).max())[1]) for table in self.tables]

    @cached_property
    def _scaled_tables(self) -> list[WeightedPoints]:
        """Tables with coefficients up to one, so that no square of a feature weight overflows."""
        return [
            WeightedPoints(table.points, np.ldexp(table.alpha, -power))
            for table, power in zip(self.tables, self._powers, strict=True)
        ]

    @property
    def _log_scale(self) -> float:
        """Logarithm of the unit of feature weights from `_scaled_tables`."""
        return sum(self._powers) * math.log(2)

    def _cancels(self, weights: Weights, degrees: Int[np.ndarray, " M"], radius: float) -> bool:
        """Return whether rounding of the weights matters somewhere on a diagonal of the box."""
        shares = radius * np.geomspace(1e-3, 1.0, 13)
        powers = np.exp(2 * degrees * np.log(shares)[:, None])
        return bool((powers @ weights.error_of_squares > self.tolerance / 10 * (powers @ weights.value**2)).any())
