"""Choice of a few good points that do not crowd."""

import numpy as np

from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.normalisation import normalise

RESOLVED = 1e-8
"""Posterior variance below which a point is taken as known: dividing by less would only amplify rounding."""


def upper_confidence_design(
    merit: np.ndarray, kernel: FreeKernel, candidates: np.ndarray, n: int, *, present: np.ndarray | None = None
) -> np.ndarray:
    """Pick points one by one by merit plus one posterior standard deviation given the points picked before.

    The standard deviation is that of a process with the normalised kernel; it falls to zero at picked points and
    recovers with distance from them (pivoted Cholesky factorisation, one column a pick).

    Parameters
    ----------
    merit
        Standardised merit of each candidate, (N,).
    kernel
        Free kernel that measures likeness.
    candidates
        Frame coordinates, (N, d).
    n
        Number of points, at most N.
    present
        Frame coordinates of points that are there already, (P, d).

    Returns
    -------
    ndarray
        Indices of the picked candidates, (n,), in order of choice.
    """
    likeness, given = normalise(kernel), 0 if present is None else len(present)
    points = candidates if present is None else np.concatenate([present, candidates])
    variance = np.ones(len(points))
    columns = np.zeros((len(points), 0))
    picked: list[int] = []
    for pick in range(given + n):
        score = np.concatenate([np.full(given, -np.inf), merit + np.sqrt(np.maximum(variance[given:], 0))])
        score[picked] = -np.inf
        best = pick if pick < given else int(np.argmax(score))
        picked.append(best)
        if variance[best] < RESOLVED:
            continue
        column = likeness.gram(points, points[best : best + 1])[:, 0] - columns @ columns[best]
        column /= np.sqrt(variance[best])
        columns = np.column_stack([columns, column])
        variance = variance - column**2
    return np.array(picked[given:]) - given
