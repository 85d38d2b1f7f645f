"""Choice of few rows that stand for many."""

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist


def farthest_point_subset(X: Float[np.ndarray, "N d"], n: int) -> Int[np.ndarray, " n"]:
    """Pick rows one by one, each as far as can be from those before it, from the row nearest the mean on.

    Every row is then within twice the least possible distance of a picked one (Gonzalez, Theoretical Computer Science
    38 (1985) 293-306). Where more rows are wanted than there are different ones, equal ones are added evenly: a second
    of each, in the order of the first ones, then a third.

    Parameters
    ----------
    X
        Coordinates, (N, d).
    n
        Number of rows to pick, at most N.

    Returns
    -------
    ndarray
        Indices of the picked rows, (n,), in increasing order.
    """
    return np.sort(farthest_point_order(X, n))


def farthest_point_order(X: Float[np.ndarray, "N d"], n: int) -> Int[np.ndarray, " n"]:
    """Return the indices that `farthest_point_subset` picks, (n,), in the order of picking; arguments as there."""
    picked = [int(np.argmin(_squared_distances(X, X.mean(axis=0))))]
    nearest, owner = np.full(len(X), np.inf), np.zeros(len(X), dtype=int)
    while len(picked) < n:
        distances = _squared_distances(X, X[picked[-1]])
        owner[distances < nearest] = len(picked) - 1
        nearest = np.minimum(nearest, distances)
        if not np.max(nearest) > 0:
            picked = _in_turns(owner, picked)[:n].tolist()
            break
        picked.append(int(np.argmax(nearest)))
    return np.array(picked)


def farthest_points_beside(present: Float[np.ndarray, "P d"], X: Float[np.ndarray, "N d"], n: int) -> list[int]:
    """Return indices of rows as far as can be from points that are there and from one another, in the order of picking.

    Parameters
    ----------
    present
        Points that are there, (P, d).
    X
        Coordinates, (N, d).
    n
        Most rows to pick; rows equal to another point are not picked.
    """
    nearest = cdist(X, present, "sqeuclidean").min(axis=1)
    picked: list[int] = []
    while len(picked) < n and nearest.max() > 0:
        picked.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, _squared_distances(X, X[picked[-1]]))
    return picked


def _in_turns(owner: Int[np.ndarray, " N"], picked: list[int]) -> Int[np.ndarray, " N"]:
    """Return all rows: those picked, then another one of each's own, (N,) places among the picked, and so on."""
    rows = np.concatenate([picked, np.setdiff1d(np.arange(len(owner)), picked)])
    rows = rows[np.argsort(owner[rows], kind="stable")]
    counts = np.bincount(owner)
    turn = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows[np.argsort(turn, kind="stable")]


def _squared_distances(X: Float[np.ndarray, "N d"], point: Float[np.ndarray, " d"]) -> Float[np.ndarray, " N"]:
    return np.sum((X - point) ** 2, axis=1)
