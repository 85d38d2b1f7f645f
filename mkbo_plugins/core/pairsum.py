"""The exact pair sum of a re-weighted kernel, in log-scaled blocks of bounded memory.

``S(u) = sum_ij c_i c_j h(<<z_i, z_j, u>>)`` over the weighted points (c_i, z_i). Every product is evaluated once per
unordered pair of points. For exponential series the sum is kept as ``mantissa * exp(log_scale)``, the scale being the
largest exponent, so neither far points nor small length scales overflow or vanish.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace, device

from mkbo_plugins.core.arrays import Array, constant, pairwise_shape
from mkbo_plugins.core.kernels import FreeKernel

BLOCK_ENTRIES = 1 << 17
"""Entries of one block of exponentials; 1 MiB, so that a block stays in the cache."""

MAX_ENTRIES = 1 << 23
"""Entries of the largest temporary or cached array, 64 MiB."""


class ScaledSum(NamedTuple):
    """A sum ``mantissa * exp(log_scale)``; `absolute` is that of its absolute terms, each times its rounding error."""

    mantissa: Array
    absolute: Array
    log_scale: Array

    def rounding_bound(self) -> Array:
        """Return a bound on the rounding error of `mantissa`, of its shape.

        Each term carries the rounding of the numbers that add up to its exponent, relative to their size, and the
        summation adds a few units more; all are relative to the absolute terms.
        """
        return 4 * float(array_namespace(self.mantissa).finfo(self.mantissa.dtype).eps) * self.absolute


class Evaluator(Protocol):
    """What the formulas of a re-weighted kernel need of an evaluator of S(u)."""

    def pointwise(self, U: Array) -> ScaledSum:
        """Return S at points U (..., d), each result of shape (...)."""

    def pairwise(self, X: Array, Y: Array) -> ScaledSum:
        """Return S(X_i * Y_j), each result (..., n, n'), for X (..., n, d) and Y (..., n', d)."""

    def symmetric(self, X: Array) -> ScaledSum:
        """Return ``pairwise(X, X)`` for X (..., n, d), exactly symmetric."""


@dataclass(frozen=True, eq=False)
class PairSum:
    """Evaluator of S(u) by the exact sum over pairs of weighted points.

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
    points: np.ndarray
    sign: np.ndarray
    log_abs: np.ndarray

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again, so that copies and pickles stay small."""
        return {name: getattr(self, name) for name in ("kernel", "points", "sign", "log_abs")}

    def pointwise(self, U: Array) -> ScaledSum:
        """Return S at points U (..., d), each result of shape (...)."""
        xp = array_namespace(U)
        flat = xp.astype(xp.reshape(U, (-1, U.shape[-1])), xp.float64)
        rows = max(1, BLOCK_ENTRIES // self._block_pairs)
        parts = [self._sum(flat[start : start + rows, :]) for start in range(0, flat.shape[0], rows)]
        if not parts:
            empty = xp.zeros(U.shape[:-1], dtype=xp.float64, device=device(U))
            return ScaledSum(empty, empty, empty)
        return ScaledSum(*(xp.reshape(xp.concat(part), U.shape[:-1]) for part in zip(*parts, strict=True)))

    def pairwise(self, X: Array, Y: Array) -> ScaledSum:
        """Return S(X_i * Y_j), each result (..., n, n'), for X (..., n, d) and Y (..., n', d)."""
        xp = array_namespace(X, Y)
        parts = [self.pointwise(U) for _, U in _products(X, Y)]
        return ScaledSum(*(xp.concat(part, axis=-2) for part in zip(*parts, strict=True)))

    def symmetric(self, X: Array) -> ScaledSum:
        """Return ``pairwise(X, X)`` for X (..., n, d), exactly symmetric, at half the cost where X is (n, d)."""
        if X.ndim > 2:
            return self.pairwise(X, X)
        xp = array_namespace(X)
        n = X.shape[0]
        rows, columns = np.triu_indices(n)
        triangle = np.empty((n, n), dtype=np.int64)
        triangle[rows, columns] = triangle[columns, rows] = np.arange(rows.size)
        step = max(1, MAX_ENTRIES // max(1, X.shape[-1]))
        parts = [
            self.pointwise(X[rows[start : start + step], :] * X[columns[start : start + step], :])
            for start in range(0, max(1, rows.size), step)
        ]
        index = xp.asarray(triangle.ravel(), device=device(X))
        return ScaledSum(
            *(xp.reshape(xp.take(xp.concat(part), index, axis=0), (n, n)) for part in zip(*parts, strict=True))
        )

    def pointwise_gradient(self, U: Array, log_scale: Array) -> Array:
        """Return ``exp(-log_scale) * dS/du`` at points U (..., d), of the shape of U."""
        xp = array_namespace(U)
        flat = xp.astype(xp.reshape(U, (-1, U.shape[-1])), xp.float64)
        scale = xp.reshape(log_scale, (-1,))
        rows = max(1, BLOCK_ENTRIES // self._block_pairs)
        parts = [
            self._gradient(flat[start : start + rows, :], scale[start : start + rows])
            for start in range(0, flat.shape[0], rows)
        ]
        return xp.reshape(xp.concat(parts), U.shape) if parts else U

    def pairwise_gradient(self, X: Array, Y: Array, log_scale: Array, upstream: Array) -> tuple[Array, Array]:
        """Pull a gradient back through ``pairwise(X, Y).mantissa`` with the log scale held constant.

        Parameters
        ----------
        X, Y
            Points (..., n, d) and (..., n', d) with equal leading shapes.
        log_scale
            The log scale that `pairwise` returned, (..., n, n').
        upstream
            Gradient with respect to the mantissa, (..., n, n').

        Returns
        -------
        tuple of arrays
            Gradients with respect to X and to Y, of their shapes.
        """
        xp = array_namespace(X, Y)
        of_x, of_y = [], xp.zeros_like(Y)
        for rows, U in _products(X, Y):
            pulled = upstream[..., rows, :][..., None] * self.pointwise_gradient(U, log_scale[..., rows, :])
            of_x.append(xp.sum(pulled * Y[..., None, :, :], axis=-2))
            of_y = of_y + xp.sum(pulled * X[..., rows, :][..., :, None, :], axis=-3)
        return xp.concat(of_x, axis=-2), of_y

    def _sum(self, U: Array) -> ScaledSum:
        xp = array_namespace(U)
        mantissa = absolute = of_constants = xp.zeros_like(U[:, 0])
        scale = xp.full_like(mantissa, -xp.inf)
        for points, sign, log_abs in self._blocks(U):
            inner = xp.matmul(U, points.T)
            if self.kernel.exponent_rate is None:
                terms, exponent = self.kernel.series(inner), log_abs[None, :]
            else:
                terms, exponent = None, self.kernel.exponent_rate * inner + log_abs
            largest = xp.maximum(scale, xp.max(exponent, axis=1))
            rescale = xp.exp(scale - largest)
            weights = xp.exp(exponent - largest[:, None])
            terms = weights if terms is None else weights * terms
            mantissa = mantissa * rescale + xp.matmul(terms, sign)
            size = xp.abs(terms)
            absolute = absolute * rescale + xp.sum(size, axis=1)
            # An exponent near 0 may be the difference of large numbers, of which log_abs is one.
            of_constants = of_constants * rescale + xp.matmul(size, xp.abs(log_abs))
            scale = largest
        return ScaledSum(mantissa, (4 + xp.abs(scale)) * absolute + 2 * of_constants, scale)

    def _gradient(self, U: Array, scale: Array) -> Array:
        xp = array_namespace(U)
        total = xp.zeros_like(U)
        for points, sign, log_abs in self._blocks(U):
            inner = xp.matmul(U, points.T)
            if self.kernel.exponent_rate is None:
                slope = self.kernel.derivative(inner) * xp.exp(log_abs - scale[:, None])
            else:
                rate = self.kernel.exponent_rate
                slope = rate * xp.exp(rate * inner + log_abs - scale[:, None])
            total = total + xp.matmul(slope * sign, points)
        return total

    @property
    def _pairs(self) -> int:
        return self.points.shape[0] * (self.points.shape[0] + 1) // 2

    @property
    def _block_pairs(self) -> int:
        return max(1, min(self._pairs, 1 << 11))

    def _blocks(self, like: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield weighted pair products (p, d), signs (p,) and log coefficients (p,), each unordered pair once."""
        blocks = self._stored if self._stored is not None else self._generate()
        for points, sign, log_abs in blocks:
            yield constant(points, like), constant(sign, like), constant(log_abs, like)

    @cached_property
    def _stored(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]] | None:
        return list(self._generate()) if self._pairs * (self.points.shape[1] + 2) <= MAX_ENTRIES else None

    def _generate(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        count = self.points.shape[0]
        starts = np.concatenate([[0], np.cumsum(np.arange(count, 0, -1))])
        for start in range(0, int(starts[-1]), self._block_pairs):
            flat = np.arange(start, min(start + self._block_pairs, int(starts[-1])))
            i = np.searchsorted(starts, flat, side="right") - 1
            j = i + flat - starts[i]
            twice = np.where(i == j, 0.0, np.log(2.0))
            points = self.kernel.weighted(self.points[i] * self.points[j])
            yield points, self.sign[i] * self.sign[j], self.log_abs[i] + self.log_abs[j] + twice


def _products(X: Array, Y: Array) -> Iterator[tuple[slice, Array]]:
    """Yield row slices of X with the coordinate products X_i * Y_j, (..., rows, n', d), each of bounded size."""
    left, right = pairwise_shape(X, Y)
    batch = int(np.prod(X.shape[:-2], dtype=np.int64)) * Y.shape[-2] * max(1, Y.shape[-1])
    step = max(1, MAX_ENTRIES // max(1, batch))
    for start in range(0, max(1, X.shape[-2]), step):
        rows = slice(start, start + step)
        yield rows, left[..., rows, :, :] * right
