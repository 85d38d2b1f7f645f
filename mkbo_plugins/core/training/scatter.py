"""Means of values that were measured at the same point, and how far the values scatter about them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Scatter(NamedTuple):
    """What repeated measurements show of their noise."""

    sum_of_squares: float
    """Weighted sum of squared deviations from the means."""
    freedom: int
    """Degrees of freedom: number of values less that of means."""

    @property
    def variance(self) -> float:
        """Pooled variance of a value of weight 1."""
        return self.sum_of_squares / self.freedom


def weighted_means(
    values: Float[np.ndarray, " N"], members: Int[np.ndarray, " N"], weight: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, " K"], Scatter]:
    """Return the means of K groups of values, (K,), and the scatter about them.

    If noise has the variance s^2 / weight, a mean has s^2 over the sum of its weights, and all that the values say
    about anything but s is in the means: the density of the values is that of the means times a factor
    ``s^-freedom exp(-sum_of_squares / (2 s^2))``.

    Parameters
    ----------
    values
        Values, (N,).
    members
        Group of each, from 0 to K - 1, (N,).
    weight
        Positive weights, (N,).
    """
    means = np.bincount(members, weight * values) / np.bincount(members, weight)
    deviations = values - means[members]
    return means, Scatter(float(weight @ deviations**2), len(values) - len(means))


NO_SCATTER = Scatter(0.0, 0)
"""What single measurements show of their noise."""
