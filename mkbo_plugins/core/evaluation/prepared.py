"""Points made ready for an evaluator, and what every evaluator of a re-weighted kernel offers."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array

VANISHING = 1e-270
"""Diagonals below this, in units of the square of the largest coefficient, are zero."""

MAX_ENTRIES = 1 << 23
"""Entries of the largest array that an evaluator keeps or makes besides its results, 64 MiB."""


class ScaledSum(NamedTuple):
    """A value ``mantissa * exp(log_scale)``; `error` bounds the absolute error of the mantissa."""

    mantissa: Array
    error: Array
    log_scale: Array


@dataclass(frozen=True, eq=False)
class Prepared:
    """Points (..., n, d) with the undamped diagonal ``S(x * x) = diagonal * exp(2 half_log_scale)``.

    Parameters
    ----------
    points
        Points, (..., n, d), float64.
    half_log_scale
        Half the logarithm of the diagonal's scale, (..., n).
    diagonal
        Mantissas, (..., n).
    error
        Bounds on their absolute errors, (..., n), such that ``S(x * y)`` on the scales of both points is in error by
        at most the root of the product of both bounds.
    truncation
        The part of `error` that is not rounding, (..., n).
    values
        Monomials at the points, (M, number of points), where the evaluator has them and they are few.
    """

    points: Array
    half_log_scale: Array
    diagonal: Array
    error: Array
    truncation: Array
    values: Any = None

    @property
    def vanishing(self) -> Array:
        """Where the diagonal is zero or not above its rounding error, (..., n)."""
        xp = array_namespace(self.diagonal)
        floor = xp.full_like(self.error, VANISHING)
        return self.diagonal <= xp.maximum(floor, self.error)

    def worst_error(self) -> float:
        """Return the largest error relative to the diagonal; points whose diagonal is zero by rounding do not count."""
        xp = array_namespace(self.diagonal)
        if self.diagonal.shape[-1] == 0:
            return 0.0
        zero = (self.diagonal <= xp.full_like(self.error, VANISHING)) | (
            (self.diagonal <= self.error) & (self.truncation <= self.error / 2)
        )
        ones = xp.ones_like(self.diagonal)
        relative = xp.where(zero, 0 * ones, self.error / xp.where(self.diagonal > 0, self.diagonal, VANISHING * ones))
        return float(xp.max(relative))

    def select(self, *index: Any) -> "Prepared":
        """Return some of the points by an index that ends before the coordinates, without their monomials."""
        return Prepared(
            self.points[(*index, slice(None))],
            *(part[index] for part in (self.half_log_scale, self.diagonal, self.error, self.truncation)),
        )


class SumForm(Protocol):
    """One way to evaluate S(u) of a re-weighted kernel."""

    @property
    def name(self) -> str:
        """What it is called."""

    def prepare(self, X: Array) -> Prepared:
        """Return points (..., n, d) with their diagonal."""

    def between(self, P: Prepared, Q: Prepared) -> Array:
        """Return the mantissas of ``S(x_i * y_j)``, (..., n, n'), on the sum of both half log scales."""

    def rowwise(self, P: Prepared, Q: Prepared) -> Array:
        """Return the mantissas of ``S(x_i * y_i)``, (..., n), on the sum of both half log scales."""

    def pull_between(
        self, P: Prepared, Q: Prepared, upstream: Array, *, second: bool = True
    ) -> tuple[Array, Array | None]:
        """Pull a gradient with respect to `between` back to both points, the scales held constant.

        None takes the place of the second gradient where it is not wanted.
        """

    def entry_gradients(self, P: Prepared, Q: Prepared) -> Array:
        """Return the gradients in u of the mantissas of ``S(u)`` at ``u = x_i * y_j``, (n, n', d), without batches."""

    def pull_rowwise(self, P: Prepared, Q: Prepared, upstream: Array) -> tuple[Array, Array]:
        """Pull a gradient with respect to `rowwise` back to both points."""

    def pull_diagonal(self, P: Prepared, upstream: Array) -> Array:
        """Pull a gradient with respect to the diagonal back to the points."""

    def pointwise(self, U: Array) -> ScaledSum:
        """Return S at points U (..., d), each result (...), for kernels of any number of arguments."""
