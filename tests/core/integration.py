"""Log evidence with hyperparameters integrated out by importance sampling, written from the formulas of the forms."""

import numpy as np
from scipy.special import logsumexp, ndtri
from scipy.stats import multivariate_t, qmc

from mkbo_plugins.core.priors import HYPERPARAMETERS, NOISE, length_scale_prior, log_bounds

SAMPLES = 2**13
ROUNDS = 5
PRIOR_SHARE = 0.25
SCALES = {
    "stock": (),
    "moment": ("output_scale", "moment_scale"),
    "link": ("output_scale", "moment_scale", "link_scale", "link_width"),
}


def log_evidences(form, theta, g, x, z):
    """Return the log evidence of values z (n,) at each of the logarithms theta (S, p); g (n,), x in [0, 1]^k (n, k)."""
    scales = dict(zip(SCALES[form], np.exp(theta.T[..., None, None]), strict=False))
    lengths, noise = np.exp(theta[:, len(scales) : -1]), np.exp(theta[:, -1])
    far = ((x[:, None] - x[None, :]) ** 2 / lengths[:, None, None] ** 2).sum(axis=-1)
    K = scales.get("output_scale", 1.0) * np.exp(-far / 2)
    if "moment_scale" in scales:
        K = K + scales["moment_scale"] * np.outer(g, g)
    if "link_scale" in scales:
        K = K + scales["link_scale"] * np.exp(-((g[:, None] - g) ** 2) / (2 * scales["link_width"]))
    K = K + noise[:, None, None] * np.eye(len(z))
    sides = np.broadcast_to(np.stack([z, np.ones(len(z))], axis=-1), (len(K), len(z), 2))
    of_z, of_one = np.moveaxis(np.linalg.solve(K, sides), -1, 0)
    centre = of_z.sum(axis=1) / of_one.sum(axis=1)
    quadratic = of_z @ z - centre * of_z.sum(axis=1)
    return -(quadratic + np.linalg.slogdet(K)[1] + len(z) * np.log(2 * np.pi)) / 2


def sampled_log_evidence(form, g, x, z, seed=0):
    """Return the log evidence and the effective number of samples of the last round.

    Samples come from the prior, and from a Student distribution with the moments of the samples before; where these are
    few, their weights are tempered.
    """
    k = x.shape[1]
    priors = [*(HYPERPARAMETERS[name] for name in SCALES[form]), *[length_scale_prior(k)] * k, NOISE]
    means, stds = (np.array([getattr(p, name) for p in priors]) for name in ("log_mean", "log_spread"))
    low, high = log_bounds(priors).T
    rng, p = np.random.default_rng(seed), len(priors)

    def log_prior(u):
        return -(u**2).sum(axis=1) / 2 - p * np.log(2 * np.pi) / 2

    def log_likelihood(u):
        theta = means + stds * u
        within = ((theta >= low) & (theta <= high)).all(axis=1)
        return np.where(within, log_evidences(form, np.clip(theta, low, high), g, x, z), -np.inf)

    u = ndtri(np.clip(qmc.Sobol(p, rng=rng).random(SAMPLES), 1e-12, 1 - 1e-12))
    logs = log_likelihood(u)
    for _ in range(ROUNDS):
        power = 1.0
        while effective(power * logs) < 30 * p:
            power *= 0.7
        weights = np.exp(power * logs - logsumexp(power * logs))
        centre = weights @ u
        spread = (weights[:, None] * (u - centre)).T @ (u - centre) + 1e-4 * np.eye(p)
        proposal = multivariate_t(centre, spread, df=5, seed=rng)
        of_prior = int(PRIOR_SHARE * SAMPLES)
        u = np.concatenate([rng.standard_normal((of_prior, p)), proposal.rvs(SAMPLES - of_prior).reshape(-1, p)])
        density = np.logaddexp(log_prior(u) + np.log(PRIOR_SHARE), proposal.logpdf(u) + np.log(1 - PRIOR_SHARE))
        logs = log_likelihood(u) + log_prior(u) - density
    return logsumexp(logs) - np.log(SAMPLES), effective(logs)


def effective(logs):
    """Return how many samples with such log weights (S,) count."""
    return np.exp(2 * logsumexp(logs) - logsumexp(2 * logs))
