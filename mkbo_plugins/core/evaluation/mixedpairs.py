"""The pair sum in the least precision that each entry needs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.evaluation.features import EPS
from mkbo_plugins.core.evaluation.pairsum import CompensatedPairSum, ExtendedPairSum, PairSum
from mkbo_plugins.core.evaluation.prepared import Prepared

SMALLEST = 1e-100
"""Least diagonal that errors are taken relative to."""

_Entries: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class MixedPrepared(Prepared):
    """Points with the relative errors (..., n) that the plain and the compensated sum alone would have there."""

    plain: Array = None
    compensated: Array = None


@dataclass(frozen=True, eq=False)
class MixedPairSum(PairSum):
    """The plain pair sum, compensated or in double-double arithmetic for entries whose error would exceed a limit.

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
        P, finer = super().prepare(X), self.compensated.prepare(X)
        plain, compensated = _relative_error(P), _relative_error(finer)
        diagonal, error = (
            xp.where(plain > self.limit, better, found)
            for found, better in ((P.diagonal, finer.diagonal), (P.error, finer.error))
        )
        wanting = compensated > self.limit
        if bool(xp.any(wanting)):
            finest = self.extended.prepare(X[wanting])
            diagonal[wanting], error[wanting] = finest.diagonal, finest.error
        # What holds for entries, whose other point may be a worse one.
        error = xp.maximum(error, (1 - 4 * EPS) * self.limit * xp.abs(diagonal))
        return MixedPrepared(X, P.half_log_scale, diagonal, error, P.truncation, None, plain, compensated)

    def between(self, P: Prepared, Q: Prepared) -> Array:
        """Return the mantissas of ``S(x_i * y_j)``, (..., n, n')."""
        xp = array_namespace(P.points)
        poor, poorer = (of_x[..., :, None] * of_y[..., None, :] > self.limit**2 for of_x, of_y in _errors(P, Q))
        n, m = poor.shape[-2:]

        def entries(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return flat // m, flat // (n * m) * m + flat % m

        found = super().between(P, Q)
        if P is not Q or P.points.ndim > 2:
            return self._mended(found, P, Q, poor, poorer, entries)
        upper = xp.triu(self._mended(found, P, Q, xp.triu(poor), xp.triu(poorer), entries))
        return upper + xp.matrix_transpose(xp.triu(upper, k=1))

    def rowwise(self, P: Prepared, Q: Prepared) -> Array:
        """Return the mantissas of ``S(x_i * y_i)``, (..., n)."""
        poor, poorer = (of_x * of_y > self.limit**2 for of_x, of_y in _errors(P, Q))
        return self._mended(super().rowwise(P, Q), P, Q, poor, poorer, lambda flat: (flat, flat))

    def _mended(self, found: Array, P: Prepared, Q: Prepared, poor: Array, poorer: Array, entries: _Entries) -> Array:
        """Return values with those computed again for which the plain or even the compensated sum is too poor."""
        xp = array_namespace(found)
        flat = xp.asarray(xp.reshape(found, (-1,)), copy=True)
        for form, wanting in ((self.compensated, poor & ~poorer), (self.extended, poorer)):
            index = np.flatnonzero(np.asarray(wanting))
            if index.size:
                flat[index] = form.entries(P, Q, *entries(index))
        return xp.reshape(flat, found.shape)

    @cached_property
    def compensated(self) -> CompensatedPairSum:
        """The sum with exponents beyond double precision."""
        return CompensatedPairSum(self.kernel, self.points, self.sign, self.log_abs, self.log_low)

    @cached_property
    def extended(self) -> ExtendedPairSum:
        """The sum in double-double arithmetic."""
        return ExtendedPairSum(self.kernel, self.points, self.sign, self.log_abs, self.log_low)


def _relative_error(P: Prepared) -> Array:
    """Return errors (..., n) relative to the diagonal, finite ones."""
    xp = array_namespace(P.diagonal)
    ones = xp.ones_like(P.diagonal)
    return xp.minimum(P.error / xp.maximum(P.diagonal, SMALLEST * ones), ones / SMALLEST)


def _errors(P: Prepared, Q: Prepared) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the relative errors at both points of the plain sum, and of the compensated one."""
    assert isinstance(P, MixedPrepared)
    assert isinstance(Q, MixedPrepared)
    return (P.plain, Q.plain), (P.compensated, Q.compensated)
