"""The decision function of a machine trained on a table."""

from dataclasses import dataclass

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, constant, doubled, with_dtype
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
        Z = doubled(X)
        values = self.kernel.between(Z, constant(self.table.points, Z)) @ constant(self.table.alpha, Z)
        return with_dtype(values + self.bias, X.dtype)

    def gradient(self, X: Float[Array, "*batch n d"]) -> Float[Array, "*batch n d"]:
        """Return the gradient of g at points (..., n, d), of their shape."""
        Z = doubled(X)
        support, alpha = constant(self.table.points, Z), constant(self.table.alpha, Z)
        upstream = array_namespace(Z).broadcast_to(alpha, (*Z.shape[:-1], alpha.shape[0]))
        return with_dtype(self.kernel.pull(Z, support, upstream, second=False)[0], X.dtype)
