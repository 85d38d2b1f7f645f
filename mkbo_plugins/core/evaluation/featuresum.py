"""Evaluation of a re-weighted kernel by explicit monomial features, ``S(x * y) = sum_k (w_k x^k) (w_k y^k)``."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, constant, runs
from mkbo_plugins.core.evaluation.features import EPS
from mkbo_plugins.core.evaluation.monomials import Monomials, nonzero
from mkbo_plugins.core.evaluation.prepared import MAX_ENTRIES, Prepared, ScaledSum

EVALUATION_COST, PRODUCT_COST, ROW_COST = 4.0, 1 / 60, 10.0
"""Time of one monomial at one point, of one term of a product of features, and of starting a row of monomials in
points, the first two in units of one term of the pair sum."""


@dataclass(frozen=True, eq=False)
class FeatureSum:
    """Evaluator through the features kept; every Gram matrix is positive semi-definite by construction.

    Parameters
    ----------
    monomials
        The monomials kept.
    weights
        Feature weights w_k in units of ``exp(log_unit)``, (M,).
    rounding
        Bounds on the errors of ``w_k^2``, (M,).
    charges
        Bounds on the squared weights left out, charged to monomials kept, (M,).
    log_unit
        Logarithm of the unit.
    """

    monomials: Monomials
    weights: np.ndarray
    rounding: np.ndarray
    charges: np.ndarray
    log_unit: float
    name: str = field(default="features", init=False)

    @cached_property
    def _of_squares(self) -> np.ndarray:
        """Coefficients of the squared monomials in the diagonal, its error and its truncation, (3, M)."""
        squared = self.weights**2
        computing = 4 * EPS * (8 + self.monomials.degrees + math.sqrt(len(squared))) * squared
        return np.stack([squared, self.rounding + self.charges + computing, self.charges])

    def cost(self, few: int, many: int, entries: int) -> float:
        """Return the time to evaluate a number of entries between two sets of points, in terms of the pair sum."""
        block = max(1, MAX_ENTRIES // len(self.monomials))
        kept = many <= block // 2
        evaluations = few if kept else few + many * math.ceil(few / block)
        # Rows of few points cost more than their entries.
        row = 1 + ROW_COST / min(max(few, 1), max(1, block // 2))
        return len(self.monomials) * (EVALUATION_COST * row * evaluations + PRODUCT_COST * entries)

    def prepare(self, X: Array) -> Prepared:
        """Return points (..., n, d) with their diagonal."""
        xp = array_namespace(X)
        flat = xp.reshape(X, (-1, X.shape[-1]))
        coefficients = constant(self._of_squares, X)
        found, values = [], None
        for rows in self._blocks(flat.shape[0], share=1.0):
            values = self.monomials.evaluate(nonzero(flat[rows, :]))
            found.append(xp.matmul(coefficients, values * values))
        sums = xp.reshape(xp.matrix_transpose(xp.concat(found, axis=1)), (*X.shape[:-1], 3))
        half = xp.full_like(sums[..., 0], self.log_unit)
        if len(found) > 1:
            values = None
        return Prepared(X, half, sums[..., 0], sums[..., 1], sums[..., 2], values)

    def between(self, P: Prepared, Q: Prepared) -> Array:
        """Return the mantissas of ``S(x_i * y_j)``, (..., n, n')."""
        xp = array_namespace(P.points)
        weights = constant(self.weights, P.points)[:, None]
        if P.points.ndim > 2:
            left, right = (self._batched(R, weights) for R in (P, Q))
            return xp.matmul(xp.matrix_transpose(left), right)
        if P is Q and P.values is not None:
            left = P.values * weights
            gram = xp.matmul(xp.matrix_transpose(left), left)
            return (gram + xp.matrix_transpose(gram)) / 2
        found, squared = [], weights**2
        left_is_smaller = P.points.shape[0] <= Q.points.shape[0]
        for _, values in self._value_blocks(P, share=1.0):
            of_x = xp.matrix_transpose(values * squared if left_is_smaller else values)
            parts = [
                xp.matmul(of_x, others if left_is_smaller else others * squared)
                for _, others in self._value_blocks(Q, share=0.5)
            ]
            found.append(parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1))
        gram = found[0] if len(found) == 1 else xp.concat(found)
        return (gram + xp.matrix_transpose(gram)) / 2 if P is Q else gram

    def rowwise(self, P: Prepared, Q: Prepared) -> Array:
        """Return the mantissas of ``S(x_i * y_i)``, (..., n)."""
        return self.pointwise(P.points * Q.points).mantissa

    def pull_between(
        self, P: Prepared, Q: Prepared, upstream: Array, *, second: bool = True
    ) -> tuple[Array, Array | None]:
        """Pull a gradient with respect to `between` back to both points, or only the first."""
        xp = array_namespace(P.points)
        if P.points.ndim > 2:
            pulled = [
                self.pull_between(P.select(b, ...), Q.select(b, ...), upstream[b, ...], second=second)
                for b in range(P.points.shape[0])
            ]
            of_x, of_y = zip(*pulled, strict=True)
            return xp.stack(of_x), xp.stack(of_y) if second else None
        squared = constant(self.weights**2, P.points)[:, None]
        of_y, found = xp.zeros_like(Q.points), []
        for rows, values in self._value_blocks(P, share=1.0):
            to_x = xp.zeros_like(values)
            for columns, others in self._value_blocks(Q, share=0.5):
                slope = upstream[rows, columns]
                to_x = to_x + xp.matmul(others, xp.matrix_transpose(slope))
                if second:
                    to_y = squared * xp.matmul(values, slope)
                    of_y[columns, :] += self.monomials.pull(nonzero(Q.points[columns, :]), others, to_y)
            found.append(self.monomials.pull(nonzero(P.points[rows, :]), values, squared * to_x))
        return xp.concat(found), of_y if second else None

    def entry_gradients(self, P: Prepared, Q: Prepared) -> Array:
        """Return the gradients in u of the mantissas of ``S(u)`` at ``u = x_i * y_j``, (n, n', d)."""
        xp = array_namespace(P.points)
        factors = constant((self.weights**2)[:, None] * self.monomials.float_exponents, P.points)
        found = []
        for _, values in self._value_blocks(P, share=0.5):
            weighted = [xp.matrix_transpose(values * factors[:, j][:, None]) for j in range(factors.shape[1])]
            parts = [
                xp.stack([xp.matmul(left, others) for left in weighted], axis=-1)
                for _, others in self._value_blocks(Q, share=0.25)
            ]
            found.append(xp.concat(parts, axis=1))
        return xp.concat(found) / (nonzero(P.points)[:, None, :] * nonzero(Q.points)[None, :, :])

    def pull_rowwise(self, P: Prepared, Q: Prepared, upstream: Array) -> tuple[Array, Array]:
        """Pull a gradient with respect to `rowwise` back to both points."""
        slope = upstream[..., None] * self._gradient(P.points * Q.points, power=1)
        return slope * Q.points, slope * P.points

    def pull_diagonal(self, P: Prepared, upstream: Array) -> Array:
        """Pull a gradient with respect to the diagonal back to the points."""
        return upstream[..., None] * self._gradient(P.points, power=2, known=P.values)

    def pointwise(self, U: Array) -> ScaledSum:
        """Return S at points U (..., d), each result (...)."""
        xp = array_namespace(U)
        flat = xp.reshape(U, (-1, U.shape[-1]))
        coefficients = constant(self._of_squares, U)
        found = []
        for rows in self._blocks(flat.shape[0]):
            values = self.monomials.evaluate(flat[rows, :])
            total = xp.matmul(coefficients[:1, :], values)
            found.append(xp.concat([total, xp.matmul(coefficients[1:2, :], xp.abs(values))]))
        sums = xp.reshape(xp.matrix_transpose(xp.concat(found, axis=1)), (*U.shape[:-1], 2))
        return ScaledSum(sums[..., 0], sums[..., 1], xp.full_like(sums[..., 0], 2 * self.log_unit))

    def _gradient(self, X: Array, power: int, known: Array | None = None) -> Array:
        """Return the gradient of ``sum_k w_k^2 x^{power k}`` at points (..., n, d)."""
        xp = array_namespace(X)
        flat = nonzero(xp.reshape(X, (-1, X.shape[-1])))
        squared = constant(self.weights**2, X)[:, None]
        found = []
        for rows in self._blocks(flat.shape[0]):
            values = self.monomials.evaluate(flat[rows, :]) if known is None else known
            slope = squared + 0 * values if power == 1 else 2 * squared * values
            found.append(self.monomials.pull(flat[rows, :], values, slope))
        return xp.reshape(xp.concat(found), X.shape)

    def _value_blocks(self, P: Prepared, share: float) -> Iterator[tuple[slice, Array]]:
        """Yield slices of points (n, d) with their monomials, of a share of the largest array allowed."""
        if P.values is not None:
            yield slice(None), P.values
            return
        for rows in self._blocks(P.points.shape[0], share):
            yield rows, self.monomials.evaluate(nonzero(P.points[rows, :]))

    def _batched(self, P: Prepared, weights: Array) -> Array:
        """Return weighted monomials with the batch in front, (..., M, n)."""
        xp = array_namespace(P.points)
        flat = nonzero(xp.reshape(P.points, (-1, P.points.shape[-1])))
        values = weights * (self.monomials.evaluate(flat) if P.values is None else P.values)
        values = xp.reshape(values, (values.shape[0], -1, P.points.shape[-2]))
        return xp.reshape(xp.permute_dims(values, (1, 0, 2)), (*P.points.shape[:-2], values.shape[0], -1))

    def _blocks(self, count: int, share: float = 0.5) -> Iterator[slice]:
        return runs(count, int(share * MAX_ENTRIES) // len(self.monomials))
