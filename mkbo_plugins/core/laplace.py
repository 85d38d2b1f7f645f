"""Evidence of a form with its hyperparameters integrated out, by Laplace's approximation."""

import numpy as np

from mkbo_plugins.core.posterior_fit import PosteriorDensity

CURVATURE_STEP = 1e-3
"""Step of the differences that give the curvature, in prior spreads."""


def log_marginal(density: PosteriorDensity, theta: np.ndarray) -> float:
    """Return the log evidence with the hyperparameters integrated out, from their maximum theta (p,).

    In logarithms divided by their prior spreads the prior is a unit normal density, so that each direction costs half
    the logarithm of one plus the curvature that the data adds. Curvature below 0 counts as 0.
    """
    priors = density.priors
    spreads = np.array([prior.log_spread for prior in priors])
    u = (theta - np.array([prior.log_mean for prior in priors])) / spreads
    slopes = [
        density.log_evidence(theta + step)[1] - density.log_evidence(theta - step)[1]
        for step in CURVATURE_STEP * np.diag(spreads)
    ]
    curvature = -np.array(slopes) * spreads / (2 * CURVATURE_STEP)
    eigenvalues = np.maximum(np.linalg.eigvalsh((curvature + curvature.T) / 2), 0.0)
    return density.log_evidence(theta)[0] - float(u @ u) / 2 - float(np.log1p(eigenvalues).sum()) / 2
