"""Explicit monomial features of free kernels (Theorems 2 and 3).

``theta_k(x) = prod_j x_j^{k_j}`` for exponents k, with feature weights ``tau_k`` of a free kernel and
``w_k = tau_k sum_i alpha_i theta_k(x_i)`` of a re-weighted one.
"""

import math

import numpy as np
from scipy.special import gammaln

from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.reweighting import ReweightedKernel


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


def feature_weights(kernel: ReweightedKernel, exponents: np.ndarray) -> np.ndarray:
    """Return the feature weights w_k of a re-weighted kernel for exponents (M, d), (M,).

    For the squared exponential each alpha_i carries the damping of its point, as Theorem 3 requires.
    """
    weights = np.exp(log_tau_squared(kernel.base, exponents) / 2)
    for table in kernel.tables:
        damped = table.alpha * np.exp(kernel.base.log_damping(table.points))
        weights = weights * (damped @ monomials(table.points, exponents))
    return weights


def parameter_shares(
    kernel: ReweightedKernel, owners: tuple[str, ...], points: np.ndarray, max_features: int = 20_000
) -> tuple[dict[frozenset[str], float], float]:
    """Return how the prior variance over `points` divides among sets of parameters.

    Parameters
    ----------
    kernel
        The re-weighted kernel.
    owners
        Name of the parameter that each coordinate belongs to, length d.
    points
        Frame coordinates, (n, d), over which a feature's variance is taken.
    max_features
        Degrees are added until their monomials would exceed this number.

    Returns
    -------
    shares
        For each set of parameters, the summed variance of the features that involve exactly these, as a share; empty
        where the features overflow or vanish, as they do when length scales are small in many dimensions.
    captured
        Mean over `points` of the part of K^E(x, x) that the enumerated features account for, as a share.
    """
    dimension = points.shape[1]
    limit = kernel.base.degree_limit
    degree = 1
    while degree < limit and math.comb(dimension + degree + 1, dimension) <= max_features:
        degree += 1
    exponents = monomial_exponents(dimension, degree)
    log_damping = kernel.base.log_damping(points)
    whole = kernel.evaluator.pointwise(points * points)
    with np.errstate(over="ignore", invalid="ignore"):
        values = feature_weights(kernel, exponents) * monomials(points, exponents) * np.exp(log_damping)[:, None]
        diagonal = whole.mantissa * np.exp(whole.log_scale + 2 * log_damping)
        variances = values.var(axis=0)
    shares: dict[frozenset[str], float] = {}
    for row, variance in zip(exponents, variances, strict=True):
        involved = frozenset(owners[j] for j in np.flatnonzero(row))
        shares[involved] = shares.get(involved, 0.0) + float(variance)
    shares.pop(frozenset(), None)
    total = sum(shares.values())
    if not (math.isfinite(total) and total > 0):
        return {}, 0.0
    ordered = sorted(shares.items(), key=lambda item: (-item[1], sorted(item[0])))
    return {involved: share / total for involved, share in ordered}, float((values**2).sum() / diagonal.sum())
