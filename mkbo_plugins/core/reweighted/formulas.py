"""Formulas in a re-weighted kernel between two points: itself, normalised, and the squared feature distance.

A formula combines ``K^E(x, y)``, both diagonals and the damping of both points. Each states its value and the
derivatives of it once.
"""

from typing import NamedTuple, Protocol

from jaxtyping import Bool, Float

from mkbo_plugins.core.arrays import Array, array_namespace


class Side(NamedTuple):
    """What a formula sees of one argument; arrays of one point broadcast with those of pairs."""

    diagonal: Float[Array, "..."]
    """Mantissa of ``S(x * x)`` on the scale ``2 half_log_scale``."""
    half_log_scale: Float[Array, "..."]
    log_damping: Float[Array, "..."]
    vanishing: Bool[Array, "..."]


class Derivatives(NamedTuple):
    """A gradient pulled back to the inputs of a formula, one entry a pair; None where an input does not enter."""

    between: Float[Array, "..."]
    diagonals: tuple[Float[Array, "..."], Float[Array, "..."]] | None = None
    log_dampings: tuple[Float[Array, "..."], Float[Array, "..."]] | None = None


class Formula(Protocol):
    """A symmetric function of two points."""

    @property
    def of_equal_points(self) -> float | None:
        """The value between equal points where that is a constant."""

    @staticmethod
    def value(between: Float[Array, "*shape"], x: Side, y: Side) -> Float[Array, "*shape"]:
        """Return the value from the mantissa of ``S(x * y)``."""

    @staticmethod
    def bounded(value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Cut off what rounding leaves beyond the bounds of values, which is none of their derivatives."""

    @staticmethod
    def derivatives(upstream: Float[Array, "*#shape"], value: Float[Array, "*#shape"], x: Side, y: Side) -> Derivatives:
        """Return upstream times the derivatives, of the shape of the bounded `value`."""


class Reweighted:
    """The re-weighted kernel K^E(x, y) itself."""

    of_equal_points = None

    @staticmethod
    def value(between: Float[Array, "*shape"], x: Side, y: Side) -> Float[Array, "*shape"]:
        """Return the value from the mantissa of ``S(x * y)``."""
        return between * _scale(x, y)

    @staticmethod
    def bounded(value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return values as they are."""
        return value

    @staticmethod
    def derivatives(upstream: Float[Array, "*#shape"], value: Float[Array, "*#shape"], x: Side, y: Side) -> Derivatives:
        """Return upstream times the derivatives."""
        of_damping = upstream * value
        return Derivatives(upstream * _scale(x, y), log_dampings=(of_damping, of_damping))


def _scale(x: Side, y: Side) -> Float[Array, "..."]:
    xp = array_namespace(x.diagonal)
    return xp.exp((x.half_log_scale + x.log_damping) + (y.half_log_scale + y.log_damping))


class Normalised:
    """K(x, y) / sqrt(K(x, x) K(y, y)) from undamped sums, since damping cancels in the quotient.

    Where a diagonal is below its own rounding bound the quotient is 0/0 with a limit that depends on the direction.
    There an entry is 1 if the two points are equal by value and 0 otherwise, with zero gradient; this keeps every
    Gram matrix positive semi-definite. Rounding beyond the Cauchy-Schwarz bound |value| <= 1 is cut off.
    """

    of_equal_points = 1.0

    @staticmethod
    def value(between: Float[Array, "*shape"], x: Side, y: Side) -> Float[Array, "*shape"]:
        """Return the value from the mantissa of ``S(x * y)``."""
        return between * (_inverse_norm(x) * _inverse_norm(y))

    @staticmethod
    def bounded(value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return values cut off at 1 and -1."""
        return array_namespace(value).clip(value, -1.0, 1.0)

    @staticmethod
    def derivatives(upstream: Float[Array, "*#shape"], value: Float[Array, "*#shape"], x: Side, y: Side) -> Derivatives:
        """Return upstream times the derivatives."""
        of_x, of_y = _inverse_norm(x), _inverse_norm(y)
        of_diagonals = upstream * value / -2
        return Derivatives(upstream * (of_x * of_y), (of_diagonals * of_x**2, of_diagonals * of_y**2))


def _inverse_norm(x: Side) -> Float[Array, "..."]:
    """Return ``1 / sqrt(diagonal)``, 0 where the diagonal vanishes."""
    xp = array_namespace(x.diagonal)
    ones = xp.ones_like(x.diagonal)
    return xp.where(x.vanishing, 0 * ones, 1 / xp.sqrt(xp.where(x.vanishing, ones, x.diagonal)))


class FeatureDistance:
    """The squared feature distance K(x, x) + K(y, y) - 2 K(x, y) >= 0."""

    of_equal_points = 0.0

    @staticmethod
    def value(between: Float[Array, "*shape"], x: Side, y: Side) -> Float[Array, "*shape"]:
        """Return the value from the mantissa of ``S(x * y)``."""
        xp = array_namespace(between)
        log_x, log_y = x.half_log_scale + x.log_damping, y.half_log_scale + y.log_damping
        # Subtracted on the pair's scale, so that two overflowing terms cannot give infinity minus infinity.
        common = xp.maximum(log_x, log_y)
        of_x, of_y = xp.exp(log_x - common), xp.exp(log_y - common)
        difference = x.diagonal * of_x**2 + y.diagonal * of_y**2 - 2 * between * (of_x * of_y)
        unit = xp.exp(2 * common + xp.zeros_like(difference))
        # No difference is none on a scale that overflows, too.
        return difference * xp.where((difference == 0) & xp.isinf(unit), xp.ones_like(unit), unit)

    @staticmethod
    def bounded(value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return values cut off at 0."""
        xp = array_namespace(value)
        return xp.where(value > 0, value, xp.zeros_like(value))

    @staticmethod
    def derivatives(upstream: Float[Array, "*#shape"], value: Float[Array, "*#shape"], x: Side, y: Side) -> Derivatives:
        """Return upstream times the derivatives."""
        xp = array_namespace(value)
        upstream = xp.where(value > 0, upstream, xp.zeros_like(upstream))
        of_x, of_y = xp.exp(x.half_log_scale + x.log_damping), xp.exp(y.half_log_scale + y.log_damping)
        kernel_x, kernel_y = x.diagonal * of_x**2, y.diagonal * of_y**2
        twice_between = kernel_x + kernel_y - value
        return Derivatives(
            -2 * upstream * (of_x * of_y),
            (upstream * of_x**2, upstream * of_y**2),
            (upstream * (2 * kernel_x - twice_between), upstream * (2 * kernel_y - twice_between)),
        )
