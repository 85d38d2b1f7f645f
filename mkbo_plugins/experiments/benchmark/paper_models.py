"""The models of the paper's experiments: scales and noise maximise the likelihood, and have no priors.

Source: Shilton et al., arXiv 1802.05370, section 5.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.spatial.distance import cdist

from mkbo_plugins.core.gp.exact_gp import ExactGP
from mkbo_plugins.core.gp.map_fit import lowest_minimum
from mkbo_plugins.core.gp.moments import Moments, posterior_moments
from mkbo_plugins.experiments.benchmark.lookup import Lookup

NOISE_BOUNDS = (1e-4, 1e1)
"""Bounds of noise variances that no prior holds, in units of the standardised target's."""

FEATURE_STARTS, FEATURE_BOUNDS = (0.02, 0.1, 0.5), (1e-4, 1e2)
"""Lengths among features where searches begin and end, in units of the root of K^E's mean diagonal over the table."""


def _most_likely(
    kernel: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]],
    pairs: np.ndarray,
    diagonal: np.ndarray,
    indices: np.ndarray,
    z: np.ndarray,
    starts: Sequence[float],
    bounds: tuple[float, float],
) -> Moments:
    """Return moments of the process whose scale and noise maximise the likelihood of z (n,).

    Parameters
    ----------
    kernel
        Function of what it depends on and of the scale's logarithm to covariances and their derivatives in the latter.
    pairs, diagonal
        What it depends on, between candidates tried and all, (n, M), and of each candidate with itself, (M,).
    indices, z
        Numbers and standardised values of the candidates tried.
    starts, bounds
        Logarithms of the scale where searches begin, and between which they stay.
    """
    tried, identity = pairs[:, indices], np.eye(len(z))

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        covariance, of_scale = kernel(tried, theta[0])
        process = ExactGP.conditioned(covariance + np.exp(theta[1]) * identity, z)
        slope = process.evidence_slope()
        return -process.log_evidence, -np.array([np.sum(slope * of_scale), np.exp(theta[1]) * np.trace(slope)])

    limits = np.array([bounds, np.log(NOISE_BOUNDS)])
    log_scale, log_noise = lowest_minimum(loss, [np.array([start, math.log(1e-2)]) for start in starts], limits).x
    process = ExactGP.conditioned(kernel(tried, log_scale)[0] + np.exp(log_noise) * identity, z)
    cross = kernel(pairs, log_scale)[0].T
    return posterior_moments(process, cross, kernel(diagonal, log_scale)[0], cross, indices, math.exp(log_noise))


def _squared_exponential(squares: np.ndarray, log_length: float) -> tuple[np.ndarray, np.ndarray]:
    """Return exp(-squares / (2 length^2)) and its derivative in the logarithm of the length."""
    scaled = squares * math.exp(-2 * log_length)
    gram = np.exp(-scaled / 2)
    return gram, gram * scaled


def _multiple(gram: np.ndarray, log_scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the scale times a kernel, which is its own derivative in the logarithm of the scale."""
    scaled = math.exp(log_scale) * gram
    return scaled, scaled


def _noise_alone(gram: np.ndarray, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of a process of unit scale whose noise maximises the likelihood of z (n,)."""
    return _most_likely(_multiple, gram[indices], np.diag(gram), indices, z, [0.0], (0.0, 0.0))


def isotropic(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of a squared exponential with one length scale; it and the noise maximise the likelihood."""
    squares = cdist(lookup.unit[indices], lookup.unit, "sqeuclidean")
    starts = [math.log(length * math.sqrt(lookup.unit.shape[1])) for length in (0.1, 0.5)]
    bounds = (math.log(0.02), math.log(10.0))
    return _most_likely(_squared_exponential, squares, np.zeros(len(lookup.unit)), indices, z, starts, bounds)


def two_layer(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of a squared exponential of the features of K^E, not normalised.

    Its one length scale among features and the noise maximise the likelihood.
    """
    squares = lookup.gram("feature_distance")
    starts = [math.log(length) for length in FEATURE_STARTS]
    bounds = (math.log(FEATURE_BOUNDS[0]), math.log(FEATURE_BOUNDS[1]))
    return _most_likely(_squared_exponential, squares[indices], np.diag(squares), indices, z, starts, bounds)


def normalised(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of K^E normalised; the noise maximises the likelihood."""
    return _noise_alone(lookup.gram("normalised"), indices, z)


def mixture(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of the kernel mixture fitted to the table; the noise maximises the likelihood."""
    return _noise_alone(lookup.mixture_gram, indices, z)


def scaled_mixture(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of the kernel mixture fitted to the table; its scale and the noise maximise the likelihood."""
    gram, bounds = lookup.mixture_gram, (math.log(1e-3), math.log(1e3))
    return _most_likely(_multiple, gram[indices], np.diag(gram), indices, z, [0.0], bounds)
