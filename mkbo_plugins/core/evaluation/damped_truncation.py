"""Features that are small everywhere in a box once points are damped, and can be left out of distances.

A feature that matters beside a small diagonal, to which errors are relative otherwise, may be nothing beside the unit
in which distances between features are measured.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.evaluation.feature_sum import FeatureSum
from mkbo_plugins.core.evaluation.monomials import subset
from mkbo_plugins.core.kernels import FreeKernel


def without_small(features: FeatureSum, base: FreeKernel, radius: float, largest: float) -> FeatureSum:
    """Return the fewest features that leave out no more than `largest` of a damped diagonal anywhere in a box.

    Parameters
    ----------
    features
        Features of a re-weighted kernel in the box.
    base
        The free kernel, which damps points.
    radius
        Half-width of the box.
    largest
        Bound on the sum of what is left out, in units of ``S(x * x)`` with both arguments damped.
    """
    monomials = features.monomials
    with np.errstate(divide="ignore"):
        log_squares = np.log(features.weights**2 + features.rounding + features.charges)
    sizes = np.exp(log_squares + 2 * features.log_unit + _log_peaks(monomials.float_exponents, base, radius))
    order = np.argsort(sizes)
    mask = np.ones(len(monomials), bool)
    mask[order[: np.searchsorted(np.cumsum(sizes[order]), largest, side="right")]] = False
    mask[0] = True
    # A monomial is computed from its parent, so that this one stays.
    for start, stop in reversed(list(pairwise(monomials.layers[1:]))):
        mask[monomials.parents[start:stop][mask[start:stop]]] = True
    return replace(
        features,
        monomials=subset(monomials, mask),
        weights=features.weights[mask],
        rounding=features.rounding[mask],
        charges=features.charges[mask],
    )


def _log_peaks(exponents: Float[np.ndarray, "M d"], base: FreeKernel, radius: float) -> Float[np.ndarray, " M"]:
    """Return logarithms of the largest squares of damped monomials, ``x^{2k} exp(-2 r sum_j lambda_j x_j^2)``, (M,)."""
    rates = 2 * base.damping_rate * np.asarray(base.weighted(np.ones((1, exponents.shape[1]))))[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Each coordinate has its own factor, largest at x_j^2 = k_j / rate_j or at the edge.
        squares = np.minimum(np.where(exponents > 0, exponents / rates, 0.0), radius**2)
        logs = np.where(exponents > 0, exponents * np.log(squares), 0.0)
    return (logs - rates * squares).sum(axis=1)
