"""The decision function of a machine trained on a table."""

from dataclasses import dataclass

from array_api_compat import array_namespace
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, constant
from mkbo_plugins.core.kernels import FreeKernel
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

    def __call__(self, X: Float[Array, "*batch n d"]) -> Float[Array, "*batch n"]:
        """Return g at points X (..., n, d), (..., n)."""
        xp = array_namespace(X)
        return xp.matmul(self.kernel.gram(X, constant(self.table.points, X)), constant(self.table.alpha, X)) + self.bias

    def gradient(self, X: Float[Array, "*batch n d"]) -> Float[Array, "*batch n d"]:
        """Return the gradient of g at points (..., n, d), of their shape."""
        support, alpha = constant(self.table.points, X), constant(self.table.alpha, X)
        upstream = array_namespace(X).broadcast_to(alpha, (*X.shape[:-1], alpha.shape[0]))
        return self.kernel.pull(X, support, upstream, second=False)[0]
