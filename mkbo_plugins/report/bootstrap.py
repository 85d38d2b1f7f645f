"""Intervals by resampling."""

import numpy as np

DRAWS = 10_000


def bootstrap_interval(values: np.ndarray) -> np.ndarray:
    """Return the ends (2, ...) of a 95 % interval of the mean over runs (runs, ...), by resampling runs.

    Applied to paired differences between two models, it is the paired bootstrap. The resampling is the same each time.
    """
    return np.asarray(np.quantile(resampled_means(values), [0.025, 0.975], axis=0))


def resampled_means(values: np.ndarray) -> np.ndarray:
    """Return means over runs (runs, ...) drawn with replacement, (draws, ...)."""
    values = np.asarray(values)
    picks = np.random.default_rng(0).integers(0, len(values), (DRAWS, len(values)))
    return np.asarray(values[picks].mean(axis=1))
