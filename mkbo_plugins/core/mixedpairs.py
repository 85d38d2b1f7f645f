"""The pair sum in the least precision that each entry needs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.features import EPS
from mkbo_plugins.core.pairsum import CompensatedPairSum, ExtendedPairSum
from mkbo_plugins.core.prepared import Prepared

SMALLEST = 1e-100
"""Least diagonal that errors are taken relative to."""

_Entries: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class MixedPrepared(Prepared):
    """Points with the relative errors (..., n) that the compensated sum alone would have there."""

    coarse: Array = None


@dataclass(frozen=True, eq=False)
class MixedPairSum(CompensatedPairSum):
    """The compensated pair sum, with double-double arithmetic for the entries whose error would exceed a limit.

    An entry's relative error is the root of the product of those of its points, so that few entries need it where only
    few points cancel badly.

    Parameters
    ----------
    kernel, points, sign, log_abs, log_low
        As for `PairSum`.
    limit
        Largest relative error of an entry.
    """

    limit: float = 0.0
    name: str = field(default="mixed pairs", init=False)

    def prepare(self, X: Array) -> MixedPrepared:
        """Return points (..., n, d) with their diagonal."""
        xp = array_namespace(X)
        P = super().prepare(X)
        ones = xp.ones_like(P.diagonal)
        coarse = xp.minimum(P.error / xp.maximum(P.diagonal, SMALLEST * ones), ones / SMALLEST)
        diagonal, error = (xp.asarray(part, copy=True) for part in (P.diagonal, P.error))
        wanting = coarse > self.limit
        if bool(xp.any(wanting)):
            fine = self.extended.prepare(X[wanting])
            diagonal[wanting], error[wanting] = fine.diagonal, fine.error
        # What holds for entries, whose other point may be a worse one.
        error = xp.maximum(error, (1 - 4 * EPS) * self.limit * xp.abs(diagonal))
        return MixedPrepared(X, P.half_log_scale, diagonal, error, P.truncation, None, coarse)

    def between(self, P: Prepared, Q: Prepared) -> Array:
        """Return the mantissas of ``S(x_i * y_j)``, (..., n, n')."""
        product = self._coarse(P)[..., :, None] * self._coarse(Q)[..., None, :]
        n, m = product.shape[-2:]

        def entries(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return flat // m, flat // (n * m) * m + flat % m

        return self._mended(super().between(P, Q), P, Q, product, entries)

    def rowwise(self, P: Prepared, Q: Prepared) -> Array:
        """Return the mantissas of ``S(x_i * y_i)``, (..., n)."""
        return self._mended(super().rowwise(P, Q), P, Q, self._coarse(P) * self._coarse(Q), lambda flat: (flat, flat))

    def _mended(self, found: Array, P: Prepared, Q: Prepared, product: Array, entries: _Entries) -> Array:
        """Return values with those computed again whose product of relative errors is too large."""
        xp = array_namespace(found)
        wanting = xp.reshape(product > self.limit**2, (-1,))
        if not bool(xp.any(wanting)):
            return found
        flat = xp.asarray(xp.reshape(found, (-1,)), copy=True)
        flat[wanting] = self.extended.entries(P, Q, *entries(np.flatnonzero(np.asarray(wanting))))
        return xp.reshape(flat, found.shape)

    @staticmethod
    def _coarse(P: Prepared) -> Array:
        """Return the relative errors (..., n) that the compensated sum alone has at points made ready."""
        assert isinstance(P, MixedPrepared)
        return P.coarse

    @cached_property
    def extended(self) -> ExtendedPairSum:
        """The sum in double-double arithmetic."""
        return ExtendedPairSum(self.kernel, self.points, self.sign, self.log_abs, self.log_low)
