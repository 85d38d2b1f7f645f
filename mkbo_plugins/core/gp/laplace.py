"""Evidence of a form with its hyperparameters integrated out, by Laplace's approximation."""

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from mkbo_plugins.core.gp.posterior import PosteriorDensity
from mkbo_plugins.core.priors import log_prior_of_logarithms

CURVATURE_STEP = 1e-3
"""Step of the differences that give the curvature, in standard deviations of the prior."""

SAME_MAXIMUM = 0.1
"""Distance up to which two searches have ended at the same maximum, in the prior's standard deviations of each
hyperparameter."""


def laplace_log_evidence(density: PosteriorDensity) -> float:
    """Return the log evidence with the hyperparameters integrated out.

    In logarithms divided by their standard deviations under the prior, u, the prior is a unit normal density, so that
    at a maximum of the integrand in u each direction costs half the logarithm of one plus the curvature that the data
    adds; curvature below 0 counts as 0. The maxima found from the hosts' starting point and from the prior medians are
    added up. What lies between maxima is left out, which is one or two units for some data, but much the same ones for
    every form.
    """
    priors = density.priors
    means = np.array([prior.log_mean for prior in priors])
    stds = np.array([prior.log_spread for prior in priors])
    maxima: list[np.ndarray] = []
    for start in (density.usual_start, means):
        u = (density.maximise([start], log_prior_of_logarithms) - means) / stds
        if all(np.abs(u - other).max(initial=0.0) > SAME_MAXIMUM for other in maxima):
            maxima.append(u)
    return float(logsumexp([_about(density, means, stds, u) for u in maxima]))


def _about(
    density: PosteriorDensity, means: Float[np.ndarray, " p"], stds: Float[np.ndarray, " p"], u: Float[np.ndarray, " p"]
) -> float:
    """Return the log integral of the normal density that is like the integrand at a maximum u (p,)."""
    theta = means + stds * u
    # Gradients are exact, so that one difference of them is a whole row of the curvature.
    slopes = [
        density.log_evidence(theta + step)[1] - density.log_evidence(theta - step)[1]
        for step in CURVATURE_STEP * np.diag(stds)
    ]
    # In units of the prior's standard deviations, in which its own curvature is 1.
    curvature = -np.array(slopes) * stds / (2 * CURVATURE_STEP)
    # Differences are symmetric up to their error only.
    eigenvalues = np.maximum(np.linalg.eigvalsh((curvature + curvature.T) / 2), 0.0)
    at_maximum = density.log_evidence(theta)[0] + log_prior_of_logarithms(theta, density.priors)[0]
    return at_maximum - float(np.log1p(eigenvalues).sum()) / 2
