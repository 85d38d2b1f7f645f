"""Evidence of a form with its hyperparameters integrated out, by Laplace's approximation."""

from collections.abc import Sequence
from typing import NamedTuple

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


class Evidence(NamedTuple):
    """An integral over hyperparameters.

    Parameters
    ----------
    log
        Its logarithm, the log evidence.
    mode
        Logarithms of the hyperparameters at the maximum that holds most of it, (p,).
    """

    log: float
    mode: Float[np.ndarray, " p"]


def laplace_evidence(density: PosteriorDensity, starts: Sequence[Float[np.ndarray, " p"]] = ()) -> Evidence:
    """Return the log evidence with the hyperparameters integrated out.

    In logarithms divided by their standard deviations under the prior, u, the prior is a unit normal density, so that
    at a maximum of the integrand in u each direction costs half the logarithm of one plus the curvature that the data
    adds; curvature below 0 counts as 0. The maxima found from the hosts' starting point, from the prior medians and
    from further starting points (p,) are added up. What lies between maxima is left out or counted twice. Tests compare
    ratios of forms with importance sampling: on noise, where maxima are many and flat, they are off by up to 1.5 units.
    """
    priors = density.priors
    means = np.array([prior.log_mean for prior in priors])
    stds = np.array([prior.log_spread for prior in priors])
    maxima: list[np.ndarray] = []
    for start in (density.usual_start, means, *starts):
        u = (density.maximise([start], log_prior_of_logarithms) - means) / stds
        if all(np.abs(u - other).max(initial=0.0) > SAME_MAXIMUM for other in maxima):
            maxima.append(u)
    logs = [_about(density, means, stds, u) for u in maxima]
    return Evidence(float(logsumexp(logs)), means + stds * maxima[int(np.argmax(logs))])


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
