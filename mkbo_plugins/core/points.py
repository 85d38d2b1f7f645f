"""Points with coefficients, such as support vectors with dual coefficients."""

from dataclasses import dataclass

import numpy as np

from mkbo_plugins.core.arrays import coordinates
from mkbo_plugins.errors import KernelError


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points with coefficients, such as support vectors with dual coefficients.

    Parameters
    ----------
    points
        Frame coordinates, (N, d).
    alpha
        Finite coefficients, (N,), at least one of them not zero.

    Raises
    ------
    KernelError
        If shapes disagree, a value is not finite, or every coefficient is zero.
    """

    points: np.ndarray
    alpha: np.ndarray

    def __post_init__(self) -> None:
        points = np.array(coordinates(self.points, name="support"), dtype=float)
        alpha = np.array(coordinates(self.alpha, name="alpha"), dtype=float)
        if points.ndim != 2 or alpha.shape != points.shape[:1]:
            raise KernelError(f"support must be (N, d) and alpha (N,), got shapes {points.shape} and {alpha.shape}")
        if not (np.isfinite(points).all() and np.isfinite(alpha).all()):
            raise KernelError("support and alpha must hold finite numbers")
        if not alpha.any():
            raise KernelError("every coefficient alpha is zero: the re-weighted kernel would be zero everywhere")
        for values in (points, alpha):
            values.setflags(write=False)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "alpha", alpha)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeightedPoints):
            return NotImplemented
        return np.array_equal(self.points, other.points) and np.array_equal(self.alpha, other.alpha)

    def __hash__(self) -> int:
        return hash(((self.points + 0.0).tobytes(), (self.alpha + 0.0).tobytes()))  # 0.0 equals -0.0
