"""Scrambled Sobol sequences in the unit cube."""

import math

import numpy as np
from jaxtyping import Float
from scipy.stats import qmc


def sobol_points(dimension: int, n: int, seed: int | None) -> Float[np.ndarray, "n dimension"]:
    """Return the first `n` points of a scrambled Sobol sequence in the unit cube.

    Raises
    ------
    KeyboardInterrupt
        If the program is interrupted while SciPy reads its direction numbers, which SciPy goes on without.
    """
    points = qmc.Sobol(dimension, seed=seed).random_base2(max(1, math.ceil(math.log2(max(n, 1)))))
    if (points == points[0]).all():
        raise KeyboardInterrupt
    return points[:n]
