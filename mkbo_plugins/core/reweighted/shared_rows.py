"""Batches of points told apart into points of one batch alone and points that all batches share.

Acquisition functions evaluate each of many candidates together with the same observed and pending points; what belongs
to these is computed once for all batches.
"""

from dataclasses import dataclass
from functools import cached_property

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
    """

    own: Float[Array, "own d"]
    shared: Float[Array, "shared d"]
    positions: Int[np.ndarray, " n"]
    own_count: int

    @classmethod
    def of(cls, X: Float[Array, "... n d"]) -> "SharedRows":
        """Split points (b, n, d) of b > 0 batches; points (n, d) are shared by any number of batches."""
        xp = array_namespace(X)
        if X.ndim == 2:
            return cls(X[:0, :], X, np.arange(X.shape[0]), 0)
        same = np.array(xp.all(X[:1, ...] == X, axis=(0, 2)).tolist(), dtype=bool)
        own, shared = np.flatnonzero(~same), np.flatnonzero(same)
        flat = xp.reshape(_taken(X, own, axis=1) if len(shared) else X, (-1, X.shape[-1])) if len(own) else X[0, :0, :]
        return cls(flat, _taken(X[0, ...], shared, axis=0), np.concatenate([own, shared]), len(own))

    def spread(
        self, of_own: Shaped[Array, "own ..."] | None, of_shared: Shaped[Array, "shared ..."] | None, b: int
    ) -> Shaped[Array, "b n ..."]:
        """Return values of own points (b k, ...) and of shared ones (m, ...) as (b, n, ...), in order of `positions`.

        The batch axis is 1 where there are no own points.
        """
        if of_own is None:
            assert of_shared is not None
            return of_shared[None, ...]
        xp = array_namespace(of_own)
        own = xp.reshape(of_own, (b, self.own_count, *of_own.shape[1:]))
        if of_shared is None:
            return own
        return xp.concat([own, xp.broadcast_to(of_shared[None, ...], (b, *of_shared.shape))], axis=1)

    def sort(self, values: Float[Array, "*shape"], axis: int) -> Float[Array, "*shape"]:
        """Bring an axis of values for all n points into the order of `positions`."""
        return values if self._in_order else _taken(values, self.positions, axis)

    def restore(self, values: Float[Array, "*shape"], axis: int) -> Float[Array, "*shape"]:
        """Undo `sort`."""
        return values if self._in_order else _taken(values, np.argsort(self.positions), axis)

    @cached_property
    def _in_order(self) -> bool:
        return bool((np.diff(self.positions) == 1).all())


def _taken(values: Float[Array, "..."], index: Int[np.ndarray, " m"], axis: int) -> Float[Array, "..."]:
    xp = array_namespace(values)
    return xp.take(values, xp.asarray(index, device=device(values)), axis=axis)
