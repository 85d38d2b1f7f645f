"""The pair sum in the least precision that each entry needs."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.evaluation.extended_pairs import ExtendedPairSum
from mkbo_plugins.core.evaluation.features import EPS
from mkbo_plugins.core.evaluation.pair_sum import PairSum
from mkbo_plugins.core.evaluation.prepared import Prepared, SumForm, batched

SMALLEST = 1e-100
"""Least diagonal that errors are taken relative to."""


@dataclass(frozen=True, eq=False)
class MixedPrepared(Prepared):
    """Points with the relative errors (n,) that the sum in double precision alone would have there."""

    plain: Float[Array, " n"] | None = None


@dataclass(frozen=True, eq=False)
class MixedPairSum(PairSum):
    """The pair sum, in double-double arithmetic for entries whose error would exceed a limit.

    An entry's relative error is the root of the product of those of its points, so that few entries need it where only
    few points cancel badly.

    Parameters
    ----------
    blocks
        As for `PairSum`.
    limit
        Largest relative error of an entry.
    """

    limit: float = 0.0

    name = "mixed pairs"
    from_point = SumForm.from_point

    def prepare(self, X: Float[Array, "n d"]) -> MixedPrepared:
        """Return points (n, d) with their diagonal."""
        xp = array_namespace(X)
        P = super().prepare(X)
        plain = xp.clip(P.error / xp.clip(P.diagonal, SMALLEST, None), None, 1 / SMALLEST)
        diagonal, error, poor = P.diagonal, P.error, plain > self.limit
        if bool(xp.any(poor)):
            finer = self.extended.on_scale(X[poor, :], P.half_log_scale[poor])
            diagonal[poor], error[poor] = finer.diagonal, finer.error
        # What holds for entries, whose other point may be a worse one.
        error = xp.maximum(error, (1 - 4 * EPS) * self.limit * xp.abs(diagonal))
        return MixedPrepared(self, X, P.half_log_scale, diagonal, error, P.truncation, plain=plain)

    def between(self, P: Prepared, Q: Prepared, b: int = 1) -> Float[Array, "b n m"]:
        """Return the mantissas of ``S(x_i * y_j)``, (b, n, m)."""
        assert isinstance(P, MixedPrepared)
        assert isinstance(Q, MixedPrepared)
        xp = array_namespace(P.points)
        gram = super().between(P, Q, b)
        poor = batched(P.plain, b)[:, :, None] * batched(Q.plain, b)[:, None, :] > self.limit**2
        n, m = gram.shape[1:]
        symmetric = P is Q and b == 1
        (places,) = xp.nonzero(xp.reshape(xp.triu(poor) if symmetric else poor, (-1,)))
        wanting = np.array(places.tolist(), dtype=np.int64)  # on the host, wherever the arrays are
        if wanting.size:
            flat = xp.reshape(gram, (-1,))
            flat[wanting] = self.extended.entries(P, Q, wanting // m, wanting // (n * m) * m + wanting % m)
            gram = xp.reshape(flat, gram.shape)
        return xp.triu(gram) + xp.triu(gram, k=1).mT if symmetric else gram

    @cached_property
    def extended(self) -> ExtendedPairSum:
        """The sum in double-double arithmetic."""
        return ExtendedPairSum(self.blocks)
