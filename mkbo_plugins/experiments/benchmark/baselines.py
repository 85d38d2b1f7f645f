"""Peers: what people do with an old table without re-weighting a kernel by it."""

import math

import numpy as np
from scipy.spatial.distance import cdist

from mkbo_plugins.core.gp.exact_gp import ExactGP, held_out_residuals
from mkbo_plugins.core.gp.map_fit import lowest_minimum
from mkbo_plugins.core.gp.moments import Moments, posterior_moments, spread_of
from mkbo_plugins.core.priors import NOISE, length_scale_prior, log_bounds, log_prior, prior_mode
from mkbo_plugins.experiments.benchmark.lookup import Lookup

RANK_SAMPLES = 256
"""Draws by which ranking losses are compared."""

STEPS = 20
"""Steps of a multi-task search, each of which costs a hundred times a stock one."""


def stacked(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of the stock process of what the table's process leaves unexplained, around its mean.

    Source: Golovin et al., "Google Vizier", KDD 2017, with the table as the only earlier study.
    """
    residual = z - lookup.source_mean[indices]
    std = spread_of(residual)
    return lookup.candidates.fit("stock", indices, residual / std).moments.scaled(std).around(lookup.source_mean)


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
    predictions of the stock process; ties go to it. Against dilution of weights, as there, the table is left out where
    its median ranking loss is above the 95th percentile of the stock process's.
    """
    rng = np.random.default_rng(len(z))
    table = lookup.source_moments(indices)
    fit = lookup.candidates.fit("stock", indices, z)
    inverse, dual = fit.posterior.process.inverse, fit.posterior.process.dual
    noise = rng.standard_normal((RANK_SAMPLES, len(z))) / np.sqrt(np.diag(inverse))
    held_out = z - held_out_residuals(inverse, dual) + noise
    # A held-out draw is compared with the values of the others.
    own = _misranked(held_out, z[None, :], z)
    draws = _joint_draws(table.mean[indices], table.with_tried[indices], rng)
    of_table = _misranked(draws, draws, z)
    diluting = np.median(of_table) > np.quantile(own, 0.95)
    weight = 0.0 if diluting else float(np.mean(of_table < own))
    first, second = table.scaled(weight), fit.moments.scaled(1 - weight)
    mean, variance, with_tried = (a + b for a, b in zip(first[:3], second[:3], strict=True))
    return Moments(mean, variance, with_tried, fit.moments.noise)


def multitask(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Moments:
    """Return moments of a process over both tasks: B (x) k, k the stock covariance and B any 2 x 2 covariance.

    Source: Bonilla, Chai and Williams, "Multi-task Gaussian process prediction", 2007. Each task is standardised and
    has its own noise; the length scales and noises have the stock priors, the elements of B's factor normal ones.
    """
    n, unit = len(lookup.source_z), lookup.unit
    X, y = np.concatenate([lookup.source_unit, unit[indices]]), np.concatenate([lookup.source_z, z])
    task = (np.arange(len(X)) >= n).astype(int)
    y = y - np.where(task == 1, z.mean(), 0.0)
    squares, d = (X[:, None, :] - X[None, :, :]) ** 2, unit.shape[1]
    priors = (*[length_scale_prior(d)] * d, NOISE, NOISE)

    def covariance(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        root = np.array([[np.exp(theta[-3]), 0.0], [theta[-2], np.exp(theta[-1])]])
        gram = np.exp(-squares @ (np.exp(-2 * theta[:d]) / 2))
        return root, gram, np.exp(theta[d : d + 2])[task]

    def conditioned(root: np.ndarray, gram: np.ndarray, noise: np.ndarray) -> ExactGP:
        return ExactGP.conditioned((root @ root.T)[task][:, task] * gram + np.diag(noise), y, mean=0.0)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        root, gram, noise = covariance(theta)
        process = conditioned(root, gram, noise)
        slope = process.evidence_slope()
        scaled = slope * (root @ root.T)[task][:, task] * gram
        of_length = np.tensordot(scaled, squares) * np.exp(-2 * theta[:d])
        of_noise = [np.sum(np.diag(slope)[task == t]) * np.exp(theta[d + t]) for t in (0, 1)]
        blocks = np.array([[np.sum((slope * gram)[np.ix_(task == s, task == t)]) for t in (0, 1)] for s in (0, 1)])
        of_root = 2 * blocks @ root
        of_root = np.array([of_root[0, 0] * root[0, 0], of_root[1, 0], of_root[1, 1] * root[1, 1]])
        prior, of_prior = log_prior(theta[:-3], priors)
        free = theta[-3:]
        gradient = np.concatenate([np.concatenate([of_length, of_noise]) + of_prior, of_root - free])
        return -(-process.deviance / 2 + prior - free @ free / 2), -gradient

    bounds = np.concatenate([log_bounds(priors), [(-3.0, 3.0), (-10.0, 10.0), (-5.0, 3.0)]])
    lengths = lookup.source_process.theta
    # The search begins at the length scales of the table, which is most of the data.
    start = np.concatenate([lengths, np.log([0.02, prior_mode(NOISE)]), [0.0, 0.7, math.log(0.7)]])
    theta = lowest_minimum(loss, [start], bounds, options={"maxiter": STEPS}).x
    root, gram, noise = covariance(theta)
    B = root @ root.T
    cross = B[1, task] * np.exp(-cdist(unit / np.exp(theta[:d]), X / np.exp(theta[:d]), "sqeuclidean") / 2)
    process = conditioned(root, gram, noise)
    moments = posterior_moments(process, cross, B[1, 1], cross[:, n:], indices, float(noise[-1]))
    return moments.around(np.full(len(unit), z.mean()))
