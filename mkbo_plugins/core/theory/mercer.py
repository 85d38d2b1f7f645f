"""A necessary condition for kernels of 2q arguments (Theorem 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from mkbo_plugins.core.arrays import Array, coordinates
from mkbo_plugins.errors import KernelError

MAX_SIDE = 2048
"""Largest side n^q of the flattened tensor, 32 MiB."""


@dataclass(frozen=True)
class MercerCheck:
    """Outcome of `check_2q_mercer`.

    Parameters
    ----------
    verdict
        ``"fails"``: the function is no 2q-kernel. ``"not refuted"``: these points do not show that it is none, which
        is less than being one.
    asymmetry
        Largest difference between values whose arguments are swapped, relative to the largest value.
    smallest_eigenvalue
        Smallest eigenvalue of the flattened tensor, relative to the largest absolute one; NaN where it is asymmetric.
    """

    verdict: Literal["fails", "not refuted"]
    asymmetry: float
    smallest_eigenvalue: float


def check_2q_mercer(kernel: Callable[..., Array], points: Array, q: int, tolerance: float = 1e-10) -> MercerCheck:
    """Look for a violation of the Mercer condition of a kernel of 2q arguments at given points.

    A 2q-kernel is symmetric in its arguments, and its values at all 2q-tuples of points, flattened to a matrix
    (n^q, n^q), are positive semi-definite. For q >= 2 both together are necessary and not sufficient: a functional
    may be non-negative on every square and still be negative on a non-negative form that is no sum of squares.

    Parameters
    ----------
    kernel
        Function of 2q arrays of points whose leading shapes broadcast.
    points
        Points, (n, d).
    q
        Half the number of arguments, at least 1.
    tolerance
        Relative asymmetry, and negative eigenvalue, taken for rounding.

    Raises
    ------
    KernelError
        If q is no positive integer, or the flattened tensor would be too large.
    """
    points = np.asarray(coordinates(points, name="points"))
    if isinstance(q, bool) or not isinstance(q, int) or q < 1:
        raise KernelError(f"q must be an integer of at least 1, got {q!r}")
    if points.ndim != 2 or not len(points):
        raise KernelError(f"points must be (n, d) with n of at least 1, got shape {points.shape}")
    n, d = points.shape
    if n**q > MAX_SIDE:
        raise KernelError(
            f"{n} points at q={q} make a matrix of side {n**q}, above the limit of {MAX_SIDE}; give at most "
            f"{int(MAX_SIDE ** (1 / q) + 1e-9)} points"
        )
    axes = [points.reshape((1,) * i + (n,) + (1,) * (2 * q - 1 - i) + (d,)) for i in range(2 * q)]
    tensor = np.broadcast_to(np.asarray(kernel(*axes)), (n,) * (2 * q))
    size = float(np.abs(tensor).max()) or 1.0
    asymmetry = max(
        float(np.abs(tensor - tensor.swapaxes(i, j)).max()) / size for i, j in combinations(range(2 * q), 2)
    )
    # Comparisons are written so that NaN fails.
    if not asymmetry <= tolerance:
        return MercerCheck("fails", asymmetry, float("nan"))
    values = np.linalg.eigvalsh(tensor.reshape(n**q, n**q))
    smallest = float(values[0] / (np.abs(values).max() or 1.0))
    return MercerCheck("not refuted" if smallest >= -tolerance else "fails", asymmetry, smallest)
