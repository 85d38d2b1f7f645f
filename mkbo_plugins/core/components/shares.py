"""How the prior variance of a re-weighted kernel divides among parameters."""

import math

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.evaluation.features import monomial_exponents, monomial_weights, monomials
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel


def parameter_shares(
    kernel: ReweightedKernel, owners: tuple[str, ...], points: Float[np.ndarray, "n d"], max_features: int = 20_000
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
    log_damping = kernel.log_damping(points)
    with np.errstate(over="ignore", invalid="ignore"):
        values = (
            monomial_weights(kernel.base, kernel.tables, exponents).value
            * monomials(points, exponents).T
            * np.exp(log_damping)[:, None]
        )
        diagonal = np.asarray(kernel(points, points))
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
