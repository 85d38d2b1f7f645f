"""Points between bounds at which linear forms lie between two numbers, some coordinates whole."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

EXACT = 1e-12
"""Error of a linear form, in units of its largest term, up to which a constraint is kept; solvers keep 1e-7."""


@dataclass(frozen=True, eq=False)
class Polytope:
    """Points x with ``lower <= x <= upper`` and ``least <= matrix @ x <= most``.

    Parameters
    ----------
    lower, upper
        Bounds, (d,), ``lower < upper``.
    matrix
        Linear forms, (k, d), none of them zero.
    least, most
        Numbers between which they lie, (k,); infinite where there is none.
    whole
        Which coordinates are whole numbers, (d,).
    """

    lower: Float[np.ndarray, " d"]
    upper: Float[np.ndarray, " d"]
    matrix: Float[np.ndarray, "k d"]
    least: Float[np.ndarray, " k"]
    most: Float[np.ndarray, " k"]
    whole: Bool[np.ndarray, " d"]

    @cached_property
    def scale(self) -> Float[np.ndarray, " k"]:
        """Largest term of each linear form within the bounds, (k,)."""
        return np.max(np.abs(self.matrix) * np.maximum(np.abs(self.lower), np.abs(self.upper)), axis=1)

    def excess(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Return by how much each linear form lies below or above its numbers at points (n, d), (n, k), in its units.

        Parameters
        ----------
        X
            Points, (n, d).

        Returns
        -------
        ndarray
            Negative below, positive above, 0 between.
        """
        value = X @ self.matrix.T
        return np.minimum(value - self.least, 0.0) + np.maximum(value - self.most, 0.0)

    def contains(self, X: Float[np.ndarray, "n d"], tolerance: float = EXACT) -> Bool[np.ndarray, " n"]:
        """Return at which points (n, d) all constraints, bounds among them, are kept, (n,)."""
        inside = ((self.lower <= X) & (self.upper >= X)).all(axis=1)
        return inside & (np.abs(self.excess(X)) <= tolerance * self.scale).all(axis=1)

    def extreme(self, direction: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"] | None:
        """Return the point, (d,), farthest in a direction (d,); None if there is no point at all.

        Solved by HiGHS, as SciPy has it, which keeps constraints to about 1e-7.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        width = np.where(self.whole, 1.0, self.upper - self.lower)
        rows = self.matrix * width
        weight = np.abs(rows).max(axis=1)
        offset = self.matrix @ self.lower
        found = milp(
            -direction * width / max(np.abs(direction * width).max(), 1e-300),
            constraints=LinearConstraint(
                rows / weight[:, None], (self.least - offset) / weight, (self.most - offset) / weight
            ),
            bounds=Bounds(np.zeros(len(width)), (self.upper - self.lower) / width),
            integrality=self.whole.astype(int),
        )
        if found.x is None:
            return None
        steps = np.where(self.whole, np.round(found.x), found.x)
        return np.clip(self.lower + width * steps, self.lower, self.upper)

    def interval(self, form: Float[np.ndarray, " d"]) -> tuple[float, float] | None:
        """Return the least and greatest value of a linear form (d,); None if there is no point at all."""
        low, high = self.extreme(-form), self.extreme(form)
        return None if low is None or high is None else (float(form @ low), float(form @ high))
