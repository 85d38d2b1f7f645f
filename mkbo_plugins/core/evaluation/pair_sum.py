"""The pair sum of a re-weighted kernel, in log-scaled blocks of bounded memory.

``S(x * y) = sum_ij c_i c_j h(<<z_i, z_j, x, y>>)`` over the weighted points (c_i, z_i). Every unordered pair of points
is evaluated once, and pairs of equal products are one term. For exponential series each argument has a scale of its
own, ``h_x = max_i (log |c_i| + <<z_i, z_i, x, x>> / (2 sigma))``: no pair's part of ``S(x * y) exp(-h_x - h_y)``
exceeds 2 and the largest of the diagonal's is at least 1, so that neither far points nor small length scales overflow
or vanish. Where exponents are large, terms that vanish on these scales are left out. Where all are near zero, equal
terms would be rounded alike and what they leave would be lost: there the sum is ``(sum_i c_i)^2`` and a rest of terms
``c_i c_j (exp(e_ij) - 1)``.

Errors are estimated with rounding errors of different terms taken as independent (Higham and Mary, "A new approach to
probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019), with a margin.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device
from jaxtyping import Float, Int

from mkbo_plugins.core.arrays import Array, array_namespace, chunks, constant, joined
from mkbo_plugins.core.evaluation.features import EPS
from mkbo_plugins.core.evaluation.pair_blocks import BLOCK_PAIRS, SCALE_STEPS, SPREAD, PairBlocks
from mkbo_plugins.core.evaluation.pair_terms import significant_terms
from mkbo_plugins.core.evaluation.prepared import MAX_ENTRIES, Prepared, ScaledSum, SumForm, batched
from mkbo_plugins.core.evaluation.threads import in_threads
from mkbo_plugins.errors import KernelError

BLOCK_ENTRIES = 1 << 17
"""Entries of one block of exponentials; 1 MiB, so that a block stays in the cache."""

NEAR = 2.0**-6
"""Exponents near zero, where a sum is that at the middle of the frame and a rest."""

FARTHEST_EXPONENT = 2.0**40
"""Half log scales from which on doubles have no room left for what is added to them."""

SUMMED_AT_ONCE = 1 << 6
"""Terms that BLAS adds up, in whatever order."""


class PairedPoints(NamedTuple):
    """Points paired row by row, (m, d) each, with half their log scales relative to the unit, (m,) each."""

    left: Float[Array, "m d"]
    right: Float[Array, "m d"]
    half_left: Float[Array, " m"]
    half_right: Float[Array, " m"]


@dataclass(frozen=True, eq=False)
class PairSum(SumForm):
    """Evaluator of S(u) by the sum over pairs of weighted points, in double precision.

    Parameters
    ----------
    blocks
        The pairs.
    """

    blocks: PairBlocks
    name = "pairs"

    @property
    def pairs(self) -> int:
        """Number of unordered pairs."""
        return self.blocks.pairs

    @property
    def terms(self) -> int:
        """Number of terms, at most that of pairs."""
        return self.blocks.terms

    def describe(self) -> str:
        """Return in words what is summed."""
        distinct = "" if self.terms == self.pairs else f", {self.terms:,} of them distinct"
        local = "" if self.blocks.widest is None else ", at each point those that do not vanish there"
        return f"{self.pairs:,} pairs of support vectors{distinct}{local}"

    def prepare(self, X: Float[Array, "n d"]) -> Prepared:
        """Return points (n, d) with their diagonal."""
        return self.on_scale(X, self._half_scale(X) + self.blocks.unit)

    def on_scale(self, X: Float[Array, "n d"], half_log_scale: Float[Array, " n"]) -> Prepared:
        """Return points (n, d) with their diagonal on the scales (n,) that another sum of these terms chose.

        A scale chosen anew may be another by one step: before it is rounded up it depends on the order of additions.
        """
        half = half_log_scale - self.blocks.unit
        diagonal = self._sum(PairedPoints(X, X, half, half))
        error = self._error(X * X, 2 * half, diagonal)
        return Prepared(self, X, half_log_scale, diagonal, error, array_namespace(X).zeros_like(error))

    def between(self, P: Prepared, Q: Prepared, b: int = 1) -> Float[Array, "b n m"]:
        """Return the mantissas of ``S(x_i * y_j)``, (b, n, m)."""
        xp = array_namespace(P.points)
        n, m = P.points.shape[0] // b, Q.points.shape[0] // b
        if P is Q and b == 1:
            # The matrix is symmetric: the sum over pairs, which costs most, is taken once for two points.
            rows, columns = np.triu_indices(n)
            triangle = np.empty((n, n), dtype=np.int64)
            triangle[rows, columns] = triangle[columns, rows] = np.arange(rows.size)
            values = self.entries(P, Q, rows, columns)
            return xp.reshape(xp.take(values, xp.asarray(triangle.ravel(), device=device(values)), axis=0), (1, n, n))
        rows = np.arange(b * n).repeat(m)
        columns = (np.arange(b)[:, None, None] * m + np.zeros((n, 1), int) + np.arange(m)).ravel()
        return xp.reshape(self.entries(P, Q, rows, columns), (b, n, m))

    def vjp(
        self, P: Prepared, Q: Prepared, upstream: Float[Array, "b n m"], *, second: bool = True
    ) -> tuple[Float[Array, "b n d"], Float[Array, "b m d"] | None]:
        """Pull a gradient (b, n, m) with respect to `between` back to both points, or only the first."""
        xp = array_namespace(P.points)
        b, n, m = upstream.shape
        x, y, of_x, of_y = (batched(part, b) for part in (P.points, Q.points, P.half_log_scale, Q.half_log_scale))

        def pulled(rows: slice) -> tuple[Float[Array, "b n d"], Float[Array, "b m d"] | None]:
            # S is a function of u = x * y, so that a slope in u is one in x by the factor y, and the reverse.
            U = x[:, rows, None, :] * y[:, None, :, :]
            slope = self.slopes(U, of_x[:, rows, None] + of_y[:, None, :]) * upstream[:, rows, :, None]
            of_second = xp.sum(slope * x[:, rows, None, :], axis=1) if second else None
            return xp.sum(slope * y[:, None, :, :], axis=2), of_second

        size = b * m * P.points.shape[1]
        # Products, slopes and what either point gets of them are there at once.
        parts = in_threads(pulled, n, MAX_ENTRIES // 4 // max(1, size), n * size * self.terms, P.points)
        firsts, seconds = zip(*parts, strict=True)
        return joined(list(firsts), axis=1), sum(seconds) if second else None

    def entry_gradients(self, P: Prepared, Q: Prepared) -> Float[Array, "n m d"]:
        """Return the gradients in u of the mantissas of ``S(u)`` at ``u = x_i * y_j``, (n, m, d)."""
        U = P.points[:, None, :] * Q.points[None, :, :]
        return self.slopes(U, P.half_log_scale[:, None] + Q.half_log_scale[None, :])

    def from_point(self, P: Prepared, Q: Prepared) -> tuple[Float[Array, "1 m"], Float[Array, "1 m d"] | None]:
        """Return `between` of a single point P with `entry_gradients`, of the same terms."""
        U = P.points * Q.points
        # Derivatives of a finite series have other terms than its values.
        if self.blocks.kernel.exponent_rate is None or bool(array_namespace(U).any(self._nearness(U) < 1)):
            return super().from_point(P, Q)
        values = array_namespace(U).zeros_like(Q.half_log_scale)
        gradients = self._derivatives(U, None, P.half_log_scale + Q.half_log_scale, values)
        return values[None, :], gradients[None, ...]

    def diagonal_gradient(self, P: Prepared) -> Float[Array, "n d"]:
        """Return the gradient of each diagonal in its point, (n, d)."""
        # u = x * x, so that du = 2 x dx.
        return 2 * P.points * self.slopes(P.points * P.points, 2 * P.half_log_scale)

    def pointwise(self, U: Float[Array, "... d"]) -> ScaledSum:
        """Return S at points U (..., d), each result (...)."""
        xp = array_namespace(U)
        flat = xp.reshape(U, (-1, U.shape[-1]))
        # A scale belongs to a point; u has that of a point whose square is |u|.
        root = xp.sqrt(xp.abs(flat))
        half = self._half_scale(root)
        mantissa = self._sum(PairedPoints(flat, xp.ones_like(flat), half, half))
        error = self._error(xp.abs(flat), 2 * half, mantissa)
        scale = 2 * (half + self.blocks.unit)
        return ScaledSum(*(xp.reshape(value, U.shape[:-1]) for value in (mantissa, error, scale)))

    def slopes(self, U: Float[Array, "*batch d"], log_scale: Float[Array, "*batch"]) -> Float[Array, "*batch d"]:
        """Return ``exp(-log_scale) * dS/du`` at points U (..., d), of their shape."""
        return self._derivatives(U, None, log_scale)

    def curvatures(
        self, U: Float[Array, "*batch d"], V: Float[Array, "*batch d"], log_scale: Float[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """Return ``exp(-log_scale) * d^2 S/du^2 V`` at points U and for vectors V, each (..., d), of their shape."""
        return self._derivatives(U, V, log_scale)

    def _derivatives(
        self,
        U: Float[Array, "*batch d"],
        V: Float[Array, "*batch d"] | None,
        log_scale: Float[Array, "*batch"],
        values: Float[Array, " m"] | None = None,
    ) -> Float[Array, "*batch d"]:
        """Return the first derivatives of S, or, along vectors V, the second, of the shape of U.

        What is in `values`, if any, grows by the sums of an exponential series, which are of the same terms as its
        first derivatives.
        """
        xp = array_namespace(U)
        flat, scale = xp.reshape(U, (-1, U.shape[-1])), xp.reshape(log_scale, (-1,)) - 2 * self.blocks.unit
        along = None if V is None else xp.reshape(V, flat.shape)
        derivative = self.blocks.kernel.derivative if V is None else self.blocks.kernel.second_derivative
        arguments = self._arguments(flat, scale)
        total = xp.zeros_like(flat)
        for pairs, factors, _ in self.blocks.rounded(flat):
            for rows, index in self._meetings(arguments, pairs):
                some = pairs[index, :]
                products = some[:, :-2]
                if self.blocks.kernel.exponent_rate is None:
                    inner = flat[rows, :] @ products.mT
                    terms = derivative(inner) * xp.exp(some[:, -2])
                else:
                    terms = self._terms(arguments[rows, :], some)
                if values is not None:
                    values[rows] += _weighted_sum(terms, factors[index])
                if along is not None:
                    terms = terms * (along[rows, :] @ products.mT)
                total[rows, :] += (terms * factors[index]) @ products
        return xp.reshape(total, U.shape)

    def entries(
        self, P: Prepared, Q: Prepared, rows: Int[np.ndarray, " m"], columns: Int[np.ndarray, " m"]
    ) -> Float[Array, " m"]:
        """Return the mantissas between points P[rows] and Q[columns], indices (m,), (m,)."""
        xp, place = array_namespace(P.points), device(P.points)

        def summed(run: slice) -> Float[Array, " m"]:
            i, j = xp.asarray(rows[run], device=place), xp.asarray(columns[run], device=place)
            half_left = xp.take(P.half_log_scale, i) - self.blocks.unit
            half_right = xp.take(Q.half_log_scale, j) - self.blocks.unit
            left, right = xp.take(P.points, i, axis=0), xp.take(Q.points, j, axis=0)
            return self._sum(PairedPoints(left, right, half_left, half_right))

        largest = MAX_ENTRIES // 8 // max(1, P.points.shape[1])
        return joined(in_threads(summed, rows.size, largest, rows.size * self.terms, P.points), axis=0)

    def _sum(self, met: PairedPoints) -> Float[Array, " m"]:
        """Return S(left * right) in units of the scales of both, (m,)."""
        near = self._nearness(met.left * met.right) < 1
        if not bool(near.any()):
            return self._sum_far(met)
        total = array_namespace(near).zeros_like(met.half_left)
        for rows, summed in ((near, self._sum_near), (~near, self._sum_far)):
            total[rows] = summed(PairedPoints(*(part[rows, ...] for part in met)))
        return total

    def _sum_far(self, met: PairedPoints) -> Float[Array, " m"]:
        arguments = self._arguments(met.left * met.right, met.half_left + met.half_right)
        total = array_namespace(arguments).zeros_like(met.half_left)
        # Pairs come in the outer loop: where they are too many to be stored, a block is made once.
        for pairs, factors, _ in self.blocks.rounded(met.left):
            for rows, index in self._meetings(arguments, pairs):
                total[rows] += _weighted_sum(self._terms(arguments[rows, :], pairs[index, :]), factors[index])
        return total

    def _sum_near(self, met: PairedPoints) -> Float[Array, " m"]:
        """Return `_sum` as that at the middle of the frame and a rest of terms ``exp(e) - 1``."""
        xp = array_namespace(met.left)
        U, rest = met.left * met.right, xp.zeros_like(met.half_left)
        for pairs, factors, _ in self.blocks.rounded(met.left):
            coefficients = factors * xp.exp(pairs[:, -2])
            for rows in self._row_chunks(U):
                exponents = U[rows, :] @ pairs[:, :-2].mT
                rest[rows] += _weighted_sum(xp.expm1(exponents), coefficients)
        return (rest + float(self.blocks.origin.value.hi)) * xp.exp(-(met.half_left + met.half_right))

    def _nearness(self, U: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Return bounds on the exponents at points U (m, d) in units of those that are near zero, (m,)."""
        xp = array_namespace(U)
        if self.blocks.kernel.exponent_rate is None:
            return xp.full_like(U[:, 0], math.inf)
        return xp.abs(U) @ constant(self.blocks.reach / self._near, U)

    def _arguments(self, U: Float[Array, "m d"], scale: Float[Array, " m"]) -> Float[Array, "m k"]:
        """Return what multiplies a pair in its exponent: the point, 1 and the scale, (m, d + 2)."""
        xp = array_namespace(U)
        # Products come first: their sum differs from pair to pair, and so does its rounding when the scale is added.
        return xp.concat([U, xp.ones_like(U[:, :1]), -scale[:, None]], axis=1)

    def _terms(self, arguments: Float[Array, "m k"], pairs: Float[Array, "p k"]) -> Float[Array, "m p"]:
        """Return the terms of S (m, p), without the factors that their rounded coefficients lack."""
        xp = array_namespace(arguments)
        if self.blocks.kernel.exponent_rate is None:
            inner = arguments[:, :-2] @ pairs[:, :-2].mT
            return self.blocks.kernel.series(inner) * xp.exp(pairs[:, -2])
        # The sum of exponent, coefficient and scale in one product, since passes over memory are what costs.
        return _exponential(arguments @ pairs.mT)

    def _meetings(self, arguments: Float[Array, "m k"], pairs: Float[Array, "p k"]) -> Iterator[tuple[Any, Any]]:
        """Yield indices of points and of the pairs of a block that count for them, of few entries together."""
        if self.blocks.widest is None:
            for rows in self._row_chunks(arguments):
                yield rows, slice(None)
        else:
            least = math.log(self._left_out / self.terms) - SPREAD
            yield from significant_terms(arguments, pairs, self.blocks.widest, least)

    def _row_chunks(self, values: Float[Array, "m k"]) -> list[slice]:
        return chunks(values.shape[0], BLOCK_ENTRIES // min(self.terms, BLOCK_PAIRS))

    @property
    def _left_out(self) -> float:
        """Largest sum of the terms that are left out where they vanish, on the scales of both points."""
        return EPS / 128

    def _half_scale(self, X: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Return half the log scale of points X (m, d) relative to the unit, (m,)."""
        xp = array_namespace(X)
        squares = constant(np.asarray(self.blocks.kernel.weighted(self.blocks.points)) * self.blocks.points, X)
        # A pair's exponent is at most the mean of those of its points with themselves: N of them bound all.
        exponent = (self.blocks.kernel.exponent_rate or 0.0) * ((X * X) @ squares.mT)
        relative = constant(self.blocks.log_abs.hi - self.blocks.unit, X)
        half = xp.ceil(xp.max(relative[None, :] + exponent / 2, axis=1) * SCALE_STEPS) / SCALE_STEPS
        if bool(xp.any(half >= FARTHEST_EXPONENT)):
            raise KernelError(
                f"the result overflows: exponents of the series go beyond {2 * FARTHEST_EXPONENT:.0e} at a point, "
                "which lies too far outside the frame for this sigma; check its units, or take larger sigma"
            )
        return half

    def _error(
        self, U: Float[Array, "m d"], scale: Float[Array, " m"], mantissa: Float[Array, " m"]
    ) -> Float[Array, " m"]:
        """Return error estimates (m,) of sums at U >= 0."""
        xp = array_namespace(U)
        squares, reach, whole = xp.zeros_like(scale), xp.zeros_like(scale), xp.zeros_like(scale)
        arguments = self._arguments(U, scale)
        some_zero = xp.astype(xp.any(U == 0, axis=1, keepdims=True), U.dtype)
        sides = xp.concat([U, some_zero, 1 - some_zero], axis=1)
        for pairs, _, common in self.blocks.rounded(U):
            # Rounding grows with the sizes of what is added up in an exponent, not with its value.
            sizes = xp.concat([xp.abs(pairs[:, :-2]), pairs[:, -2:]], axis=1)
            for rows, index in self._meetings(arguments, sizes):
                some, point = sizes[index, :], arguments[rows, :-2]
                terms = self._terms(arguments[rows, :], some)
                exponents = point @ some[:, :-2].mT
                reach[rows] = xp.maximum(reach[rows], xp.max(exponents, axis=1))
                relative = self._relative_error(exponents + (scale + SPREAD)[rows, None])
                if self.blocks.kernel.exponent_rate is None:
                    # They have no scale, so that squares might overflow.
                    squares[rows] += xp.sum(terms * relative, axis=1)
                    continue
                # What k terms have in common adds up k times, not like k independent errors.
                shared = self._unit_error * (sides[rows, :] @ common[index, :].mT)
                squares[rows] += xp.sum(terms**2 * (relative**2 + shared**2), axis=1)
                whole[rows] += xp.sum(terms, axis=1)
        if self.blocks.kernel.exponent_rate is None:
            return squares + 4 * EPS * (1 + reach) * xp.abs(mantissa)
        # So often a partial sum is rounded, which is about as large as the root of the sum of squares, or the result.
        additions = self.terms / BLOCK_PAIRS
        root = xp.sqrt(squares * (1 + additions / 256))
        root = root if self.blocks.widest is None else root + self._left_out
        # Errors of the rest grow with exponents. Stated as if that began at NEAR^2 they bound also those between such a
        # point and another, whose exponents with it are at most the root of the product of both.
        share = xp.clip(self._nearness(U) / self._near, None, 1.0)
        # Rounding of the argument is common to all terms and acts like a step of it.
        rounding = EPS * (4 * (1 + reach) + math.sqrt(additions) / 2) * xp.abs(mantissa)
        error = share * root + rounding + self.blocks.origin.error * xp.exp(-scale)
        # Coefficients of a support vector machine sum to zero up to their last digit: what is left of it is no value.
        least = EPS**2 * whole
        return xp.where(xp.abs(mantissa) <= least, xp.maximum(error, least), error)

    @property
    def _near(self) -> float:
        """Exponents that are near zero."""
        return NEAR

    @property
    def _unit_error(self) -> float:
        """Relative error of one operation."""
        return EPS

    def _relative_error(self, exponents: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return the relative errors of terms whose exponents add up from numbers of this size, with a margin."""
        d = self.blocks.points.shape[1]
        if self.blocks.kernel.exponent_rate is None:
            # A power multiplies the relative error of its base by the degree at most.
            return (0 * exponents + 8 + d + 4 * self.blocks.kernel.degree_limit) * (2 * EPS)
        # An absolute error of the exponent is a relative one of the term.
        return (6 + (4 + math.sqrt(d)) * exponents) * (2 * EPS)


def _exponential(exponent: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return exp in place where the namespace can."""
    xp = array_namespace(exponent)
    return np.exp(exponent, out=exponent) if isinstance(exponent, np.ndarray) else xp.exp(exponent)


def _weighted_sum(terms: Float[Array, "m p"], factors: Float[Array, " p"]) -> Float[Array, " m"]:
    """Return sums of terms (m, p) times factors (p,), added up in an order that rounds less than the terms."""
    if not isinstance(terms, np.ndarray):
        return array_namespace(terms).sum(terms * factors, axis=1)
    # BLAS may add up one after the other, which rounds too much but in short runs.
    runs = len(factors) // SUMMED_AT_ONCE
    whole = runs * SUMMED_AT_ONCE
    left = terms[:, :whole].reshape(len(terms), runs, SUMMED_AT_ONCE).transpose(1, 0, 2)
    sums = np.matmul(left, factors[:whole].reshape(runs, SUMMED_AT_ONCE, 1))
    return np.sum(sums[:, :, 0], axis=0) + terms[:, whole:] @ factors[whole:]
