"""The kernel mixture of the paper's baseline, fitted to a table."""

from typing import Any, Literal

import numpy as np

from mkbo_plugins.core.mixture.kernel_mixture import fit_kernel_mixture
from mkbo_plugins.covariance.mixture import MixtureCovariance
from mkbo_plugins.space.parameters import Frame
from mkbo_plugins.space.space import ParameterSpace, check_frame
from mkbo_plugins.tables.replicates import joined_replicates
from mkbo_plugins.tables.table import read_table


def pretrain_mixture(
    table: Any,
    target: str | None,
    space: ParameterSpace,
    frame: Frame = "centred",
    *,
    missing: Literal["error", "drop"] = "error",
) -> MixtureCovariance:
    """Fit a mixture of a squared exponential, a Matérn 1/2 and a Matérn 3/2 to a table by leave-one-out error.

    Of rows that repeat the same settings, the mean is taken.

    Parameters
    ----------
    table, target, space, frame, missing
        As for `pretrain`.

    Raises
    ------
    MkboError
        If the table or a setting cannot be used.

    Notes
    -----
    Source: the baseline of Shilton et al., arXiv 1802.05370, experiments. Cost is that of some hundred inversions of
    an (N, N) matrix.
    """
    check_frame(frame)
    rows = joined_replicates(read_table(table, target, space, missing=missing))
    fit = fit_kernel_mixture(np.asarray(space.to_coordinates(rows.X, frame)), rows.y)
    return MixtureCovariance(space, frame, fit.mixture, rows.target, fit.loo_mse)
