"""Batches of points, of which some are the same in every batch.

Acquisition functions evaluate each of many candidates jointly with one and the same set of observed and pending points.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from array_api_compat import array_namespace, device

from mkbo_plugins.core.arrays import Array


@dataclass(frozen=True, eq=False)
class Batches:
    """Points (b, n, d): in every batch k points of its own, and the rest, which all batches have in common.

    Parameters
    ----------
    own
        Points of each batch alone, (b, k, d).
    common
        Points of all batches, (n - k, d).
    positions
        Positions among n of the k own points, followed by those of the common ones, (n,).
    """

    own: Array
    common: Array
    positions: np.ndarray

    @classmethod
    def of(cls, X: Array) -> "Batches":
        """Tell points (b, n, d) with b > 0 apart; points (n, d) are common to any number of batches."""
        xp = array_namespace(X)
        if X.ndim == 2:
            return cls(X[None, :0, :], X, np.arange(X.shape[0]))
        same = np.array(xp.all(X[:1, ...] == X, axis=(0, 2)).tolist(), dtype=bool)
        if not same.any():
            return cls(X, X[0, :0, :], np.arange(same.size))
        own, common = np.flatnonzero(~same), np.flatnonzero(same)
        return cls(_taken(X, own, axis=1), _taken(X[0, ...], common, axis=0), np.concatenate([own, common]))

    @property
    def flat(self) -> Array:
        """The own points of all batches, (b k, d)."""
        return array_namespace(self.own).reshape(self.own, (-1, self.own.shape[-1]))

    def sort(self, values: Array, axis: int) -> Array:
        """Bring an axis of values for all n points into the order of `positions`."""
        return values if self._in_order else _taken(values, self.positions, axis)

    def restore(self, values: Array, axis: int) -> Array:
        """Undo `sort`."""
        return values if self._in_order else _taken(values, np.argsort(self.positions), axis)

    @cached_property
    def _in_order(self) -> bool:
        return bool((np.diff(self.positions) == 1).all())


def _taken(values: Array, index: np.ndarray, axis: int) -> Array:
    xp = array_namespace(values)
    return xp.take(values, xp.asarray(index, device=device(values)), axis=axis)
