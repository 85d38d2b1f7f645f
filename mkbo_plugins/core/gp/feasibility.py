"""How likely an experiment is to give an outcome at all, by those that did and those that failed nearby."""

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist
from scipy.stats import norm

from mkbo_plugins.core.gp.bayes_factor import FEWEST
from mkbo_plugins.core.gp.exact_gp import ExactGP

NOISE = 0.01
"""Variance of labels, in units of what the process has before anything was tried."""


def log_success(
    points: Float[np.ndarray, "M k"],
    succeeded: Float[np.ndarray, "n k"],
    failed: Float[np.ndarray, "f k"],
    length: float,
) -> Float[np.ndarray, " M"]:
    """Return the logarithms of the chances that experiments do not fail, (M,); 0 if none has failed.

    A Gaussian process with unit variance and a squared exponential covariance has the value 1 where an experiment
    succeeded, -1 where one failed, and the mean 1 where nothing was tried; the chance is that of its being above 0.

    Parameters
    ----------
    points
        Unit-scaled inputs of the experiments, (M, k).
    succeeded, failed
        Those of experiments with an outcome, (n, k), and of failed ones, (f, k).
    length
        Length scale.

    Notes
    -----
    Source: least-squares classification, Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, 6.5.
    """
    if not len(failed):
        return np.zeros(len(points))
    known = np.concatenate([succeeded, failed])
    surprise = np.repeat([0.0, -2.0], [len(succeeded), len(failed)])
    covariance = _covariance(known, known, length) + NOISE * np.eye(len(known))
    process = ExactGP.conditioned(covariance, surprise, mean=0.0)
    mean, variance = process.predict(_covariance(known, points, length).T, 1 + NOISE)
    return norm.logcdf((1 + mean) / np.sqrt(variance))


def _covariance(X: Float[np.ndarray, "n k"], Y: Float[np.ndarray, "m k"], length: float) -> Float[np.ndarray, "n m"]:
    return np.exp(-((cdist(X, Y) / length) ** 2) / 2)


def is_discredited(failed: int, succeeded: int) -> bool:
    """Return whether so many experiments failed that what proposed them should propose no more of them.

    They are as many as a model needs outcomes, and more than gave one.
    """
    return failed >= FEWEST and failed > succeeded
