"""Explicit monomial features of free kernels (Theorems 2 and 3).

``theta_k(x) = prod_j x_j^{k_j}`` for exponents k, with feature weights ``tau_k`` of a free kernel and
``w_k = tau_k sum_i alpha_i theta_k(x_i)`` of a re-weighted one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from mkbo_plugins.core.arrays import chunks
from mkbo_plugins.core.evaluation import doubledouble as dd
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints

EPS = float(np.finfo(float).eps) / 2
"""Unit roundoff of double precision."""

CHUNK = 1 << 18
"""Entries of a temporary, 2 MiB, which a processor's cache holds."""


TABLE_SHARE = 0.25
"""Size of a table of products of powers, in units of that of the monomials made of it."""


def monomial_exponents(dimension: int, max_degree: int) -> Int[np.ndarray, "M d"]:
    """Return the exponents of all monomials up to a degree, (M, dimension), by degree."""
    exponents = np.zeros((1, 0), dtype=int)
    for _ in range(dimension):
        # Coordinate by coordinate, so that no exponents beyond the degree are ever made.
        choices = max_degree - exponents.sum(axis=1) + 1
        first = np.repeat(np.cumsum(choices) - choices, choices)
        exponents = np.column_stack([np.repeat(exponents, choices, axis=0), np.arange(len(first)) - first])
    return exponents[np.argsort(exponents.sum(axis=1), kind="stable")]


def log_tau_squared(kernel: FreeKernel, exponents: Int[np.ndarray, "M d"]) -> Float[np.ndarray, " M"]:
    """Return log tau_k^2 for exponents (M, d), (M,); minus infinity where the series lacks the degree."""
    degrees = exponents.sum(axis=1)
    log_kappa = np.array([kernel.log_coefficient(q) for q in range(int(degrees.max(initial=0)) + 1)])
    weights = np.ones(exponents.shape[1]) if kernel.weights is None else np.asarray(kernel.weights)
    # Factorials overflow long before weights do.
    log_multinomial = gammaln(degrees + 1) - gammaln(exponents + 1).sum(axis=1)
    return log_kappa[degrees] + log_multinomial + exponents @ np.log(weights)


def monomials(points: Float[np.ndarray, "N d"], exponents: Int[np.ndarray, "M d"]) -> Float[np.ndarray, "M N"]:
    """Return theta_k(x) for points (N, d) and exponents (M, d), transposed, (M, N)."""
    # Few different powers of a coordinate, and products of them, occur in many monomials.
    tables = [(np.ones((1, len(points))), np.zeros(len(exponents), dtype=int))]
    for j in np.flatnonzero(exponents.any(axis=0)):
        powers = points[:, j] ** np.arange(exponents[:, j].max() + 1)[:, None]
        table, index = tables[-1]
        if len(table) > 1 and len(table) * len(powers) > TABLE_SHARE * len(exponents):
            tables.append((powers, exponents[:, j]))
        else:
            products = (table[:, None, :] * powers).reshape(-1, len(points))
            tables[-1] = products, index * len(powers) + exponents[:, j]
    first, *others = tables
    values = np.take(*first, axis=0)
    for table, index in others:
        values *= np.take(table, index, axis=0)
    return values


class Weights(NamedTuple):
    """Feature weights w_k, (M,), and bounds on their rounding errors, (M,)."""

    value: Float[np.ndarray, " M"]
    error: Float[np.ndarray, " M"]

    @property
    def error_of_squares(self) -> Float[np.ndarray, " M"]:
        """Bounds on the errors of w_k^2, (M,)."""
        return 2 * np.abs(self.value) * self.error + self.error**2


def monomial_weights(
    base: FreeKernel, tables: Sequence[WeightedPoints], exponents: Int[np.ndarray, "M d"], *, extended: bool = False
) -> Weights:
    """Return the feature weights ``w_k = tau_k prod_tables sum_i alpha_i theta_k(x_i)`` of a re-weighted kernel.

    For the squared exponential each alpha_i carries the damping of its point, as Theorem 3 requires.

    Parameters
    ----------
    base, tables
        The free kernel and the weighted points of each re-weighting.
    exponents
        Exponents k, (M, d).
    extended
        Sum in double-double arithmetic, for tables whose terms cancel beyond double precision.
    """
    log_tau = log_tau_squared(base, exponents) / 2
    value = np.exp(log_tau)
    # An absolute error of a logarithm is a relative one of its exponential.
    relative = 4 * EPS * (8 + np.where(np.isfinite(log_tau), np.abs(log_tau), 0.0))
    error = np.zeros_like(value)
    for table in tables:
        total, of_total = (_extended_sums if extended else _sums)(base, table, exponents)
        value, error = value * total, error * (np.abs(total) + of_total) + np.abs(value) * of_total
    return Weights(value, error + relative * np.abs(value))


def _sums(
    base: FreeKernel, table: WeightedPoints, exponents: Int[np.ndarray, "M d"]
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """Return ``sum_i c_i theta_k(x_i)``, (M,), and error bounds, taking rounding errors as independent.

    Source of the latter: Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019.
    """
    log_damping = base.log_damping(table.points)
    # In random order few neighbours have one sign, so that partial sums stay small.
    order = np.random.default_rng(0).permutation(len(table.alpha))
    points, damped = table.points[order], (table.alpha * np.exp(log_damping))[order]
    # A term is a product of powers, a coefficient, and an exponential with an error like its exponent.
    of_term = 4 * EPS * (4 + exponents.sum(axis=1) + float(np.abs(log_damping).max()))
    total, squares = np.empty(len(exponents)), np.empty(len(exponents))
    for rows in chunks(len(exponents), CHUNK // len(damped)):
        values = monomials(points, exponents[rows])
        total[rows] = values @ damped
        squares[rows] = values**2 @ damped**2
    return total, of_term * np.sqrt(squares)


def _extended_sums(
    base: FreeKernel, table: WeightedPoints, exponents: Int[np.ndarray, "M d"]
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """Return what `_sums` does, summed in double-double arithmetic."""
    damped = damped_coefficients(base, table)
    size = float(np.abs(damped.hi).sum())
    total = np.empty(len(exponents))
    largest = np.empty(len(exponents))
    tables = [_power_table(table.points[:, j], int(exponents[:, j].max(initial=0))) for j in range(exponents.shape[1])]
    for rows in chunks(len(exponents), CHUNK // 4 // len(damped.hi)):
        chunk = exponents[rows]
        terms = dd.DoubleDouble(*(np.broadcast_to(part, (len(chunk), len(part))) for part in damped))
        for j in np.flatnonzero(chunk.any(axis=0)):
            terms = dd.multiply(terms, dd.DoubleDouble(*(part[chunk[:, j]] for part in tables[j])))
        total[rows] = dd.sum_axis(terms, 1).hi
        largest[rows] = np.abs(terms.hi).max(axis=1)
    # Rounding to double, and what double-double arithmetic itself may lose.
    return total, EPS * np.abs(total) + 1e-28 * (np.minimum(size, largest * len(damped.hi)))


def _power_table(values: Float[np.ndarray, " N"], degree: int) -> dd.DoubleDouble:
    """Return powers 0 to `degree` of values (N,), (degree + 1, N)."""
    rows = [dd.from_double(np.ones_like(values))]
    for _ in range(degree):
        rows.append(dd.multiply(rows[-1], dd.from_double(values)))
    return dd.DoubleDouble(*(np.stack(part) for part in zip(*rows, strict=True)))


def damped_coefficients(base: FreeKernel, table: WeightedPoints) -> dd.DoubleDouble:
    """Return ``alpha_i exp(-r ||x_i||^2)`` in double-double arithmetic, (N,)."""
    alpha = dd.from_double(np.array(table.alpha))
    return dd.multiply(dd.exp(extended_log_damping(base, table.points)), alpha) if base.damping_rate else alpha


def extended_log_damping(base: FreeKernel, points: Float[np.ndarray, "N d"]) -> dd.DoubleDouble:
    """Return ``-r ||x_i||^2`` of points (N, d) in double-double arithmetic, (N,), for a kernel that damps."""
    return dd.scale(dd.sum_axis(extended_products(base, points, points), 1), -0.5)


def extended_products(
    base: FreeKernel, left: Float[np.ndarray, "N d"], right: Float[np.ndarray, "N d"]
) -> dd.DoubleDouble:
    """Return ``weights_j left_ij right_ij / sigma``, (N, d), in double-double arithmetic."""
    sigma: float = getattr(base, "sigma", 1.0)
    weights = np.ones(left.shape[1]) if base.weights is None else np.asarray(base.weights)
    rate = weights / sigma
    # A quotient is rounded; its remainder gives the digits lost.
    remainder = dd.two_product(rate, np.full_like(rate, sigma))
    rates = dd.two_sum(rate, ((weights - remainder.hi) - remainder.lo) / sigma)
    products = dd.two_product(left + 0.0, right + 0.0)
    return dd.multiply(products, dd.DoubleDouble(*(np.broadcast_to(part, left.shape) for part in rates)))
