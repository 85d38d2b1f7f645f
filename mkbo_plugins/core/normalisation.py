"""Normalised kernels (Definition 3): a kernel divided by the square roots of its diagonal at each argument."""

from dataclasses import dataclass
from functools import reduce

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, equal_points, per_pair
from mkbo_plugins.core.kernels import FreeKernel, check_points, gram_points
from mkbo_plugins.core.pairsum import Evaluator
from mkbo_plugins.core.reweighting import ReweightedKernel, sum_between, undamped
from mkbo_plugins.errors import KernelError


def normalised(evaluator: Evaluator, X: Array, Y: Array | None = None, *, elementwise: bool = False) -> Array:
    """Return K(x, y) / sqrt(K(x, x) K(y, y)) from undamped sums, since damping cancels in the quotient.

    Where a diagonal is below its own rounding bound the quotient is 0/0 with a limit that depends on the direction.
    There an entry is 1 if the two points are equal by value and 0 otherwise, with zero gradient; this keeps every
    Gram matrix positive semi-definite. Rounding beyond the Cauchy-Schwarz bound |value| <= 1 is cut off.

    Parameters
    ----------
    evaluator
        Evaluator of the undamped kernel; a differentiable one makes the result differentiable.
    X, Y
        Points (..., n, d) and (..., n', d); None means Y is X.
    elementwise
        Pair X with Y row by row, giving (..., n), instead of all with all, giving (..., n, n').
    """
    xp = array_namespace(X)
    between = sum_between(evaluator, X, Y, elementwise=elementwise)
    of_x = evaluator.pointwise(X * X)
    of_y = of_x if Y is None else evaluator.pointwise(Y * Y)
    zero_x, zero_y = (diagonal.mantissa <= diagonal.rounding_bound() for diagonal in (of_x, of_y))
    # Replaced before the root is taken, so that the branch not used has a finite gradient.
    safe_x = xp.where(zero_x, xp.ones_like(of_x.mantissa), of_x.mantissa)
    safe_y = xp.where(zero_y, xp.ones_like(of_y.mantissa), of_y.mantissa)
    norm_x, norm_y = per_pair(safe_x, safe_y, elementwise=elementwise)
    scale_x, scale_y = per_pair(of_x.log_scale, of_y.log_scale, elementwise=elementwise)
    zero_x, zero_y = per_pair(zero_x, zero_y, elementwise=elementwise)
    undefined = zero_x | zero_y
    exponent = between.log_scale - (scale_x + scale_y) / 2
    exponent = xp.where(undefined, xp.zeros_like(exponent), exponent)
    quotient = xp.clip(between.mantissa * xp.exp(exponent) / (xp.sqrt(norm_x) * xp.sqrt(norm_y)), -1.0, 1.0)
    equal = equal_points(X, X if Y is None else Y, elementwise=elementwise)
    quotient = xp.where(undefined, xp.zeros_like(quotient), quotient)
    return xp.astype(xp.where(equal, xp.ones_like(quotient), quotient), X.dtype)


@dataclass(frozen=True)
class NormalisedKernel:
    """A free or re-weighted kernel divided by prod_i sqrt(K_2(x_i, x_i)) (Definition 3).

    Parameters
    ----------
    kernel
        The kernel to normalise.
    """

    kernel: FreeKernel | ReweightedKernel

    def __call__(self, *points: Array) -> Array:
        """Evaluate at m >= 1 points (..., d) whose leading shapes broadcast.

        Where a diagonal vanishes the value is 0, but 1 for two equal points, as in `normalised`.
        """
        points = check_points(points, self.kernel.dimension)
        _, evaluator = undamped(self.kernel, points[0].shape[-1])
        if len(points) == 2:
            return normalised(evaluator, *points, elementwise=True)
        xp = array_namespace(*points)
        total = evaluator.pointwise(reduce(lambda a, b: a * b, points))
        value, exponent, undefined = total.mantissa, total.log_scale, xp.zeros_like(total.mantissa, dtype=xp.bool)
        for x in points:
            diagonal = evaluator.pointwise(x * x)
            zero = diagonal.mantissa <= diagonal.rounding_bound()
            undefined = undefined | zero
            value = value / xp.sqrt(xp.where(zero, xp.ones_like(diagonal.mantissa), diagonal.mantissa))
            exponent = exponent - diagonal.log_scale / 2
        exponent = xp.where(undefined, xp.zeros_like(exponent), exponent)
        value = xp.where(undefined, xp.zeros_like(value), value)
        return xp.astype(value * xp.exp(exponent), points[0].dtype)

    def gram(self, X: Array, Y: Array | None = None) -> Array:
        """Return the Gram matrix, (..., n, n'), for points (..., n, d) and (..., n', d)."""
        X, Y = gram_points(X, Y, self.kernel.dimension)
        return normalised(undamped(self.kernel, X.shape[-1])[1], X, Y)


def normalise(kernel: FreeKernel | ReweightedKernel) -> NormalisedKernel:
    """Normalise a free or re-weighted kernel (Definition 3).

    Raises
    ------
    KernelError
        If `kernel` is neither.
    """
    if not isinstance(kernel, (FreeKernel, ReweightedKernel)):
        raise KernelError(f"only free and re-weighted kernels can be normalised, got {type(kernel).__name__}")
    return NormalisedKernel(kernel)
