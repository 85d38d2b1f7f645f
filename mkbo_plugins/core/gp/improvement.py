"""Expected improvement of every candidate of a pool, as logarithms."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cholesky, solve_triangular
from scipy.special import erfcx, log_ndtr, logsumexp, ndtri

from mkbo_plugins.core.gp.moments import Moments
from mkbo_plugins.core.sobol import sobol_points

SMALLEST_VARIANCE = 1e-12

DRAWS = 64
"""Draws of the function at what was tried, over which noisy expected improvement is averaged."""

JITTER = 1e-9
"""Variance added to the function at what was tried, so that its covariance has a Cholesky factor."""


def log_expected_improvement(
    mean: Float[np.ndarray, "..."], variance: Float[np.ndarray, "..."], best: Float[np.ndarray, "..."] | float
) -> Float[np.ndarray, "..."]:
    """Return the logarithm of E max(f - best, 0), stable where it is tiny, of the shape that all are broadcast to.

    Source: Ament et al., "Unexpected improvements to expected improvement", 2023, section 4.1.
    """
    deviation = np.sqrt(np.maximum(variance, SMALLEST_VARIANCE))
    u = (mean - best) / deviation
    log_pdf = -(u**2) / 2 - np.log(2 * np.pi) / 2
    low = np.minimum(u, -1.0)
    # phi + u Phi = phi (1 + u Phi / phi), Phi / phi = sqrt(pi / 2) erfcx(-u / sqrt 2)
    tail = np.log1p(np.maximum(low * np.sqrt(np.pi / 2) * erfcx(-low / np.sqrt(2)), -1 + 1e-16))
    high = np.maximum(u, -1.0)
    body = np.log(np.exp(-(high**2) / 2) / np.sqrt(2 * np.pi) + high * np.exp(log_ndtr(high)))
    return np.where(u < -1, log_pdf + tail, body) + np.log(deviation)


def log_noisy_improvement(moments: Moments, indices: Int[np.ndarray, " n"]) -> Float[np.ndarray, " M"]:
    """Return the logarithm of the expected improvement on the function at what was tried, (M,).

    Source: Letham et al., "Constrained Bayesian optimization with noisy experiments", Bayesian Analysis 14, 495, 2019,
    section 4: expected improvement given the function at what was tried, averaged over draws of that.

    Parameters
    ----------
    moments
        Posterior of the function.
    indices
        Numbers of the candidates tried, (n,).
    """
    tried, first = np.unique(indices, return_index=True)
    normal = _normal_draws(len(tried))
    mean, variance, with_tried, _ = moments
    factor = cholesky(with_tried[tried][:, first] + JITTER * np.eye(len(tried)), lower=True)
    root = solve_triangular(factor, with_tried[:, first].T, lower=True)
    given = mean + normal @ root
    best = (mean[tried] + normal @ factor.T).max(axis=1, keepdims=True)
    left = variance - (root**2).sum(axis=0)
    return logsumexp(log_expected_improvement(given, left, best), axis=0) - np.log(DRAWS)


@lru_cache(maxsize=64)
def _normal_draws(dimension: int) -> Float[np.ndarray, "draws n"]:
    """Return quasi-random normal draws, (DRAWS, dimension), the same each time."""
    return ndtri(np.clip(sobol_points(dimension, DRAWS, 0), 1e-12, 1 - 1e-12))
