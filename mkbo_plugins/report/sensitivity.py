"""What a pre-trained covariance, and the prediction of its table, vary with."""

from typing import NamedTuple

import numpy as np
from scipy.stats import sobol_indices

from mkbo_plugins.core.components.shares import parameter_shares
from mkbo_plugins.core.sobol import sobol_points
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.pretrained import only_table

_PRIOR_POINTS, _POINTS = 512, 1024


class Sensitivity(NamedTuple):
    """Shares of the variance of a prediction over a space.

    Parameters
    ----------
    alone
        Share that a parameter explains by itself, first-order Sobol index.
    total
        Share that is lost when the parameter is kept constant, its interactions included, total Sobol index.
    """

    alone: float
    total: float


def prior_shares(cov: Covariance) -> tuple[dict[frozenset[str], float], float]:
    """Return how the prior variance of K^E over its space divides among sets of parameters.

    Parameters
    ----------
    cov
        The covariance of a single table.

    Returns
    -------
    shares, captured
        As of `mkbo_plugins.core.components.shares.parameter_shares`.

    Raises
    ------
    KernelError
        If there are several tables.
    """
    cov = only_table(cov)
    points = np.asarray(cov.space.to_coordinates(cov.space.sobol(_PRIOR_POINTS), cov.frame))
    return parameter_shares(cov.fixed.kernel, cov.space.coordinate_owners, points)


def prediction_sensitivity(cov: Covariance) -> dict[str, Sensitivity]:
    """Return each parameter's shares of the variance of the table's prediction over its space.

    Parameters are spread evenly between their bounds, in the logarithm on a log scale, independently of one another,
    whatever constraints the space has.
    These are shares of one function, the prediction g, where those of `prior_shares` are of the prior
    variance of K^E, of which each feature has either sign: powers of a parameter that cancel in g count there.

    Parameters
    ----------
    cov
        The covariance of a single table.

    Raises
    ------
    KernelError
        If there are several tables.

    Notes
    -----
    Source of the estimators: Saltelli et al., Computer Physics Communications 181 (2010) 259, as SciPy has them.
    """
    cov = only_table(cov)
    space, d = cov.space, len(cov.space.parameters)
    if d == 1:  # SciPy ends in an error where there is nothing to share
        return {space.names[0]: Sensitivity(1.0, 1.0)}

    def predict(unit: np.ndarray) -> np.ndarray:
        return np.asarray(cov.fixed.standardised_decision(space.to_coordinates(space.from_unit(unit), cov.frame)))

    draws = sobol_points(2 * d, _POINTS, 0)
    first, second = draws[:, :d], draws[:, d:]
    exchanged = []
    for j in range(d):
        mixed = first.copy()
        mixed[:, j] = second[:, j]
        exchanged.append(predict(mixed)[None])
    values = {"f_A": predict(first)[None], "f_B": predict(second)[None], "f_AB": np.stack(exchanged)}
    found = sobol_indices(func=values, n=_POINTS)
    shares = zip(np.ravel(found.first_order), np.ravel(found.total_order), strict=True)
    return {
        name: Sensitivity(*(float(np.clip(share, 0.0, 1.0)) for share in pair))  # estimates may stray a little
        for name, pair in zip(space.names, shares, strict=True)
    }
