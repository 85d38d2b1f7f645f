r"""Re-weighted free kernels (Theorem 3).

Re-weighting a free kernel by weighted points (alpha_i, x_i) gives

.. math:: K_m^E(x, ...) = \sum_{ij} alpha_i alpha_j K_{m+2}(x_i, x_j, x, ...),

again a free kernel: same features, feature weights ``w_k = tau_k sum_i alpha_i theta_k(x_i)``. Re-weighting it once
more is one re-weighting by all products of points ``x_i * z_k`` with coefficients ``alpha_i beta_k``.

A normalised free kernel is free, too (Definition 3): its features are ``theta_k(x) / sqrt(K_2(x, x))``, its feature
weights those of K. Re-weighting it therefore divides two things by the root of K_2, each coefficient alpha_i at its
point, once and for all, and each argument where the kernel is evaluated,

.. math:: sum_{ij} (alpha_i / n(x_i)) (alpha_j / n(x_j)) K_{m+2}(x_i, x_j, x, ...) / (n(x) ...), n(x) = sqrt(K_2(x, x)).

Where K_2(x, x) is zero or below its rounding error, normalised features, and with them the coefficient or the value,
count as zero.

Source: Shilton et al., arXiv 1802.05370, Theorem 3; ``E`` is a `WeightedPoints`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
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

NORM_TOLERANCE = 1e-14
"""Error aimed at in the diagonals that normalise, whose errors are those of coefficients."""


@runtime_checkable
class Reweightable(Protocol):
    """A kernel of a class that knows how to re-weight itself."""

    def reweighted_by(self, table: WeightedPoints) -> "ReweightedKernel":
        """Return the kernel re-weighted by one more table."""


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
    norm
        The kernel whose normalisation is re-weighted: arguments are divided by the root of its diagonal in place of
        being damped as those of `base`, and so are coefficients already. None if none was normalised.
    """

    base: FreeKernel
    tables: tuple[WeightedPoints, ...]
    choice: Choice = field(default="auto", compare=False)
    tolerance: float = field(default=1e-10, compare=False)
    norm: "FreeKernel | ReweightedKernel | None" = None

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
        norm = None if self.norm is None else _evaluator_of_norm(self.norm, self.dimension)
        return CertifiedEvaluator(self.base, self.tables, self.dimension, self.choice, self.tolerance, norm)

    def log_damping(self, X: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """Return the logarithm of what each argument is multiplied by, (..., n) for points (..., n, d)."""
        return self.evaluator.log_damping(X)

    def reweighted_by(self, table: WeightedPoints) -> "ReweightedKernel":
        """Return the kernel re-weighted by one more table."""
        if self.norm is not None:
            table = over_norm(self.norm, table)
        return ReweightedKernel(self.base, (*self.tables, table), norm=self.norm)

    def __call__(self, *points: Array) -> Float[Array, "..."]:
        """Evaluate K_m^E at m >= 1 points (..., d) whose leading shapes broadcast."""
        points = check_points(points, self.dimension)
        xp = array_namespace(*points)
        if len(points) == 2:
            return gram(Reweighted(), self.evaluator, *points, elementwise=True).value
        undamped = self.evaluator.pointwise(xp.astype(reduce(lambda a, b: a * b, points), xp.float64))
        log_damping = sum(self.log_damping(x) for x in points)
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


def _evaluator_of_norm(kernel: FreeKernel | ReweightedKernel, dimension: int) -> CertifiedEvaluator:
    tables = kernel.tables if isinstance(kernel, ReweightedKernel) else ()
    base = kernel.base if isinstance(kernel, ReweightedKernel) else kernel
    return CertifiedEvaluator(base, tables, dimension, tolerance=NORM_TOLERANCE)


def over_norm(kernel: FreeKernel | ReweightedKernel, table: WeightedPoints) -> WeightedPoints:
    """Return weighted points with coefficients over ``sqrt(K_2(x_i, x_i))``, which carry the damping of the base."""
    evaluator = _evaluator_of_norm(kernel, table.points.shape[1])
    P, _ = evaluator.prepare(table.points)
    log_norm = np.log(np.where(P.vanishing, 1.0, P.diagonal)) / 2 + P.half_log_scale
    # Coefficients are damped with the base's rate once more when they are summed.
    factor = np.exp(-log_norm - evaluator.base.log_damping(table.points))
    return WeightedPoints(table.points, np.where(P.vanishing, 0.0, table.alpha * factor))


def reweight(
    kernel: FreeKernel | Reweightable, support: Array | Sequence[Sequence[float]], alpha: Array | Sequence[float]
) -> ReweightedKernel:
    """Re-weight a free kernel, a normalised or an already re-weighted one (Theorem 3).

    Of a normalised kernel, coefficients and arguments are divided by the root of the diagonal that normalises it. The
    normalised exponential kernel is `SquaredExponential`, which damps both by ``exp(-||x||^2 / (2 sigma))``. Quotients
    are rounded to double precision, and errors are relative to the kernel of the coefficients so rounded.

    Parameters
    ----------
    kernel
        A free kernel, the result of `normalise`, or that of an earlier `reweight`.
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
        If `kernel` is not free, shapes disagree, a value is not finite, or every coefficient is zero, of a normalised
        kernel also since its diagonal vanishes at all points.
    """
    table = WeightedPoints(support, alpha)  # type: ignore[arg-type]
    if isinstance(kernel, FreeKernel):
        return ReweightedKernel(kernel, (table,))
    if isinstance(kernel, Reweightable):
        return kernel.reweighted_by(table)
    raise KernelError(
        f"only free, normalised and re-weighted kernels can be re-weighted, got {type(kernel).__name__}; re-weight "
        "its kernel first"
    )
