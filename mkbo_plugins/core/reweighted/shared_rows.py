"""Batches of points told apart into points of one batch alone and points that all batches share.

Acquisition functions evaluate each of many candidates together with the same observed and pending points; what belongs
to these is computed once for all batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from array_api_compat import device
from jaxtyping import Float, Int, Shaped

from mkbo_plugins.core.arrays import Array, array_namespace


@dataclass(frozen=True, eq=False)
class SharedRows:
    """Points of b batches, (b, n, d): k in each that it has for itself, and n - k that are the same in all.

    Parameters
    ----------
    own
        Points of one batch alone, one batch after the other, (b k, d).
    shared
        Points of all batches, (n - k, d).
    positions
        Where in a batch its k own points stand, followed by where the shared ones do, (n,).
    own_count
        Number k of own points in a batch.
    in_order
        Whether own points come first in a batch, and both kinds in their order.
    """

    own: Float[Array, "own d"]
    shared: Float[Array, "shared d"]
    positions: Int[np.ndarray, " n"]
    own_count: int
    in_order: bool

    @classmethod
    def of(cls, X: Float[Array, "... n d"]) -> "SharedRows":
        """Split points (b, n, d) of b > 0 batches; points (n, d) are shared by any number of batches."""
        xp = array_namespace(X)
        if X.ndim == 2:
            return cls(X[:0, :], X, np.arange(X.shape[0]), 0, in_order=True)
        same = np.array(xp.all(X[:1, ...] == X, axis=(0, 2)).tolist(), dtype=bool)
        own, shared = np.flatnonzero(~same), np.flatnonzero(same)
        flat = xp.reshape(_taken(X, own, axis=1) if len(shared) else X, (-1, X.shape[-1])) if len(own) else X[0, :0, :]
        positions = np.concatenate([own, shared])
        in_order = bool((np.diff(positions) == 1).all())
        return cls(flat, _taken(X[0, ...], shared, axis=0), positions, len(own), in_order)

    def spread(
        self,
        of_own: Sequence[Shaped[Array, "own ..."]] | None,
        of_shared: Sequence[Shaped[Array, "shared ..."]] | None,
        b: int,
    ) -> list[Shaped[Array, "b n ..."]]:
        """Return values of own points (b k, ...) and of shared ones (m, ...) as (b, n, ...), in order of `positions`.

        The batch axis is 1 where there are no own points.
        """
        if of_own is None:
            assert of_shared is not None
            return [values[None, ...] for values in of_shared]
        xp = array_namespace(*of_own)
        own = [xp.reshape(values, (b, self.own_count, *values.shape[1:])) for values in of_own]
        if of_shared is None:
            return own
        shared = [xp.broadcast_to(values[None, ...], (b, *values.shape)) for values in of_shared]
        return [xp.concat(both, axis=1) for both in zip(own, shared, strict=True)]

    def sort(self, values: Float[Array, "*shape"], axis: int) -> Float[Array, "*shape"]:
        """Bring an axis of values for all n points into the order of `positions`."""
        return values if self.in_order else _taken(values, self.positions, axis)

    def restore(self, values: Float[Array, "*shape"], axis: int) -> Float[Array, "*shape"]:
        """Undo `sort`."""
        return values if self.in_order else _taken(values, np.argsort(self.positions), axis)


def _taken(values: Float[Array, "..."], index: Int[np.ndarray, " m"], axis: int) -> Float[Array, "..."]:
    xp = array_namespace(values)
    return xp.take(values, xp.asarray(index, device=device(values)), axis=axis)
