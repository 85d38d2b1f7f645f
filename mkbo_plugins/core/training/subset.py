"""Choice of few rows that stand for many."""

import numpy as np
from jaxtyping import Float, Int


def farthest_point_subset(X: Float[np.ndarray, "N d"], n: int) -> Int[np.ndarray, " n"]:
    """Pick rows one by one, each as far as can be from those before it, from the row nearest the mean on.

    Every row is then within twice the least possible distance of a picked one (Gonzalez, Theoretical Computer Science
    38 (1985) 293-306).

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
    nearest = np.full(len(X), np.inf)
    while len(picked) < n:
        nearest = np.minimum(nearest, _squared_distances(X, X[picked[-1]]))
        nearest[picked[-1]] = -1.0
        picked.append(int(np.argmax(nearest)))
    return np.array(picked)


def _squared_distances(X: Float[np.ndarray, "N d"], point: Float[np.ndarray, " d"]) -> Float[np.ndarray, " N"]:
    return np.sum((X - point) ** 2, axis=1)
