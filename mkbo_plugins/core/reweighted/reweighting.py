r"""Re-weighted free kernels (Theorem 3).

Re-weighting a free kernel by weighted points (alpha_i, x_i) gives

.. math:: K_m^E(x, ...) = \sum_{ij} alpha_i alpha_j K_{m+2}(x_i, x_j, x, ...),

again a free kernel: same features, feature weights ``w_k = tau_k sum_i alpha_i theta_k(x_i)``. Re-weighting it once
more is one re-weighting by all products of points ``x_i * z_k`` with coefficients ``alpha_i beta_k``.

Source: Shilton et al., arXiv 1802.05370, Theorem 3; ``E`` is a `WeightedPoints`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np
from array_api_compat import array_namespace
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator, Choice
from mkbo_plugins.core.kernels import FreeKernel, check_points, gram_points
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.formulas import Reweighted
from mkbo_plugins.core.reweighted.gram import gram
from mkbo_plugins.errors import KernelError

SCALE_ERROR = 1e-6
"""Relative error allowed to a mean diagonal, which is only a unit of scales."""

FEW_TERMS = 10**9
"""Terms of pair sums that take some seconds together."""


@dataclass(frozen=True)
class ReweightedKernel:
    """A free kernel re-weighted by one table of weighted points, or by several in turn.

    Parameters
    ----------
    base
        The free kernel.
    tables
        The weighted points of each re-weighting; their order does not matter.
    choice, tolerance
        How it is evaluated and with what error, as for `CertifiedEvaluator`.
    """

    base: FreeKernel
    tables: tuple[WeightedPoints, ...]
    choice: Choice = field(default="auto", compare=False)
    tolerance: float = field(default=1e-10, compare=False)

    def __post_init__(self) -> None:
        dimensions = {table.points.shape[1] for table in self.tables}
        if self.base.dimension is not None:
            dimensions.add(self.base.dimension)
        if len(dimensions) != 1:
            raise KernelError(f"tables and kernel weights must share one dimension, got {sorted(dimensions)}")

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(self.tables[0].points.shape[1])

    @cached_property
    def evaluator(self) -> CertifiedEvaluator:
        """Evaluator of the undamped kernel S(u), u the coordinate product of the arguments."""
        return CertifiedEvaluator(self.base, self.tables, self.dimension, self.choice, self.tolerance)

    def __call__(self, *points: Array) -> Float[Array, "..."]:
        """Evaluate K_m^E at m >= 1 points (..., d) whose leading shapes broadcast."""
        points = check_points(points, self.dimension)
        xp = array_namespace(*points)
        if len(points) == 2:
            return gram(Reweighted(), self.evaluator, *points, elementwise=True).value
        undamped = self.evaluator.pointwise(xp.astype(reduce(lambda a, b: a * b, points), xp.float64))
        log_damping = sum(self.base.log_damping(x) for x in points)
        return xp.astype(undamped.mantissa * xp.exp(undamped.log_scale + log_damping), points[0].dtype)

    def gram(self, X: Array, Y: Array | None = None) -> Float[Array, "... n m"]:
        """Return the Gram matrix K_2^E(X_i, Y_j), (..., n, n'), for points (..., n, d) and (..., n', d)."""
        X, Y = gram_points(X, Y, self.dimension)
        return gram(Reweighted(), self.evaluator, X, Y).value

    def mean_diagonal(self, X: Float[np.ndarray, "n d"]) -> float:
        """Return the mean of K^E(x, x) over points (n, d), a scale, in error by at most `SCALE_ERROR` of it."""
        pairs = self.evaluator.pairs
        # Features are worth finding for Gram matrices; for a few values the pair sum costs less.
        if self.base.exponent_rate is not None and pairs.terms * len(X) <= FEW_TERMS:
            points = pairs.prepare(X)
            if points.worst_error() <= SCALE_ERROR:
                return float(np.mean(points.diagonal * np.exp(2 * (points.half_log_scale + self.base.log_damping(X)))))
        return float(np.mean(self(X, X)))


def undamped(kernel: FreeKernel | ReweightedKernel, dimension: int) -> CertifiedEvaluator:
    """Return the evaluator of the undamped values S(u) of a kernel, which knows the free kernel it is built on.

    A free kernel is re-weighted by no table at all.
    """
    if isinstance(kernel, ReweightedKernel):
        return kernel.evaluator
    if isinstance(kernel, FreeKernel):
        return CertifiedEvaluator(kernel, (), dimension)
    raise KernelError(f"expected a free or a re-weighted kernel, got {type(kernel).__name__}")


def reweight(
    kernel: FreeKernel | ReweightedKernel, support: Array | Sequence[Sequence[float]], alpha: Array | Sequence[float]
) -> ReweightedKernel:
    """Re-weight a free kernel, or an already re-weighted one (Theorem 3).

    Parameters
    ----------
    kernel
        A free kernel, or the result of an earlier `reweight`.
    support
        Points, (N, d).
    alpha
        Coefficients, (N,), for example dual coefficients of a support vector machine.

    Returns
    -------
    ReweightedKernel
        A kernel of any number of arguments, with features and feature map of `kernel`.

    Raises
    ------
    KernelError
        If `kernel` is not free, shapes disagree, a value is not finite, or every coefficient is zero.
    """
    table = WeightedPoints(support, alpha)  # type: ignore[arg-type]
    if isinstance(kernel, ReweightedKernel):
        return ReweightedKernel(kernel.base, (*kernel.tables, table))
    if isinstance(kernel, FreeKernel):
        return ReweightedKernel(kernel, (table,))
    raise KernelError(
        f"only free and re-weighted kernels can be re-weighted, got {type(kernel).__name__}; re-weight first and "
        "normalise afterwards (SquaredExponential is the normalised Exponential)"
    )
