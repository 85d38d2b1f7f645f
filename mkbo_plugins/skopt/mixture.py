"""The kernel mixture, a baseline, as a regressor."""

from collections.abc import Mapping, Sequence
from typing import Any

from mkbo_plugins.core.mixture.parts import PART
from mkbo_plugins.covariance.mixture import MixtureCovariance
from mkbo_plugins.skopt.regressor import PretrainedRegressor, pretrained_regressor


def mixture_regressor(
    mixture: MixtureCovariance,
    dimensions: Any,
    names: Sequence[str] | Mapping[str, str] | None = None,
    **options: Any,
) -> PretrainedRegressor:
    """Return a regressor with a kernel mixture fitted to a table, to be passed as ``base_estimator``.

    Parameters
    ----------
    mixture
        The mixture.
    dimensions, names
        As for `pretrained_regressor`.
    **options
        Further keyword arguments of it.

    Raises
    ------
    MkboError
        If dimensions, mixture or settings do not fit together.
    """
    return pretrained_regressor(mixture, dimensions, PART, names, **options)
