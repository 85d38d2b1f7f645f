"""Evaluation of a re-weighted kernel by explicit monomial features, ``S(x * y) = sum_k (w_k x^k) (w_k y^k)``."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, chunks, constant, joined
from mkbo_plugins.core.evaluation.features import EPS
from mkbo_plugins.core.evaluation.monomials import Monomials, nonzero
from mkbo_plugins.core.evaluation.prepared import MAX_ENTRIES, Prepared, ScaledSum, SumForm, batched

EVALUATION_COST, PRODUCT_COST, ROW_COST = 4.0, 1 / 60, 10.0
"""Time of one monomial at one point, of one term of a product of features, and of starting a row of monomials in
points, the first two in units of one term of the pair sum."""

CACHED_ENTRIES, FEWEST_ROWS = 1 << 16, 64
"""Entries of an array that a processor's cache holds, 512 KiB, and rows of it that are worth a call of their own."""


@dataclass(frozen=True, eq=False)
class FeatureSum(SumForm):
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
    weights: Float[np.ndarray, " M"]
    rounding: Float[np.ndarray, " M"]
    charges: Float[np.ndarray, " M"]
    log_unit: float
    name = "features"

    @cached_property
    def squared(self) -> Float[np.ndarray, " M"]:
        """Squared feature weights w_k^2, (M,)."""
        return self.weights**2

    @cached_property
    def _of_squares(self) -> Float[np.ndarray, "3 M"]:
        """Coefficients of the squared monomials in the diagonal, its error and its truncation, (3, M)."""
        squared = self.squared
        # A monomial is a product of `degree` factors, and errors of the M terms are independent.
        computing = 4 * EPS * (8 + self.monomials.degrees + math.sqrt(len(squared))) * squared
        return np.stack([squared, self.rounding + self.charges + computing, self.charges])

    def cost(self, few: int, many: int, entries: int) -> float:
        """Return the time to evaluate a number of entries between two sets of points, in terms of the pair sum."""
        block = max(1, MAX_ENTRIES // len(self.weights))
        kept = many <= block // 2
        evaluations = few if kept else few + many * math.ceil(few / block)
        # Rows of few points cost more than their entries, but for a single point, which has none.
        row = 1 + ROW_COST / min(max(few, 1), max(1, block // 2)) if evaluations > 1 else 1.0
        return len(self.weights) * (EVALUATION_COST * row * evaluations + PRODUCT_COST * entries)

    def prepare(self, X: Float[Array, "n d"]) -> Prepared:
        """Return points (n, d) with their diagonal."""
        xp = array_namespace(X)
        coefficients = constant(self._of_squares, X)
        sums = []
        for rows in self._blocks(X.shape[0], share=1.0):
            values = self.monomials.evaluate(nonzero(X[rows, :]))
            # Few at a time, so that squares stay in a processor's cache.
            parts = chunks(len(self.weights), max(FEWEST_ROWS, CACHED_ENTRIES // max(1, values.shape[1])))
            sums.append(sum([coefficients[:, part] @ (values[part, :] * values[part, :]) for part in parts]))
        diagonal, error, truncation = sums[0] if len(sums) == 1 else xp.concat(sums, axis=1)
        half = xp.full_like(diagonal, self.log_unit)
        return Prepared(self, X, half, diagonal, error, truncation, values if len(sums) == 1 else None)

    def between(self, P: Prepared, Q: Prepared, b: int = 1) -> Float[Array, "b n m"]:
        """Return the mantissas of ``S(x_i * y_j)``, (b, n, m)."""
        # Points paired row by row need one sum each, no matrix.
        if P.points.shape[0] == Q.points.shape[0] == b:
            return self.pointwise(P.points * Q.points).mantissa[:, None, None]
        if b > 1:
            squared = constant(self.squared, P.points)[:, None]
            grams = [left.mT @ (squared * right) for _, left, right in self._batches(P, Q, b)]
            return joined(grams, axis=0)
        if P is Q and P.values is not None:
            # With the weights in both factors alike, rounding leaves the matrix positive semi-definite.
            left = P.values * constant(self.weights, P.points)[:, None]
            gram = left.mT @ left
            return ((gram + gram.mT) / 2)[None, ...]
        squared = constant(self.squared, P.points)[:, None]
        # The weights go to the side where that is fewer products.
        left_is_smaller = P.points.shape[0] <= Q.points.shape[0]
        blocks = []
        for _, values in self._value_blocks(P, share=1.0):
            left = (values * squared if left_is_smaller else values).mT
            parts = [
                left @ (others if left_is_smaller else others * squared)
                for _, others in self._value_blocks(Q, share=0.5)
            ]
            blocks.append(joined(parts, axis=1))
        gram = joined(blocks, axis=0)
        return ((gram + gram.mT) / 2 if P is Q else gram)[None, ...]

    def vjp(
        self, P: Prepared, Q: Prepared, upstream: Float[Array, "b n m"], *, second: bool = True
    ) -> tuple[Float[Array, "b n d"], Float[Array, "b m d"] | None]:
        """Pull a gradient (b, n, m) with respect to `between` back to both points, or only the first."""
        xp = array_namespace(P.points)
        b = upstream.shape[0]
        squared = constant(self.squared, P.points)[:, None]
        if b > 1:
            firsts, seconds = [], []
            for batch, values, others in self._batches(P, Q, b):
                slope = upstream[batch, ...]
                to_x = squared * (others @ slope.mT)
                firsts.append(self._pull(P, batch, values, to_x))
                if second:
                    seconds.append(self._pull(Q, batch, others, squared * (values @ slope)))
            return joined(firsts, axis=0), joined(seconds, axis=0) if second else None
        of_x, of_y = [], xp.zeros_like(Q.points)
        for rows, values in self._value_blocks(P, share=1.0):
            # Slopes are added up over the other side first, as the way from monomials to points costs more.
            to_x = xp.zeros_like(values)
            for columns, others in self._value_blocks(Q, share=0.5):
                slope = upstream[0, rows, columns]
                to_x = to_x + (others @ slope.mT)
                if second:
                    to_y = squared * (values @ slope)
                    of_y[columns, :] += self.monomials.vjp(nonzero(Q.points[columns, :]), others, to_y)
            of_x.append(self.monomials.vjp(nonzero(P.points[rows, :]), values, squared * to_x))
        return joined(of_x, axis=0)[None, ...], of_y[None, ...] if second else None

    def vjp_of_point(
        self,
        P: Prepared,
        Q: Prepared,
        upstream: Float[Array, "k m"],
        of_diagonal: Float[Array, " k"] | None,
        gradients: Float[Array, "1 m d"] | None,
    ) -> Float[Array, "k d"]:
        """Return what `SumForm.vjp_of_point` does, whose `gradients` are never there."""
        xp = array_namespace(upstream)
        assert P.values is not None  # those of a single point are always few
        values = P.values[:, 0]
        slope = 0.0 if of_diagonal is None else 2 * of_diagonal[:, None] * values
        for columns, others in self._value_blocks(Q, share=0.5):
            # One product with a vector a gradient: with narrow matrices they take three times as long.
            slope = slope + xp.stack([others @ row for row in upstream[:, columns]])
        of_logarithms = slope * (constant(self.squared, P.points) * values)
        return (of_logarithms @ constant(self.monomials.float_exponents, P.points)) / nonzero(P.points)

    def entry_gradients(self, P: Prepared, Q: Prepared) -> Float[Array, "n m d"]:
        """Return the gradients in u of the mantissas of ``S(u)`` at ``u = x_i * y_j``, (n, m, d)."""
        xp = array_namespace(P.points)
        # The slope of u^k in u_j is k_j u^k / u_j, a sum over features as S itself is.
        factors = constant(self.squared[:, None] * self.monomials.float_exponents, P.points)
        d, blocks = factors.shape[1], []
        for _, values in self._value_blocks(P, share=0.5):
            parts = []
            for _, others in self._value_blocks(Q, share=0.25):
                # Exponents go to the side of fewer points, all of them in one product.
                few, many = sorted((values, others), key=lambda side: side.shape[1])
                weighted = xp.reshape(few[:, None, :] * factors[:, :, None], (len(self.weights), -1))
                found = xp.reshape(many.mT @ weighted, (many.shape[1], d, few.shape[1]))
                parts.append(xp.permute_dims(found, (2, 0, 1) if few is values else (0, 2, 1)))
            blocks.append(joined(parts, axis=1))
        return joined(blocks, axis=0) / (nonzero(P.points)[:, None, :] * nonzero(Q.points)[None, :, :])

    def diagonal_gradient(self, P: Prepared) -> Float[Array, "n d"]:
        """Return the gradient of each diagonal in its point, (n, d)."""
        return self._gradient(P.points, power=2, values=P.values)

    def pointwise(self, U: Float[Array, "... d"]) -> ScaledSum:
        """Return S at points U (..., d), each result (...)."""
        xp = array_namespace(U)
        flat = xp.reshape(U, (-1, U.shape[-1]))
        coefficients = constant(self._of_squares, U)
        sums = []
        for rows in self._blocks(flat.shape[0]):
            values = self.monomials.evaluate(flat[rows, :])
            # Monomials of u have either sign, their errors add up all the same.
            total = coefficients[:1, :] @ values
            sums.append(xp.concat([total, coefficients[1:2, :] @ xp.abs(values)]))
        mantissa, error = (xp.reshape(part, U.shape[:-1]) for part in joined(sums, axis=1))
        return ScaledSum(mantissa, error, xp.full_like(mantissa, 2 * self.log_unit))

    def slopes(self, U: Float[Array, "*batch d"], log_scale: Float[Array, "*batch"]) -> Float[Array, "*batch d"]:
        """Return ``exp(-log_scale) * dS/du`` at points U (..., d), of their shape."""
        xp = array_namespace(U)
        gradient = self._gradient(xp.reshape(U, (-1, U.shape[-1])), power=1)
        return xp.reshape(gradient, U.shape) * xp.exp(2 * self.log_unit - log_scale)[..., None]

    def curvatures(
        self, U: Float[Array, "*batch d"], V: Float[Array, "*batch d"], log_scale: Float[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """Return ``exp(-log_scale) * d^2 S/du^2 V`` at points U and for vectors V, each (..., d), of their shape."""
        xp = array_namespace(U)
        flat = nonzero(xp.reshape(U, (-1, U.shape[-1])))
        relative = xp.reshape(V, flat.shape) / flat
        exponents, squared = constant(self.monomials.float_exponents, U), constant(self.squared, U)[:, None]
        unit = constant(np.eye(U.shape[-1]), U)
        # The second derivative of u^k is u^k (k_i k_j - k_i [i = j]) / (u_i u_j).
        # One coordinate of V at a time, since the terms k_i k_j of different ones differ by far near zero.
        factors = [e[:, None] * (exponents - one) for e, one in zip(exponents.T, unit, strict=True)]
        products = []
        for rows in self._blocks(flat.shape[0]):
            weighted = (squared * self.monomials.evaluate(flat[rows, :])).mT
            along = sum(relative[rows, i][:, None] * (weighted @ factor) for i, factor in enumerate(factors))
            products.append(along / flat[rows, :])
        return xp.reshape(joined(products, axis=0), U.shape) * xp.exp(2 * self.log_unit - log_scale)[..., None]

    def _gradient(
        self, X: Float[Array, "n d"], power: int, values: Float[Array, "M n"] | None = None
    ) -> Float[Array, "n d"]:
        """Return the gradient of ``sum_k w_k^2 x^{power k}`` at points (n, d)."""
        points = nonzero(X)
        squared = constant(self.squared, X)[:, None]
        gradients = []
        for rows in self._blocks(X.shape[0]):
            block = self.monomials.evaluate(points[rows, :]) if values is None else values[:, rows]
            slope = squared + 0 * block if power == 1 else 2 * squared * block
            gradients.append(self.monomials.vjp(points[rows, :], block, slope))
        return joined(gradients, axis=0)

    def _value_blocks(self, P: Prepared, share: float) -> Iterator[tuple[slice, Float[Array, "M n"]]]:
        """Yield slices of points with their monomials, of a share of the largest array allowed."""
        if P.values is not None:
            yield slice(None), P.values
            return
        for rows in self._blocks(P.points.shape[0], share):
            yield rows, self.monomials.evaluate(nonzero(P.points[rows, :]))

    def _batches(
        self, P: Prepared, Q: Prepared, b: int
    ) -> Iterator[tuple[slice, Float[Array, "b M n"], Float[Array, "b M m"]]]:
        """Yield slices of batches with the monomials of both points in them, (batches, M, n) and (batches, M, m)."""
        xp = array_namespace(P.points)
        for batch in chunks(b, MAX_ENTRIES * b // (len(self.weights) * (P.points.shape[0] + Q.points.shape[0]))):
            both = []
            for R in (P, Q):
                n = R.points.shape[0] // b
                rows = slice(batch.start * n, batch.stop * n)
                values = self.monomials.evaluate(nonzero(R.points[rows, :])) if R.values is None else R.values[:, rows]
                both.append(xp.permute_dims(xp.reshape(values, (values.shape[0], -1, n)), (1, 0, 2)))
            yield batch, *both

    def _pull(
        self, P: Prepared, batch: slice, values: Float[Array, "b M n"], upstream: Float[Array, "b M n"]
    ) -> Float[Array, "b n d"]:
        """Pull a gradient with respect to monomials (batches, M, n) back to points of these batches."""
        n = values.shape[2]
        points = batched(nonzero(P.points[batch.start * n : batch.stop * n, :]), values.shape[0])
        # In logarithms of coordinates, the slopes of a monomial are its exponents times itself.
        of_logarithms = constant(self.monomials.float_exponents.T, points) @ (upstream * values)
        return of_logarithms.mT / points

    def _blocks(self, count: int, share: float = 0.5) -> list[slice]:
        return chunks(count, int(share * MAX_ENTRIES) // len(self.weights))
