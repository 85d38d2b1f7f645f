r"""Explicit features of free kernels for machines of any norm.

A free kernel ``K_m = sum_k tau_k^2 prod_i theta_k(x_i)`` of 2q arguments is ``sum_k prod_i phi_k(x_i)`` with
``phi_k = tau_k^(1/q) theta_k``, which depends on q. For a re-weighted kernel the weights w_k (Theorem 3) take the place
of tau_k; a normalised one divides the features by ``sqrt(K_2(x, x))``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.evaluation.features import log_tau_squared, monomial_exponents, monomial_weights, monomials
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.normalisation import NormalisedKernel
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel
from mkbo_plugins.errors import KernelError

MAX_FEATURES = 10_000
"""Monomials above which a kernel is refused."""

SERIES_TOLERANCE = 1e-12
"""Share of K_2q(x, ..., x) that the degrees left out of an unending series may have."""

MAX_DEGREE = 200
"""Degree at which the search for the end of a series is given up."""


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """The features phi_k of a kernel at one q.

    Parameters
    ----------
    kernel
        The free, re-weighted or normalised kernel.
    exponents
        Exponents k of the monomials, (M, d).
    scale
        ``tau_k^(1/q)``, or ``|w_k|^(1/q)``, (M,).
    """

    kernel: FreeKernel | ReweightedKernel | NormalisedKernel
    exponents: Int[np.ndarray, "M d"]
    scale: Float[np.ndarray, " M"]

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n M"]:
        """Return phi_k at points (n, d), (n, M); zero where a normalised kernel has no diagonal."""
        values = monomials(X, self.exponents).T
        if not isinstance(self.kernel, NormalisedKernel):
            return values * self.scale * np.exp(self.kernel.log_damping(X))[:, None]
        # Damping cancels in the quotient, so that the diagonal is that of the undamped features.
        diagonal = np.sum((values * self._tau) ** 2, axis=1)[:, None]
        return np.divide(values * self.scale, np.sqrt(diagonal), out=np.zeros_like(values), where=diagonal > 0)

    @property
    def _tau(self) -> Float[np.ndarray, " M"]:
        return _tau(self.kernel, self.exponents)


def kernel_features(
    kernel: FreeKernel | ReweightedKernel | NormalisedKernel, X: Float[np.ndarray, "n d"], q: int
) -> KernelFeatures:
    """Return the features of a kernel of 2q arguments; an unending series ends where it is complete at `X`.

    Parameters
    ----------
    kernel
        A free or re-weighted kernel, or one of these normalised.
    X
        Points, (n, d), at which at most a share of 1e-12 of ``K_2q(x, ..., x)`` is left out.
    q
        Half the number of arguments.

    Raises
    ------
    KernelError
        If the kernel is of another kind, of another dimension, or needs too many monomials.
    """
    base, d = free_base(kernel), X.shape[1]
    inner = _unnormalised(kernel)
    if inner.dimension is not None and inner.dimension != d:
        raise KernelError(f"the kernel has {inner.dimension} coordinates, but the points have {d}")
    degree = _degree(base, X, q, inner.tables if isinstance(inner, ReweightedKernel) else ())
    count = math.comb(d + degree, d)
    if count > MAX_FEATURES:
        raise KernelError(
            f"the kernel needs {count:,} monomials of {d} coordinates up to degree {degree}, above the limit of "
            f"{MAX_FEATURES:,}; use a polynomial of lower degree, a larger sigma, fewer coordinates, or "
            "SymmetrisedProduct(kernel), which needs none"
        )
    exponents = monomial_exponents(d, degree)
    tau = _tau(kernel, exponents)
    kept = tau > 0
    return KernelFeatures(kernel, exponents[kept], tau[kept] ** (1 / q))


def free_base(kernel: object) -> FreeKernel:
    """Return the free kernel that a free, re-weighted or normalised kernel is built on.

    Raises
    ------
    KernelError
        If it is none of these.
    """
    base = _free_base(kernel)
    if base is None:
        raise KernelError(
            f"expected a free kernel, a re-weighted or a normalised one, or a SymmetrisedProduct, got "
            f"{type(kernel).__name__}; SymmetrisedProduct makes a 2q-kernel of any two-argument kernel"
        )
    return base


def has_finite_features(kernel: object, d: int) -> bool:
    """Return whether a kernel of `d` coordinates is built on a free one of finitely many monomials, up to the limit."""
    base = _free_base(kernel)
    if base is None or not math.isfinite(base.degree_limit):
        return False
    return math.comb(d + int(base.degree_limit), d) <= MAX_FEATURES


def _unnormalised(kernel: Any) -> Any:
    """Return the kernel that a normalised one divides, any other one as it is."""
    return kernel.kernel if isinstance(kernel, NormalisedKernel) else kernel


def _free_base(kernel: object) -> FreeKernel | None:
    inner = _unnormalised(kernel)
    base = inner.base if isinstance(inner, ReweightedKernel) else inner
    return base if isinstance(base, FreeKernel) else None


def _tau(
    kernel: FreeKernel | ReweightedKernel | NormalisedKernel, exponents: Int[np.ndarray, "M d"]
) -> Float[np.ndarray, " M"]:
    inner = _unnormalised(kernel)
    if isinstance(inner, ReweightedKernel):
        return np.abs(monomial_weights(inner.base, inner.tables, exponents).value)
    return np.exp(log_tau_squared(inner, exponents) / 2)


def _degree(base: FreeKernel, X: Float[np.ndarray, "n d"], q: int, tables: Sequence[WeightedPoints]) -> int:
    """Return the degree at which h at ``<<x, ..., x>>`` of 2q arguments is complete for the farthest point.

    Raises
    ------
    KernelError
        If it is above `MAX_DEGREE`.
    """
    if math.isfinite(base.degree_limit):
        return int(base.degree_limit)
    # A table multiplies the weight of a monomial by its square at the table's points, up to a constant.
    reach = np.ones(X.shape[1])
    for table in tables:
        reach = reach * np.maximum(1.0, np.max(np.abs(table.points), axis=0) ** 2)
    # Normalising divides by K_2, whose own series must be complete as well.
    c = max(float(np.max(np.sum(base.weighted(np.abs(X) ** power * reach), axis=1))) for power in (2, 2 * q))
    logs = np.array([base.log_coefficient(p) + p * math.log(c) if c else 0.0 for p in range(MAX_DEGREE + 1)])
    if not c:
        return 0
    sums = np.logaddexp.accumulate(logs)
    complete = np.flatnonzero(sums >= sums[-1] + math.log1p(-SERIES_TOLERANCE))
    if sums[-1] - logs[-1] <= -math.log(SERIES_TOLERANCE):
        raise KernelError(
            f"the kernel's series needs degrees above {MAX_DEGREE} at these points; use a larger sigma, or mend points "
            "far from the origin"
        )
    return int(complete[0])
