"""Points made ready for an evaluator, and what every evaluator of a re-weighted kernel offers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from jaxtyping import Bool, Float, Shaped

from mkbo_plugins.core.arrays import Array, array_namespace

VANISHING = 1e-270
"""Diagonals below this, in units of the square of the largest coefficient, are zero."""

MAX_ENTRIES = 1 << 23
"""Entries of the largest array that an evaluator keeps or makes besides its results, 64 MiB."""


class ScaledSum(NamedTuple):
    """A value ``mantissa * exp(log_scale)``; `error` bounds the absolute error of the mantissa."""

    mantissa: Float[Array, "*shape"]
    error: Float[Array, "*shape"]
    log_scale: Float[Array, "*shape"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Points (n, d) with the undamped diagonal ``S(x * x) = diagonal * exp(2 half_log_scale)``.

    Parameters
    ----------
    form
        What evaluates S at these points.
    points
        Points, (n, d), float64.
    half_log_scale
        Half the logarithm of the diagonal's scale, (n,). It belongs to these numbers: for the same point made ready
        once more, among others or by another BLAS, it may differ, and the mantissas with it.
    diagonal
        Mantissas, (n,).
    error
        Bounds on their absolute errors, (n,), such that ``S(x * y)`` on the scales of both points is in error by at
        most the root of the product of both bounds, each that of the set in which its point was made ready.
    truncation
        The part of `error` that is not rounding, (n,).
    values
        Monomials at the points, (M, n), where the evaluator has them and they are few.
    log_damping
        Logarithm of what each point is multiplied by as an argument, (n,); None before an evaluator added it.
    """

    form: "SumForm"
    points: Float[Array, "n d"]
    half_log_scale: Float[Array, " n"]
    diagonal: Float[Array, " n"]
    error: Float[Array, " n"]
    truncation: Float[Array, " n"]
    values: Float[Array, "M n"] | None = None
    log_damping: Float[Array, " n"] | None = None

    @cached_property
    def vanishing(self) -> Bool[Array, " n"]:
        """Where the diagonal is zero or not above its rounding error, (n,)."""
        return (self.diagonal <= self.error) | (self.diagonal <= VANISHING)

    @cached_property
    def diagonal_gradient(self) -> Float[Array, "n d"]:
        """Gradient of each mantissa in its point, the scale held constant, (n, d)."""
        return self.form.diagonal_gradient(self)

    def worst_error(self, least: Float[Array, " n"] | None = None) -> float:
        """Return the largest error relative to the diagonal; points whose diagonal is zero by rounding do not count.

        Parameters
        ----------
        least
            Numbers, (n,), to which errors are relative where the diagonal is smaller; all points count then.
        """
        xp = array_namespace(self.diagonal)
        if self.diagonal.shape[0] == 0:
            return 0.0
        if least is not None:
            return float(xp.max(self.error / xp.maximum(self.diagonal, least)))
        zero = (self.diagonal <= VANISHING) | self._unresolved
        relative = self.error / xp.clip(self.diagonal, VANISHING, None)
        return float(xp.max(xp.where(zero, xp.zeros_like(relative), relative)))

    def unresolved(self) -> int:
        """Return the number of points whose diagonal is zero by rounding, which finer arithmetic might tell from it."""
        return int(array_namespace(self.diagonal).count_nonzero(self._unresolved))

    @property
    def _unresolved(self) -> Bool[Array, " n"]:
        rounded = (self.diagonal <= self.error) & (self.truncation <= self.error / 2)
        return rounded & (self.error > VANISHING)


class SumForm(ABC):
    """One way to evaluate S(u) of a re-weighted kernel.

    Points come in b batches of equally many, one after the other; each meets the points of the same batch.
    """

    name: str

    @abstractmethod
    def prepare(self, X: Float[Array, "n d"]) -> Prepared:
        """Return points (n, d) with their diagonal."""

    @abstractmethod
    def between(self, P: Prepared, Q: Prepared, b: int = 1) -> Float[Array, "b n m"]:
        """Return the mantissas of ``S(x_i * y_j)``, (b, n, m), on the sum of both half log scales."""

    @abstractmethod
    def vjp(
        self, P: Prepared, Q: Prepared, upstream: Float[Array, "b n m"], *, second: bool = True
    ) -> tuple[Float[Array, "b n d"], Float[Array, "b m d"] | None]:
        """Pull a gradient (b, n, m) with respect to `between` back to both points, or only the first.

        Returns
        -------
        tuple of arrays
            Gradients (b, n, d) and (b, m, d) with the scales held constant; None in place of the second where it is not
            wanted.
        """

    def from_point(self, P: Prepared, Q: Prepared) -> tuple[Float[Array, "1 m"], Float[Array, "1 m d"] | None]:
        """Return `between` of a single point P, and `entry_gradients` where they cost little beside it."""
        return self.between(P, Q)[0, ...], None

    def vjp_of_point(
        self,
        P: Prepared,
        Q: Prepared,
        upstream: Float[Array, "k m"],
        of_diagonal: Float[Array, " k"] | None,
        gradients: Float[Array, "1 m d"] | None,
    ) -> Float[Array, "k d"]:
        """Pull gradients with respect to `between` of a single point P and to its diagonal back to it, one a row.

        Parameters
        ----------
        P, Q
            The point and the others.
        upstream, of_diagonal
            Gradients with respect to the entries (k, m) and to the diagonal (k,), None where this is not in it.
        gradients
            What came with `from_point`.
        """
        # Entries cost more than what is made of them.
        slopes = self.entry_gradients(P, Q) if gradients is None else gradients
        of_x = upstream @ (slopes[0, ...] * Q.points)
        return of_x if of_diagonal is None else of_x + of_diagonal[:, None] * P.diagonal_gradient

    @abstractmethod
    def entry_gradients(self, P: Prepared, Q: Prepared) -> Float[Array, "n m d"]:
        """Return the gradients in u of the mantissas of ``S(u)`` at ``u = x_i * y_j``, (n, m, d), without batches."""

    @abstractmethod
    def diagonal_gradient(self, P: Prepared) -> Float[Array, "n d"]:
        """Return the gradient of each diagonal's mantissa in its point, the scale held constant, (n, d)."""

    @abstractmethod
    def pointwise(self, U: Float[Array, "... d"]) -> ScaledSum:
        """Return S at points U (..., d), each result (...), for kernels of any number of arguments."""

    @abstractmethod
    def slopes(self, U: Float[Array, "*batch d"], log_scale: Float[Array, "*batch"]) -> Float[Array, "*batch d"]:
        """Return ``exp(-log_scale) * dS/du`` at points U (..., d), of their shape."""

    @abstractmethod
    def curvatures(
        self, U: Float[Array, "*batch d"], V: Float[Array, "*batch d"], log_scale: Float[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """Return ``exp(-log_scale) * d^2 S/du^2 V`` at points U and for vectors V, each (..., d), of their shape."""


def batched(values: Shaped[Array, "bn ..."], b: int) -> Shaped[Array, "b n ..."]:
    """Return values (b n, ...) as (b, n, ...)."""
    return array_namespace(values).reshape(values, (b, values.shape[0] // b, *values.shape[1:]))
