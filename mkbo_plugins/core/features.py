"""Explicit monomial features of free kernels (Theorems 2 and 3).

``theta_k(x) = prod_j x_j^{k_j}`` for exponents k, with feature weights ``tau_k`` of a free kernel and
``w_k = tau_k sum_i alpha_i theta_k(x_i)`` of a re-weighted one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from mkbo_plugins.core import doubledouble as dd
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints

EPS = float(np.finfo(float).eps) / 2
"""Unit roundoff of double precision."""

CHUNK = 1 << 21
"""Entries of a temporary, 16 MiB."""


def monomial_exponents(dimension: int, max_degree: int) -> np.ndarray:
    """Return the exponents of all monomials up to a degree, (M, dimension), by degree."""
    exponents = np.zeros((1, 0), dtype=int)
    for _ in range(dimension):
        choices = max_degree - exponents.sum(axis=1) + 1
        first = np.repeat(np.cumsum(choices) - choices, choices)
        exponents = np.column_stack([np.repeat(exponents, choices, axis=0), np.arange(len(first)) - first])
    return exponents[np.argsort(exponents.sum(axis=1), kind="stable")]


def monomials(X: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Return theta_k(x) for points X (n, d) and exponents (M, d), (n, M)."""
    values = np.ones((X.shape[0], exponents.shape[0]))
    for j in range(X.shape[1]):
        powers = X[:, j, None] ** np.arange(exponents[:, j].max(initial=0) + 1)
        values *= powers[:, exponents[:, j]]
    return values


def log_tau_squared(kernel: FreeKernel, exponents: np.ndarray) -> np.ndarray:
    """Return log tau_k^2 for exponents (M, d), (M,); minus infinity where the series lacks the degree."""
    degrees = exponents.sum(axis=1)
    log_kappa = np.array([kernel.log_coefficient(q) for q in range(int(degrees.max(initial=0)) + 1)])
    weights = np.ones(exponents.shape[1]) if kernel.weights is None else np.asarray(kernel.weights)
    log_multinomial = gammaln(degrees + 1) - gammaln(exponents + 1).sum(axis=1)
    return log_kappa[degrees] + log_multinomial + exponents @ np.log(weights)


def powers(points: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Return ``prod_j points_ij^{k_j}`` for points (N, d) and exponents (M, d), (M, N)."""
    values = np.ones((len(exponents), len(points)))
    for j in np.flatnonzero(exponents.any(axis=0)):
        values *= (points[:, j] ** np.arange(exponents[:, j].max() + 1)[:, None])[exponents[:, j]]
    return values


class Weights(NamedTuple):
    """Feature weights w_k, (M,), and bounds on their rounding errors, (M,)."""

    value: np.ndarray
    error: np.ndarray


def feature_weights(
    base: FreeKernel, tables: Sequence[WeightedPoints], exponents: np.ndarray, *, extended: bool = False
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
    relative = 4 * EPS * (8 + np.where(np.isfinite(log_tau), np.abs(log_tau), 0.0))
    error = np.zeros_like(value)
    for table in tables:
        total, of_total = (_extended_sums if extended else _sums)(base, table, exponents)
        value, error = value * total, error * (np.abs(total) + of_total) + np.abs(value) * of_total
    return Weights(value, error + relative * np.abs(value))


def _sums(base: FreeKernel, table: WeightedPoints, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``sum_i c_i theta_k(x_i)``, (M,), and error bounds, taking rounding errors as independent.

    Source of the latter: Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019.
    """
    log_damping = base.log_damping(table.points)
    damped = table.alpha * np.exp(log_damping)
    of_term = 4 * EPS * (4 + exponents.sum(axis=1) + float(np.abs(log_damping).max()))
    total, squares = np.empty(len(exponents)), np.empty(len(exponents))
    step = max(1, CHUNK // len(damped))
    for rows in (slice(start, start + step) for start in range(0, len(exponents), step)):
        values = powers(table.points, exponents[rows])
        total[rows] = values @ damped
        squares[rows] = values**2 @ damped**2
    return total, of_term * np.sqrt(squares)


def _extended_sums(base: FreeKernel, table: WeightedPoints, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_sums` does, summed in double-double arithmetic."""
    damped = damped_coefficients(base, table)
    size = float(np.abs(damped.hi).sum())
    total = np.empty(len(exponents))
    largest = np.empty(len(exponents))
    step = max(1, CHUNK // 4 // len(damped.hi))
    tables = [_power_table(table.points[:, j], int(exponents[:, j].max(initial=0))) for j in range(exponents.shape[1])]
    for start in range(0, len(exponents), step):
        rows = exponents[start : start + step]
        terms = dd.DoubleDouble(*(np.broadcast_to(part, (len(rows), len(part))) for part in damped))
        for j in np.flatnonzero(rows.any(axis=0)):
            terms = dd.multiply(terms, dd.DoubleDouble(*(part[rows[:, j]] for part in tables[j])))
        summed = dd.sum_axis(terms, 1)
        total[start : start + step] = summed.hi
        largest[start : start + step] = np.abs(terms.hi).max(axis=1)
    return total, EPS * np.abs(total) + 1e-28 * (np.minimum(size, largest * len(damped.hi)))


def _power_table(values: np.ndarray, degree: int) -> dd.DoubleDouble:
    """Return powers 0 to `degree` of values (N,), (degree + 1, N)."""
    rows = [dd.from_double(np.ones_like(values))]
    for _ in range(degree):
        rows.append(dd.multiply(rows[-1], dd.from_double(values)))
    return dd.DoubleDouble(*(np.stack(part) for part in zip(*rows, strict=True)))


def damped_coefficients(base: FreeKernel, table: WeightedPoints) -> dd.DoubleDouble:
    """Return ``alpha_i exp(-r ||x_i||^2)`` in double-double arithmetic, (N,)."""
    if base.damping_rate == 0:
        return dd.from_double(np.array(table.alpha))
    exponent = extended_exponent(base, table.points, table.points)
    factor = dd.exp(dd.scale(exponent, -0.5))
    return dd.multiply(factor, dd.from_double(np.array(table.alpha)))


def extended_exponent(base: FreeKernel, left: np.ndarray, right: np.ndarray) -> dd.DoubleDouble:
    """Return ``<<left_i, right_i>> / sigma``, (N,), in double-double arithmetic, for an exponential series."""
    products = extended_products(base, left, right)
    return dd.sum_axis(products, 1)


def extended_products(base: FreeKernel, left: np.ndarray, right: np.ndarray) -> dd.DoubleDouble:
    """Return ``weights_j left_ij right_ij / sigma``, (N, d), in double-double arithmetic."""
    sigma: float = getattr(base, "sigma", 1.0)
    weights = np.ones(left.shape[1]) if base.weights is None else np.asarray(base.weights)
    rate = weights / sigma
    remainder = dd.two_product(rate, np.full_like(rate, sigma))
    rates = dd.two_sum(rate, ((weights - remainder.hi) - remainder.lo) / sigma)
    products = dd.two_product(left + 0.0, right + 0.0)
    return dd.multiply(products, dd.DoubleDouble(*(np.broadcast_to(part, left.shape) for part in rates)))
