"""The decision function of a machine trained on a table."""

from dataclasses import dataclass

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, constant
from mkbo_plugins.core.kernels import FreeKernel, pull_gram
from mkbo_plugins.core.points import WeightedPoints


@dataclass(frozen=True)
class DecisionFunction:
    """The function g(x) = sum_i alpha_i K_2(x_i, x) + bias.

    Parameters
    ----------
    kernel
        The free kernel.
    table
        Support vectors x_i and dual coefficients alpha_i.
    bias
        Constant term, in the units of alpha.
    """

    kernel: FreeKernel
    table: WeightedPoints
    bias: float

    def __call__(self, X: Array) -> Array:
        """Return g at points X (..., n, d), (..., n)."""
        xp = array_namespace(X)
        return xp.matmul(self.kernel.gram(X, constant(self.table.points, X)), constant(self.table.alpha, X)) + self.bias

    def pull(self, X: Array, upstream: Array) -> Array:
        """Pull a gradient with respect to g at points (..., n, d) back to them."""
        support, alpha = constant(self.table.points, X), constant(self.table.alpha, X)
        return pull_gram(self.kernel, X, support, upstream[..., None] * alpha)[0]
