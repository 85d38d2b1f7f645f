"""Choice of a few good points that do not crowd."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.gp.spacing import Spacing

RESOLVED = 1e-8
"""Posterior variance below which a point is taken as known: dividing by less would only amplify rounding."""


def distance_to_front(values: Float[np.ndarray, "N k"]) -> Float[np.ndarray, " N"]:
    """Return how far each candidate lies behind the Pareto front of all: 0 on it.

    That is the largest lead that another has in every objective at once (the additive epsilon indicator of Zitzler et
    al., IEEE Trans. Evol. Comput. 7, 117, 2003); of a single objective, what is missing to its maximum.

    Parameters
    ----------
    values
        Objectives, large ones wanted, (N, k).

    Returns
    -------
    ndarray
        Distances, (N,).
    """
    return (values[None, :, :] - values[:, None, :]).min(axis=2).max(axis=1)


def upper_confidence_design(
    score: Float[np.ndarray, " N"],
    correlation: Callable[[np.ndarray, np.ndarray], np.ndarray],
    candidates: Float[np.ndarray, "N d"],
    n: int,
    *,
    present: Float[np.ndarray, "P d"] | None = None,
    spacing: Spacing | None = None,
) -> Int[np.ndarray, " n"]:
    """Pick points one by one by score plus one posterior standard deviation given the points picked before.

    The standard deviation is that of a process with unit variance and the given correlation; it falls to zero at picked
    points and recovers with distance from them (pivoted Cholesky factorisation, one column a pick).

    Parameters
    ----------
    score
        Standardised score of each candidate, (N,).
    correlation
        Correlation between points (n, d) and (n', d), (n, n'), 1 between equal ones.
    candidates
        Frame coordinates, (N, d).
    n
        Number of points, at most N.
    present
        Frame coordinates of points that are there already, (P, d).
    spacing
        What distance to keep, however alike the correlation takes points to be; None keeps none. Where no candidate is
        far enough, half the distance will do, and so on.

    Returns
    -------
    ndarray
        Indices of the picked candidates, (n,), in order of choice.
    """
    offset = 0 if present is None else len(present)
    points = candidates if present is None else np.concatenate([present, candidates])
    variance = np.ones(len(points))
    columns = np.zeros((len(points), 0))
    picked: list[int] = []
    free = np.ones(len(candidates), dtype=bool)
    spacing = Spacing(candidates, candidates[:0], 0.0) if spacing is None else spacing
    room = spacing.room()
    for pick in range(offset + n):
        if pick < offset:
            best = pick
        else:
            optimistic = score + np.sqrt(np.maximum(variance[offset:], 0))
            chosen = int(np.argmax(np.where(spacing.keeping(room, free), optimistic, -np.inf)))
            free[chosen] = False
            room = spacing.reduced(room, chosen)
            best = offset + chosen
        picked.append(best)
        if variance[best] < RESOLVED:
            continue
        column = correlation(points, points[best : best + 1])[:, 0] - columns @ columns[best]
        column /= np.sqrt(variance[best])
        columns = np.column_stack([columns, column])
        variance = variance - column**2
    return np.array(picked[offset:]) - offset
