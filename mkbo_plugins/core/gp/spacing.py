"""Least distances between experiments, and points scattered so that they keep them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist

SHARE = 0.2
"""Share of the range of a parameter."""

ROUNDING = 1e-9
"""Relative error by which equidistant points may lie nearer."""


def least_distance(parameters: int) -> float:
    """Return the distance between unit-scaled points from which on one experiment says little of another.

    It is a fifth of the range of a single parameter, and of several as many times their number's root, as distances in
    a cube grow; to 3 %, this is the length scale that the stock covariance takes to be most likely before there are
    data, `mkbo_plugins.core.priors.length_scale_prior`.
    """
    return (1 - ROUNDING) * SHARE * math.sqrt(parameters)


@dataclass(frozen=True, eq=False)
class Spacing:
    """Candidates that are to keep a distance from one another and from points that are there already.

    Parameters
    ----------
    inputs
        Unit-scaled inputs of the candidates, (N, k).
    present
        Those of the points that are there, (P, k).
    least
        The distance.
    """

    inputs: Float[np.ndarray, "N k"]
    present: Float[np.ndarray, "P k"]
    least: float

    def clearances(self, picked: Sequence[int] | Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return how far each picked candidate is from the nearest point that is present or picked before it, (n,)."""
        points = self.inputs[list(picked)]
        earlier = np.where(np.tri(len(points), k=-1, dtype=bool), cdist(points, points), np.inf)
        return np.column_stack([earlier, cdist(points, self.present)]).min(axis=1, initial=np.inf)


class Picker:
    """Candidates picked one by one, each among those that keep their distance from what is there and picked.

    Parameters
    ----------
    spacing
        The candidates, N of them, and their distance.
    """

    def __init__(self, spacing: Spacing) -> None:
        self.free = np.ones(len(spacing.inputs), dtype=bool)
        """Which candidates are not picked, (N,)."""
        self._spacing = spacing
        self._room = cdist(spacing.inputs, spacing.present).min(axis=1, initial=np.inf)

    def pick(self, score: Float[np.ndarray, " N"]) -> int:
        """Return the candidate of the greatest score, (N,), which is picked then.

        Where none keeps the distance, half of it will do, and so on; without any distance, all do.
        """
        most, least = self._room[self.free].max(), self._spacing.least
        while most < least:
            least = least / 2 if most > 0 else 0.0
        best = int(np.argmax(np.where(self.free & (self._room >= least), score, -np.inf)))
        self.free[best] = False
        inputs = self._spacing.inputs
        self._room = np.minimum(self._room, cdist(inputs, inputs[best : best + 1])[:, 0])
        return best


def scattered_design(spacing: Spacing, n: int, seed: int) -> Int[np.ndarray, " n"]:
    """Pick points in a random order, each the next one that keeps its distance from those before.

    It is the random sequential addition of Poisson-disc sampling (Cook, ACM Trans. Graph. 5, 51, 1986).

    Parameters
    ----------
    spacing
        The candidates and their distance.
    n
        Number of points, at most N.
    seed
        Seed of the order.

    Returns
    -------
    ndarray
        Indices of the picked candidates, (n,), in order of choice.
    """
    order = np.random.default_rng(seed).permutation(len(spacing.inputs))
    picker, turn = Picker(spacing), np.argsort(order).astype(float)
    return np.array([picker.pick(-turn) for _ in range(n)])
