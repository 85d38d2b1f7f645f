"""Measures of sample efficiency."""

import numpy as np


def normalised_regret(best_so_far: np.ndarray, best: float, worst: float) -> np.ndarray:
    """Return (best - best_so_far) / (best - worst), of the shape of `best_so_far`, between 0 and 1."""
    return (best - np.asarray(best_so_far)) / (best - worst)


def trials_to(regret: np.ndarray, level: float) -> np.ndarray:
    """Return the number of trials until regret (runs, trials) is at most `level`, or one more than tried."""
    reached = np.asarray(regret) <= level
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, reached.shape[1] + 1)
