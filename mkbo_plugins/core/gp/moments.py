"""What a model says of a pool: mean and variance of every candidate, and its covariance with those tried."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.gp.exact_gp import ExactGP


class Moments(NamedTuple):
    """Posterior of the function, without noise, at M candidates of which n were tried.

    Parameters
    ----------
    mean, variance
        Of every candidate, (M,).
    with_tried
        Covariance of every candidate with those tried, (M, n).
    noise
        Variance of the noise.
    """

    mean: Float[np.ndarray, " M"]
    variance: Float[np.ndarray, " M"]
    with_tried: Float[np.ndarray, "M n"]
    noise: float

    def scaled(self, factor: float) -> "Moments":
        """Return the moments of the function times a factor."""
        return Moments(
            factor * self.mean, factor**2 * self.variance, factor**2 * self.with_tried, factor**2 * self.noise
        )

    def around(self, mean: Float[np.ndarray, " M"]) -> "Moments":
        """Return the moments of the function plus a known one, (M,)."""
        return self._replace(mean=mean + self.mean)


def posterior_moments(
    process: ExactGP,
    cross: Float[np.ndarray, "M N"],
    variance: Float[np.ndarray, " M"] | float,
    with_tried: Float[np.ndarray, "M n"],
    indices: Int[np.ndarray, " n"],
    noise: float,
) -> Moments:
    """Return the moments of a process conditioned on data.

    Parameters
    ----------
    process
        The process.
    cross
        Prior covariances of candidates with the data, (M, N).
    variance
        Prior variance of every candidate, (M,) or a constant.
    with_tried
        Prior covariances of candidates with those tried, (M, n).
    indices
        Numbers of those tried, (n,).
    noise
        Variance of the noise.
    """
    whitened = process.whitened(cross)
    return Moments(
        process.predict_mean(cross),
        variance - (whitened**2).sum(axis=0),
        with_tried - whitened.T @ whitened[:, indices],
        noise,
    )


def spread_of(values: Float[np.ndarray, " n"]) -> float:
    """Return the standard deviation of values (n,), or 1 where all are equal or there is one."""
    return float(values.std(ddof=1)) or 1.0 if len(values) > 1 else 1.0
