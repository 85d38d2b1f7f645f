"""Hyperparameters of greatest posterior density: log evidence plus log prior, climbed from several starting points."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.optimize import OptimizeResult, minimize

from mkbo_plugins.core.priors import Hyperparameter, log_bounds, log_prior

Differentiable: TypeAlias = Callable[..., tuple[float, np.ndarray]]
"""Function of parameters (p,), and perhaps more, to a value and its gradient in them, (p,)."""

REJECTED = 1e10
"""What stands for an infinite loss, from which no search could go on."""

SAME_MINIMUM = 1e-8
"""Relative difference of losses of one and the same minimum, a few times the last step of a search."""


def lowest_minimum(
    loss: Differentiable, starts: Iterable[Float[np.ndarray, " p"]], bounds: Float[np.ndarray, "p 2"], **settings: Any
) -> OptimizeResult:
    """Return the lowest of the local minima found by L-BFGS-B from starts (p,) moved between the bounds (p, 2).

    It counts as a success where any search that ended at the same value does. Further settings are those of
    `scipy.optimize.minimize`.
    """
    fits = [minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, **settings) for start in starts]
    lowest = min(fits, key=lambda fit: float(fit.fun))
    # A line search in the valley of the minimum may end on rounding, where another one meets the same criterion.
    lowest.success = any(fit.success and np.isclose(fit.fun, lowest.fun, rtol=SAME_MINIMUM, atol=0.0) for fit in fits)
    return lowest


def map_fit(
    log_evidence: Differentiable,
    priors: Sequence[Hyperparameter],
    starts: Iterable[Float[np.ndarray, " p"]],
    prior: Differentiable = log_prior,
    **settings: Any,
) -> OptimizeResult:
    """Return where the posterior density of hyperparameters is greatest, as the logarithms ``x``, (p,).

    Parameters
    ----------
    log_evidence
        Log evidence up to a constant, minus infinity where there is none, as a function of the logarithms.
    priors
        Prior of each hyperparameter.
    starts
        Logarithms of hyperparameters, (p,) each.
    prior
        Log density of logarithms under these priors.
    **settings
        As for `lowest_minimum`.
    """

    def loss(theta: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        (evidence, of_evidence), (added, of_added) = log_evidence(theta), prior(theta, priors)
        if evidence == -np.inf:
            return REJECTED, np.zeros_like(theta)
        return -evidence - added, -of_evidence - of_added

    return lowest_minimum(loss, starts, log_bounds(priors), **settings)
