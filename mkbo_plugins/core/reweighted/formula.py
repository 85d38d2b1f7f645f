"""Functions of a re-weighted kernel between two points, as its Gram matrices are made of.

A formula combines ``K^E(x, y)``, both diagonals and the damping of both points. Each states its value and the
derivatives of it once.
"""

from typing import NamedTuple, Protocol

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array


class Side(NamedTuple):
    """What a formula sees of one argument; each array is (..., n)."""

    diagonal: Array
    """Mantissa of ``S(x * x)`` on the scale ``2 half_log_scale``."""
    half_log_scale: Array
    log_damping: Array
    vanishing: Array


class SideGradient(NamedTuple):
    """A gradient with respect to the diagonal and the damping of one argument; None where there is none."""

    diagonal: Array | None = None
    log_damping: Array | None = None

    def summed(self, axis: int) -> "SideGradient":
        """Return the sums over one axis."""
        return SideGradient(*(None if part is None else array_namespace(part).sum(part, axis=axis) for part in self))


class Derivatives(NamedTuple):
    """A gradient pulled back to the inputs of a formula."""

    between: Array
    x: SideGradient
    y: SideGradient


class Formula(Protocol):
    """A symmetric function of two points; arrays of one point broadcast with those of pairs."""

    @property
    def of_equal_points(self) -> float | None:
        """The value between equal points where that is a constant."""

    @staticmethod
    def value(between: Array, x: Side, y: Side) -> Array:
        """Return the value from the mantissa of ``S(x * y)``."""

    @staticmethod
    def derivatives(upstream: Array, value: Array, x: Side, y: Side) -> Derivatives:
        """Return upstream times the derivatives, of the shape of `value`."""
