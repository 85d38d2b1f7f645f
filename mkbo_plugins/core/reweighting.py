r"""Re-weighted free kernels (Theorem 3).

Re-weighting a free kernel by weighted points (alpha_i, x_i) gives

.. math:: K_m^E(x, ...) = \sum_{ij} alpha_i alpha_j K_{m+2}(x_i, x_j, x, ...),

again a free kernel: same features, feature weights ``w_k = tau_k sum_i alpha_i theta_k(x_i)``. Re-weighting it once
more is one re-weighting by all products of points ``x_i * z_k`` with coefficients ``alpha_i beta_k``.

Source: Shilton et al., arXiv 1802.05370, Theorem 3; ``E`` is a `WeightedPoints`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, coordinates, per_pair
from mkbo_plugins.core.kernels import FreeKernel, check_points, gram_points
from mkbo_plugins.core.pairsum import Evaluator, PairSum, ScaledSum
from mkbo_plugins.errors import KernelError


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points with coefficients, such as support vectors with dual coefficients.

    Parameters
    ----------
    points
        Frame coordinates, (N, d).
    alpha
        Finite coefficients, (N,), at least one of them not zero.

    Raises
    ------
    KernelError
        If shapes disagree, a value is not finite, or every coefficient is zero.
    """

    points: np.ndarray
    alpha: np.ndarray

    def __post_init__(self) -> None:
        points = np.array(coordinates(self.points, name="support"), dtype=float)
        alpha = np.array(coordinates(self.alpha, name="alpha"), dtype=float)
        if points.ndim != 2 or alpha.shape != points.shape[:1]:
            raise KernelError(f"support must be (N, d) and alpha (N,), got shapes {points.shape} and {alpha.shape}")
        if not (np.isfinite(points).all() and np.isfinite(alpha).all()):
            raise KernelError("support and alpha must hold finite numbers")
        if not alpha.any():
            raise KernelError("every coefficient alpha is zero: the re-weighted kernel would be zero everywhere")
        for values in (points, alpha):
            values.setflags(write=False)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "alpha", alpha)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeightedPoints):
            return NotImplemented
        return np.array_equal(self.points, other.points) and np.array_equal(self.alpha, other.alpha)

    def __hash__(self) -> int:
        return hash(((self.points + 0.0).tobytes(), (self.alpha + 0.0).tobytes()))  # 0.0 equals -0.0


@dataclass(frozen=True)
class ReweightedKernel:
    """A free kernel re-weighted by one table of weighted points, or by several in turn.

    Parameters
    ----------
    base
        The free kernel.
    tables
        The weighted points of each re-weighting; their order does not matter.
    """

    base: FreeKernel
    tables: tuple[WeightedPoints, ...]

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
    def evaluator(self) -> PairSum:
        """Evaluator of the undamped kernel S(u), u the coordinate product of the arguments."""
        points, sign, log_abs = np.ones((1, self.dimension)), np.ones(1), np.zeros(1)
        for table in self.tables:
            used = table.alpha != 0
            z, alpha = table.points[used], table.alpha[used]
            points = (points[:, None, :] * z[None, :, :]).reshape(-1, self.dimension)
            sign = np.multiply.outer(sign, np.sign(alpha)).ravel()
            log_abs = np.add.outer(log_abs, np.log(np.abs(alpha)) + self.base.log_damping(z)).ravel()
        return PairSum(self.base, points, sign, log_abs)

    def __call__(self, *points: Array) -> Array:
        """Evaluate K_m^E at m >= 1 points (..., d) whose leading shapes broadcast."""
        points = check_points(points, self.dimension)
        xp = array_namespace(*points)
        undamped = self.evaluator.pointwise(reduce(lambda a, b: a * b, points))
        log_damping = sum(self.base.log_damping(x) for x in points)
        return xp.astype(undamped.mantissa * xp.exp(undamped.log_scale + log_damping), points[0].dtype)

    def gram(self, X: Array, Y: Array | None = None) -> Array:
        """Return the Gram matrix K_2^E(X_i, Y_j), (..., n, n'), for points (..., n, d) and (..., n', d)."""
        return reweighted(self.base, self.evaluator, *gram_points(X, Y, self.dimension))


def undamped(kernel: FreeKernel | ReweightedKernel, dimension: int) -> tuple[FreeKernel, PairSum]:
    """Return the free kernel that `kernel` is built on and the evaluator of its undamped values S(u).

    A free kernel is its own re-weighting by the single point (1, ..., 1), which is neutral in every product.
    """
    if isinstance(kernel, ReweightedKernel):
        return kernel.base, kernel.evaluator
    if isinstance(kernel, FreeKernel):
        return kernel, PairSum(kernel, np.ones((1, dimension)), np.ones(1), np.zeros(1))
    raise KernelError(f"expected a free or a re-weighted kernel, got {type(kernel).__name__}")


def sum_between(evaluator: Evaluator, X: Array, Y: Array | None, *, elementwise: bool) -> ScaledSum:
    """Return S(X_i * Y_j), or S(X_i * Y_i) when `elementwise`; Y=None means Y is X."""
    if elementwise:
        return evaluator.pointwise(X * (X if Y is None else Y))
    return evaluator.symmetric(X) if Y is None else evaluator.pairwise(X, Y)


def reweighted(
    base: FreeKernel, evaluator: Evaluator, X: Array, Y: Array | None = None, *, elementwise: bool = False
) -> Array:
    """Return K^E(X_i, Y_j), (..., n, n'), or K^E(X_i, Y_i), (..., n), when `elementwise`.

    Parameters
    ----------
    base
        The free kernel, which damps each argument.
    evaluator
        Evaluator of the undamped kernel; a differentiable one makes the result differentiable.
    X, Y
        Points (..., n, d) and (..., n', d); None means Y is X.
    elementwise
        Pair X with Y row by row instead of all with all.
    """
    xp = array_namespace(X)
    between = sum_between(evaluator, X, Y, elementwise=elementwise)
    left, right = per_pair(base.log_damping(X), base.log_damping(X if Y is None else Y), elementwise=elementwise)
    return xp.astype(between.mantissa * xp.exp(between.log_scale + (left + right)), X.dtype)


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
