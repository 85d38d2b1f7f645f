"""Peers: what people do with an old table without re-weighting a kernel by it."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from mkbo_plugins.core.gp.form_model import Points, length_scale_prior
from mkbo_plugins.core.gp.posterior_fit import NOISE, log_bounds, log_prior, prior_mode
from mkbo_plugins.core.gp.process import Process
from mkbo_plugins.experiments.benchmark.lookup import Lookup


class Moments(NamedTuple):
    """Mean and variance of the function at every candidate, and the variance of the noise."""

    mean: np.ndarray
    variance: np.ndarray
    noise: float


RANK_SAMPLES = 256
"""Draws by which ranking losses are compared."""

NOISE_BOUNDS = (1e-4, 1e1)
"""Bounds of noise variances that no prior holds, in units of the standardised target's."""

STEPS = 20
"""Steps of a multi-task search, each of which costs a hundred times a stock one."""


def _most_likely(
    z: np.ndarray,
    covariance: Callable[[float], tuple[np.ndarray, np.ndarray]],
    starts: Sequence[float],
    bounds: tuple[float, float],
) -> tuple[float, float, Process]:
    """Return the logarithm of a scale, the noise variance and the process that maximise the likelihood of z (n,).

    Parameters
    ----------
    z
        Standardised values.
    covariance
        Function of the scale's logarithm to the covariance (n, n) and its derivative.
    starts, bounds
        Logarithms where searches begin, and between which they stay.
    """

    def conditioned(theta: np.ndarray) -> Process:
        return Process.conditioned(covariance(theta[0])[0] + np.exp(theta[1]) * np.eye(len(z)), z)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        process = conditioned(theta)
        slope = process.evidence_slope()
        gradient = [np.sum(slope * covariance(theta[0])[1]), np.exp(theta[1]) * np.trace(slope)]
        return -process.log_evidence, -np.array(gradient)

    limits = [bounds, tuple(np.log(NOISE_BOUNDS))]
    fits = [
        minimize(objective, [start, math.log(1e-2)], jac=True, method="L-BFGS-B", bounds=limits) for start in starts
    ]
    theta = min(fits, key=lambda fit: float(fit.fun)).x
    return float(theta[0]), math.exp(theta[1]), conditioned(theta)


def isotropic(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of a squared exponential with one length scale; it and the noise maximise the likelihood.

    This is the comparison model of the paper.
    """
    distance = cdist(lookup.unit[indices], lookup.unit, "sqeuclidean")
    seen = distance[:, indices]

    def covariance(log_length: float) -> tuple[np.ndarray, np.ndarray]:
        scaled = seen * math.exp(-2 * log_length)
        gram = np.exp(-scaled / 2)
        return gram, gram * scaled

    starts = [math.log(length * math.sqrt(lookup.unit.shape[1])) for length in (0.1, 0.5)]
    log_length, noise, process = _most_likely(z, covariance, starts, (math.log(0.02), math.log(10.0)))
    cross = np.exp(-distance.T * math.exp(-2 * log_length) / 2)
    return Moments(process.predict_mean(cross), 1 - (process.explained(cross) ** 2).sum(axis=0), noise)


def kernel_mixture(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of the kernel mixture fitted to the table; its scale and the noise maximise the likelihood.

    Source: Shilton et al., arXiv 1802.05370, experiments.
    """
    gram = lookup.mixture_gram[indices]
    seen = gram[:, indices]

    def covariance(log_scale: float) -> tuple[np.ndarray, np.ndarray]:
        scaled = math.exp(log_scale) * seen
        return scaled, scaled

    log_scale, noise, process = _most_likely(z, covariance, [0.0], (math.log(1e-3), math.log(1e3)))
    scale = math.exp(log_scale)
    cross = scale * gram.T
    prior = scale * np.diag(lookup.mixture_gram)
    return Moments(process.predict_mean(cross), prior - (process.explained(cross) ** 2).sum(axis=0), noise)


def stacked(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of the stock process of what the table's process leaves unexplained, around its mean.

    Source: Golovin et al., "Google Vizier", KDD 2017, with the table as the only earlier study.
    """
    prior = lookup.source_moments[0]
    residual = z - prior[indices]
    spread = float(residual.std(ddof=1)) or 1.0
    fit = lookup.fit("stock", indices, residual / spread)
    mean, variance = fit.moments()
    return Moments(prior + spread * mean, spread**2 * variance, spread**2 * fit.noise)


def _joint_draws(mean: np.ndarray, covariance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + rng.standard_normal((RANK_SAMPLES, len(mean))) @ root.T


def _misranked(draws: np.ndarray, others: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return for each draw (S, n), compared with others (S or 1, n), how many pairs it ranks other than z (n,)."""
    return ((draws[:, :, None] < others[:, None, :]) != (z[:, None] < z[None, :])).sum(axis=(1, 2))


def rgpe(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of the ranking-weighted ensemble of the table's process and the stock process.

    Source: Feurer, Letham and Bakshy, "Scalable meta-learning for Bayesian optimization", 2018, with leave-one-out
    predictions of the stock process; ties go to it.
    """
    rng = np.random.default_rng(len(z))
    table_mean, table_variance = lookup.source_moments
    points = Points(np.empty((len(z), 0)), lookup.unit[indices])
    fit = lookup.fit("stock", indices, z)
    mean, variance = fit.moments()
    process = fit.posterior.process
    precision = np.diag(process.inverse)
    held_out = z - process.dual / precision + rng.standard_normal((RANK_SAMPLES, len(z))) / np.sqrt(precision)
    # A held-out draw is compared with the values of the others.
    own = _misranked(held_out, z[None, :], z)
    draws = _joint_draws(*lookup.source_process.joint(points), rng)
    table = _misranked(draws, draws, z)
    weight = float(np.mean(table < own))
    return Moments(
        weight * table_mean + (1 - weight) * mean,
        weight**2 * table_variance + (1 - weight) ** 2 * variance,
        fit.noise,
    )


def multitask(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of a process over both tasks: B (x) k, k the stock covariance and B any 2 x 2 covariance.

    Source: Bonilla, Chai and Williams, "Multi-task Gaussian process prediction", 2007. Each task is standardised and
    has its own noise; the length scales and noises have the stock priors, the elements of B's factor normal ones.
    """
    n, unit = len(lookup.source_z), lookup.unit
    X, y = np.concatenate([lookup.source_unit, unit[indices]]), np.concatenate([lookup.source_z, z])
    task = (np.arange(len(X)) >= n).astype(int)
    y = y - np.where(task == 1, z.mean(), 0.0)
    squares = (X[:, None, :] - X[None, :, :]) ** 2
    d = unit.shape[1]
    priors = (*[length_scale_prior(d)] * d, NOISE, NOISE)

    def covariance(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        root = np.array([[np.exp(theta[-3]), 0.0], [theta[-2], np.exp(theta[-1])]])
        gram = np.exp(-squares @ (np.exp(-2 * theta[:d]) / 2))
        return root, gram, np.exp(theta[d : d + 2])[task]

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        root, gram, noise = covariance(theta)
        between = (root @ root.T)[task][:, task]
        factor = cholesky(between * gram + np.diag(noise), lower=True)
        dual = cho_solve((factor, True), y)
        slope = (np.outer(dual, dual) - cho_solve((factor, True), np.eye(len(y)))) / 2
        value = -y @ dual / 2 - np.log(np.diag(factor)).sum()
        scaled = slope * between * gram
        of_length = np.tensordot(scaled, squares) * np.exp(-2 * theta[:d])
        of_noise = [np.sum(np.diag(slope)[task == t]) * np.exp(theta[d + t]) for t in (0, 1)]
        blocks = np.array([[np.sum((slope * gram)[np.ix_(task == s, task == t)]) for t in (0, 1)] for s in (0, 1)])
        of_root = 2 * blocks @ root
        of_root = np.array([of_root[0, 0] * root[0, 0], of_root[1, 0], of_root[1, 1] * root[1, 1]])
        prior, of_prior = log_prior(theta[:-3], priors)
        free = theta[-3:]
        gradient = np.concatenate([np.concatenate([of_length, of_noise]) + of_prior, of_root - free])
        return -(value + prior - free @ free / 2), -gradient

    bounds = [*map(tuple, log_bounds(priors)), (-3.0, 3.0), (-10.0, 10.0), (-5.0, 3.0)]
    lengths = lookup.source_process.theta
    x0 = np.concatenate([lengths, np.log([0.02, prior_mode(NOISE)]), [0.0, 0.7, math.log(0.7)]])
    # The search begins at the length scales of the table, which is most of the data.
    found = minimize(objective, x0, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    theta = found.x
    root, gram, noise = covariance(theta)
    B = root @ root.T
    factor = cholesky(B[task][:, task] * gram + np.diag(noise), lower=True)
    cross = B[1, task] * np.exp(-cdist(unit / np.exp(theta[:d]), X / np.exp(theta[:d]), "sqeuclidean") / 2)
    explained = solve_triangular(factor, cross.T, lower=True)
    mean = z.mean() + cross @ cho_solve((factor, True), y)
    return Moments(mean, B[1, 1] - (explained**2).sum(axis=0), float(noise[-1]))
