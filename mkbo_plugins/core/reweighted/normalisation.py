"""Normalised kernels (Definition 3): a kernel divided by the square roots of its diagonal at each argument."""

from dataclasses import dataclass, replace
from functools import reduce

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.evaluation.prepared import VANISHING
from mkbo_plugins.core.kernels import Exponential, FreeKernel, SquaredExponential, check_points, gram_points
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.formulas import Normalised
from mkbo_plugins.core.reweighted.gram import gram
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel, over_norm, undamped
from mkbo_plugins.errors import KernelError


@dataclass(frozen=True)
class NormalisedKernel:
    """A free or re-weighted kernel divided by prod_i sqrt(K_2(x_i, x_i)) (Definition 3).

    Parameters
    ----------
    kernel
        The kernel to normalise.
    """

    kernel: FreeKernel | ReweightedKernel

    def __call__(self, *points: Array) -> Float[Array, "..."]:
        """Evaluate at m >= 1 points (..., d) whose leading shapes broadcast.

        Where a diagonal vanishes the value is 0, but 1 for two equal points, as in `Normalised`.
        """
        points = check_points(points, self.kernel.dimension)
        evaluator = undamped(self.kernel, points[0].shape[-1])
        if len(points) == 2:
            return gram(Normalised(), evaluator, *points, elementwise=True).value
        xp = array_namespace(*points)
        total = evaluator.pointwise(xp.astype(reduce(lambda a, b: a * b, points), xp.float64))
        value, exponent, undefined = total.mantissa, total.log_scale, xp.zeros_like(total.mantissa, dtype=xp.bool)
        for x in points:
            diagonal = evaluator.pointwise(xp.astype(x * x, xp.float64))
            zero = diagonal.mantissa <= xp.maximum(diagonal.error, xp.full_like(diagonal.error, VANISHING))
            undefined = undefined | zero
            value = value / xp.sqrt(xp.where(zero, xp.ones_like(diagonal.mantissa), diagonal.mantissa))
            exponent = exponent - diagonal.log_scale / 2
        exponent = xp.where(undefined, xp.zeros_like(exponent), exponent)
        value = xp.where(undefined, xp.zeros_like(value), value)
        return xp.astype(value * xp.exp(exponent), points[0].dtype)

    def gram(self, X: Array, Y: Array | None = None) -> Float[Array, "... n m"]:
        """Return the Gram matrix, (..., n, n'), for points (..., n, d) and (..., n', d)."""
        X, Y = gram_points(X, Y, self.kernel.dimension)
        return gram(Normalised(), undamped(self.kernel, X.shape[-1]), X, Y).value

    def reweighted_by(self, table: WeightedPoints) -> ReweightedKernel:
        """Return the normalised kernel re-weighted by a table (Theorem 3), as `reweight` does."""
        kernel = self.kernel
        if isinstance(kernel, ReweightedKernel):
            # What a normalised kernel was divided by before cancels.
            norm = replace(kernel, norm=None)
            return ReweightedKernel(kernel.base, (*kernel.tables, over_norm(norm, table)), norm=norm)
        if isinstance(kernel, Exponential):
            kernel = SquaredExponential(sigma=kernel.sigma, weights=kernel.weights)
        if isinstance(kernel, SquaredExponential):
            return ReweightedKernel(kernel, (table,))
        return ReweightedKernel(kernel, (over_norm(kernel, table),), norm=kernel)


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
