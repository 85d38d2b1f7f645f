"""Outcomes by their rank, so that those of campaigns with other units, scales and tails can be compared."""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri


def normal_scores(
    y: Float[np.ndarray, " N"],
    weight: Float[np.ndarray, " N"] | None = None,
    noise: Float[np.ndarray, " N"] | None = None,
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"] | None]:
    """Return normal quantiles of the shares of values below each value, (N,), and what noise is in their units.

    The share is that of smaller values and half of the equal ones, for equal weights (rank - 1/2) / N. No monotone
    change of the values changes their scores. Noise of a value y is the larger of the changes in score from y - noise
    to y and from y to y + noise, scores being interpolated between values and constant beyond them; and at least
    what it is on the line through the ends of both.

    Parameters
    ----------
    y
        At least two different values, (N,).
    weight
        Positive weights, (N,); None weighs all alike.
    noise
        Standard deviations of noise in units of `y`, (N,); None if not known.

    Source: D. Salinas, H. Shen, V. Perrone, "A quantile-based approach for hyperparameter transfer learning", ICML
    2020, section 4.1, with half a row instead of a cut at both ends.
    """
    values, where = np.unique(y, return_inverse=True)
    mass = np.bincount(where, weight)
    # From either end, since a share of nearly 1 has lost the digits that its quantile needs.
    below, above = ((np.cumsum(m) - m / 2) / mass.sum() for m in (mass, mass[::-1]))
    scores = np.where(below <= above[::-1], ndtri(below), -ndtri(above[::-1]))
    if noise is None:
        return scores[where], None
    less, own, more = (np.interp(y + step, values, scores) for step in (-noise, 0.0, noise))
    slope = np.ptp(scores) / np.ptp(values)
    return own, np.maximum(np.maximum(own - less, more - own), slope * noise)
