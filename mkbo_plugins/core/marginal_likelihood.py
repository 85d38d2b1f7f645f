"""Evidence of a form with its hyperparameters integrated out, by importance sampling about Laplace's approximation."""

import numpy as np
from scipy.special import logsumexp

from mkbo_plugins.core.posterior_fit import PosteriorDensity, log_bounds, log_prior_of_logarithms

CURVATURE_STEP = 1e-3
"""Step of the differences that give the curvature, in prior spreads."""

SAMPLES = 256
"""Draws from each of the two densities; on the benchmark's problems the result is then within about 0.2."""


def log_marginal(density: PosteriorDensity) -> float:
    """Return the log evidence with the hyperparameters integrated out.

    In logarithms divided by their prior spreads, u, the prior is a unit normal density. Half of the draws are from it,
    half from a normal density about the maximum of the integrand with the curvature there, and each counts with its
    weight under the mixture of both (Owen and Zhou, JASA 95, 135, 2000). Laplace's approximation alone is one or two
    units too low where many length scales do equally well. The same density has the same result.
    """
    priors = density.priors
    means = np.array([prior.log_mean for prior in priors])
    spreads = np.array([prior.log_spread for prior in priors])
    theta = density.maximise([density.usual_start, means], log_prior_of_logarithms)
    slopes = [
        density.log_evidence(theta + step)[1] - density.log_evidence(theta - step)[1]
        for step in CURVATURE_STEP * np.diag(spreads)
    ]
    curvature = -np.array(slopes) * spreads / (2 * CURVATURE_STEP)
    eigenvalues, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    roots = 1 / np.sqrt(1 + np.maximum(eigenvalues, 0.0))
    mode = (theta - means) / spreads
    normal = np.random.default_rng(0).standard_normal((2, SAMPLES, len(priors)))
    u = np.concatenate([normal[0], mode + (normal[1] * roots) @ vectors.T])
    about_mode = ((u - mode) @ vectors) / roots
    log_densities = np.stack(
        [-(u**2).sum(axis=1) / 2, -(about_mode**2).sum(axis=1) / 2 - np.log(roots).sum()]
    )  # both up to the same constant
    bounds = log_bounds(priors)
    evidence = [density.posterior(row).process.log_evidence for row in np.clip(means + spreads * u, *bounds.T)]
    weights = log_densities[0] - (logsumexp(log_densities, axis=0) - np.log(2))
    return float(logsumexp(np.array(evidence) + weights) - np.log(len(u)))
