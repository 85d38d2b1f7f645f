"""Hyperparameters with their log-normal priors and bounds, those of forms and of the table's own process."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Hyperparameter:
    """A learned scale with its log-normal prior and bounds.

    Parameters
    ----------
    log_mean, log_spread
        Mean and standard deviation of the scale's logarithm under the prior.
    lower, upper
        Bounds of the scale.
    """

    log_mean: float
    log_spread: float
    lower: float
    upper: float


HYPERPARAMETERS: Mapping[str, Hyperparameter] = MappingProxyType(
    {
        "output_scale": Hyperparameter(0.0, 1.0, lower=1e-20, upper=1e4),
        "moment_scale": Hyperparameter(0.0, 1.5, lower=1e-20, upper=1e4),
        "feature_scale": Hyperparameter(0.0, 1.5, lower=1e-20, upper=1e20),
        "similarity_scale": Hyperparameter(0.0, 1.0, lower=1e-20, upper=1e4),
        "link_scale": Hyperparameter(0.0, 1.5, lower=1e-20, upper=1e4),
        "link_width": Hyperparameter(0.0, 1.0, lower=5e-3, upper=1e4),
    }
)
"""The learned scales: a, b, c and e of the forms, in units of the standardised target's variance; s, in units of the
mean diagonal of K^E; and t, in units of the variance of g over the table's rows.
The priors are weak enough for b -> 0, c -> 0, e -> 0 and s -> infinity, where a form becomes the stock model, and the
bounds include these limits. Variances end at 1e4, so that an optimiser's first long step cannot reach a covariance that
is numerically singular beside the least noise."""

NEAR_STOCK: Mapping[str, float] = MappingProxyType(
    {
        "moment_scale": math.exp(-2.0),
        "feature_scale": math.exp(3.0),
        "similarity_scale": math.exp(-2.0),
        "link_scale": math.exp(-2.0),
    }
)
"""Scales on the way to the limits at which a form is the stock model, near enough that a search from there finds what
the stock model has found, and far enough that it still feels the table."""

NOISE = Hyperparameter(-4.0, 1.0, lower=1e-4, upper=1e2)
"""Noise variance in units of the standardised target's variance.

Source: as for `length_scale_prior`; the lower bound is BoTorch's.
"""

LONGEST = 1e3
"""Length scale at which a coordinate of a table no longer counts."""


def length_scale_prior(dimension: int) -> Hyperparameter:
    """Return the prior on each of `dimension` length scales of unit-scaled inputs.

    Source: Hvarfner, Hellsten and Nardi, "Vanilla Bayesian optimization performs great in high dimensions", 2024.
    """
    return Hyperparameter(math.sqrt(2) + math.log(dimension) / 2, math.sqrt(3), lower=2.5e-2, upper=1e6)


def table_priors(ranges: Float[np.ndarray, " d"], *, ard: bool) -> tuple[Hyperparameter, ...]:
    """Return the priors of a table's own process: of its coordinate weights, its amplitude and its noise variance.

    A weight is a length scale to the power of -2, in units of the width that its coordinate spans, `ranges` (d,); with
    `ard` each coordinate has its own, else all share one. Tables may be exact, so that the noise has a wider range.
    """
    length = length_scale_prior(len(ranges))
    log_means = -2 * (length.log_mean + np.log(ranges))
    if not ard:
        log_means = log_means.mean(keepdims=True)
    weights = (Hyperparameter(mean, 2 * length.log_spread, LONGEST**-2, length.lower**-2) for mean in log_means)
    amplitude = Hyperparameter(0.0, 1.0, lower=math.exp(-8), upper=math.exp(8))
    return (*weights, amplitude, replace(NOISE, lower=math.exp(-14), upper=math.exp(4)))


def log_bounds(priors: Iterable[Hyperparameter]) -> Float[np.ndarray, "p 2"]:
    """Return bounds on the hyperparameters' logarithms, (p, 2)."""
    return np.array([(math.log(prior.lower), math.log(prior.upper)) for prior in priors]).reshape(-1, 2)


def log_prior_of_logarithms(
    theta: Float[np.ndarray, " p"], priors: Sequence[Hyperparameter]
) -> tuple[float, Float[np.ndarray, " p"]]:
    """Return the log density of the logarithms theta (p,) of hyperparameters, up to a constant, and its gradient (p,).

    Integrals over hyperparameters, unlike their most likely values, do not depend on which density is taken; an
    expansion of the integrand about its maximum is good in the coordinates in which the prior is normal.
    """
    stds = np.array([prior.log_spread for prior in priors])
    standardised = (theta - np.array([prior.log_mean for prior in priors])) / stds
    return -float(standardised @ standardised) / 2, -standardised / stds


def log_prior(
    theta: Float[np.ndarray, " p"], priors: Sequence[Hyperparameter]
) -> tuple[float, Float[np.ndarray, " p"]]:
    """Return the log density of hyperparameters exp(theta), up to a constant, and its gradient in theta, (p,).

    It is the density in the hyperparameters themselves, so that its maximum is that of BoTorch's models.
    """
    value, slope = log_prior_of_logarithms(theta, priors)
    return value - float(theta.sum()), slope - 1


def prior_mode(prior: Hyperparameter) -> float:
    """Return the most likely value of a hyperparameter under its prior and bounds."""
    return max(prior.lower, math.exp(prior.log_mean - prior.log_spread**2))
