"""Tables too long to train on every row: few rows that fill the space stand for all of them."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core import FreeKernel
from mkbo_plugins.core.training.landmarks import LandmarkFit, landmark_fit
from mkbo_plugins.core.training.scatter import NO_SCATTER
from mkbo_plugins.errors import FitError
from mkbo_plugins.pretraining.trainers import noise_weights
from mkbo_plugins.tables.table import TrainingTable

STAND_INS = 500
"""Rows that stand for a longer table, where nobody says how many to train on."""


def regression(
    kernel: FreeKernel,
    X: Float[np.ndarray, "N d"],
    data: TrainingTable,
    landmarks: Float[np.ndarray, "m d"],
    variances: Float[np.ndarray, " N"] | None = None,
) -> LandmarkFit:
    """Return the kernel ridge regression on all rows of a table in the span of landmarks.

    Parameters
    ----------
    kernel
        Kernel with its weights.
    X
        Frame coordinates of all rows, (N, d).
    data
        The table.
    landmarks
        Frame coordinates of the points that span it, (m, d).
    variances
        Noise variance of each row, (N,), in units of the variance of a process of covariance K_2, whose posterior mean
        is returned; None takes weights from the table, and the penalty of least leave-one-out error.

    Raises
    ------
    FitError
        If double precision does not hold it.
    """
    settings: dict[str, Any] = {}
    weight = noise_weights(data) if data.noise is None else data.noise**-2
    if variances is not None:
        weight = 1 / variances
        settings["penalties"] = np.array([1 / (weight.mean() * np.mean(kernel(landmarks, landmarks)))])
    fit = None
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            fit = landmark_fit(kernel, X, data.y, landmarks, weight, data.groups, **settings)
        except (np.linalg.LinAlgError, ValueError):
            fit = None
    if fit is None or not (np.isfinite(fit.values).all() and np.isfinite(fit.residuals).all()):
        raise FitError("the kernel overflows on the table; mend rows far outside the bounds, or use kernel='se'")
    return fit


def stand_ins(sample: TrainingTable, fit: LandmarkFit) -> TrainingTable:
    """Return some rows of a table with the values and standard errors that a regression on all gives them."""
    return replace(sample, y=fit.values, sample_weight=None, noise=fit.errors, counts=None, scatter=NO_SCATTER)
