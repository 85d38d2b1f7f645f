"""Which features a kernel weighs how much: a listing for people to read."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.evaluation.features import log_tau_squared
from mkbo_plugins.core.evaluation.truncation import truncate
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel
from mkbo_plugins.errors import KernelError

MAX_LISTED = 100_000
"""Monomials above which a kernel is not listed."""


@dataclass(frozen=True, eq=False)
class FeatureListing:
    """Monomials of a re-weighted kernel, the heaviest first.

    Parameters
    ----------
    exponents
        Exponents k of ``theta_k(x) = prod_j x_j^{k_j}``, (M, d).
    tau
        Feature weights of the free kernel, (M,).
    w
        Feature weights of the re-weighted kernel, (M,).
    """

    exponents: Int[np.ndarray, "M d"]
    tau: Float[np.ndarray, " M"]
    w: Float[np.ndarray, " M"]

    def __len__(self) -> int:
        return len(self.w)

    def __str__(self) -> str:
        rows = zip(self.exponents, self.tau, self.w, strict=True)
        return "\n".join(f"{_monomial(k):<24} tau={tau:<12.6g} w={w:.6g}" for k, tau, w in rows)


def feature_weights(kernel: ReweightedKernel, tolerance: float = 1e-10) -> FeatureListing:
    """List the monomials of a re-weighted kernel with their weights tau_k and w_k (Theorems 2 and 3).

    The squared exponential's features are the monomials times the damping of the point.

    Parameters
    ----------
    kernel
        Result of `reweight`.
    tolerance
        Largest share of ``K^E(x, x)``, without damping, that the monomials left out may have for ``|x_j| <= 1``.

    Raises
    ------
    KernelError
        If the kernel is not a re-weighted one, or needs too many monomials.
    """
    if not isinstance(kernel, ReweightedKernel):
        raise KernelError(f"expected the result of reweight(), got {type(kernel).__name__}")
    found = truncate(kernel.base, kernel.tables, 1.0, tolerance, MAX_LISTED)
    if found is None:
        raise KernelError(f"more than {MAX_LISTED:,} monomials are needed for a tolerance of {tolerance:g}; raise it")
    order = np.argsort(-np.abs(found.weights.value), kind="stable")
    exponents = found.monomials.exponents[order]
    return FeatureListing(exponents, np.exp(log_tau_squared(kernel.base, exponents) / 2), found.weights.value[order])


def _monomial(exponents: Int[np.ndarray, " d"]) -> str:
    factors = (f"x{j}" if k == 1 else f"x{j}^{k}" for j, k in enumerate(exponents, 1) if k)
    return " ".join(factors) or "1"
