"""Coordinate weights that several tables share, by the sum of their log evidences.

Each table is a process of its own, of one covariance and one noise variance: what a table of few rows cannot say of its
length scales, the others do.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.training.ard import TableEvidence, fit_weights


class SharedArd(NamedTuple):
    """What tables share.

    Parameters
    ----------
    kernel
        The kernel with its weights.
    amplitude
        Variance of the processes in units of K_2.
    noise
        Variance of the noise.
    converged
        Whether the optimiser met its tolerance.
    """

    kernel: FreeKernel
    amplitude: float
    noise: float
    converged: bool


def shared_ard(
    tables: Sequence[TableEvidence],
    ranges: Float[np.ndarray, " d"],
    *,
    ard: bool,
    report: Callable[[int, int | None], None] | None = None,
) -> SharedArd:
    """Fit the processes of several tables by maximum a posteriori, with common hyperparameters.

    Parameters
    ----------
    tables
        Each table's evidence as a function of log weights, log amplitude and log noise, its values standardised.
    ranges, ard, report
        As for `mkbo_plugins.core.training.ard.ard_map`.
    """

    def log_evidence(theta: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        values, slopes = zip(*(table.log_evidence(theta) for table in tables), strict=True)
        return float(sum(values)), np.sum(slopes, axis=0)

    fit = fit_weights(log_evidence, ranges, ard=ard, report=report)
    kernel, amplitude, noise = tables[0].unpack(fit.x)
    return SharedArd(kernel, amplitude, noise, bool(fit.success))
