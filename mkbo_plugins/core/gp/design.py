"""Choice of a few good points that do not crowd."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.gp.spacing import Picker, Spacing

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
    picker = Picker(Spacing(candidates, candidates[:0], 0.0) if spacing is None else spacing)
    for pick in range(offset + n):
        best = pick if pick < offset else offset + picker.pick(score + np.sqrt(np.maximum(variance[offset:], 0)))
        picked.append(best)
        if variance[best] < RESOLVED:
            continue
        column = correlation(points, points[best : best + 1])[:, 0] - columns @ columns[best]
        column /= np.sqrt(variance[best])
        columns = np.column_stack([columns, column])
        variance = variance - column**2
    return np.array(picked[offset:]) - offset


def portfolio_design(
    predictions: Float[np.ndarray, "N M"],
    n: int,
    *,
    present: Float[np.ndarray, "P M"] | None = None,
    spacing: Spacing | None = None,
) -> Int[np.ndarray, " n"]:
    """Pick points one by one, each for the largest gain on the best of those before, on the mean over M functions.

    Functions are taken to be as likely as one another, so that the gain is the expected improvement if the one looked
    for is like one of them; what no function gains from is ranked by its mean. Each pick is the best next one; as the
    gain is submodular, n of them reach 1 - 1/e of what the best n would (Nemhauser, Wolsey and Fisher, Math. Program.
    14 (1978) 265-294).

    Parameters
    ----------
    predictions
        What each function is at the candidates, (N, M), large values wanted.
    n
        Number of points, at most N.
    present
        What the functions are at points that are there already, (P, M).
    spacing
        As for `upper_confidence_design`.

    Returns
    -------
    ndarray
        Indices of the picked candidates, (n,), in order of choice.
    """
    picker = Picker(Spacing(predictions, predictions[:0], 0.0) if spacing is None else spacing)
    best = np.full(predictions.shape[1], -np.inf) if present is None else present.max(axis=0, initial=-np.inf)
    mean = predictions.mean(axis=1)
    picked: list[int] = []
    for _ in range(n):
        gain = np.maximum(predictions - best, 0.0).mean(axis=1) if np.isfinite(best).all() else mean
        # Nothing is gained where every function has been better already: then the best on the mean comes next.
        picked.append(picker.pick(gain if np.max(gain, where=picker.free, initial=-np.inf) > 0 else mean))
        best = np.maximum(best, predictions[picked[-1]])
    return np.array(picked)
