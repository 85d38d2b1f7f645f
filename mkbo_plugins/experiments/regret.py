"""Measures of sample efficiency."""

import numpy as np


def normalised_regret(best_so_far: np.ndarray, best: float, worst: float) -> np.ndarray:
    """Return (best - best_so_far) / (best - worst), of the shape of `best_so_far`, between 0 and 1."""
    return (best - np.asarray(best_so_far)) / (best - worst)


def trials_to(regret: np.ndarray, level: float) -> np.ndarray:
    """Return the number of trials until regret (runs, trials) is at most `level`, or one more than tried."""
    reached = np.asarray(regret) <= level
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, reached.shape[1] + 1)


def bootstrap_interval(values: np.ndarray, draws: int = 10_000) -> np.ndarray:
    """Return the ends (2, ...) of a 95 % interval of the mean over runs (runs, ...), by resampling runs.

    Applied to paired differences between two models, it is the paired bootstrap. The resampling is the same each time.
    """
    values = np.asarray(values)
    picks = np.random.default_rng(0).integers(0, len(values), (draws, len(values)))
    return np.asarray(np.quantile(values[picks].mean(axis=1), [0.025, 0.975], axis=0))
