"""Predictions of many earlier campaigns, and the covariance that their differences say to expect.

Each campaign i has a prediction ``g_i(x) = sum_j alpha_ij K_2(z_j, x) + bias_i`` over points z_j that all share. Seen
as draws of one random function, they have the mean m and the covariance ``1/M sum_i (g_i(x) - m(x)) (g_i(x') -
m(x'))``, as in empirical Bayesian estimation of a Gaussian process from related functions (Wang et al., "Pre-trained
Gaussian processes for Bayesian optimization", J. Mach. Learn. Res. 25, 2024). Its cost is that of one machine on the
common points, however many rows the campaigns have.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, constant, doubled, with_dtype
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.gram import DifferentiableSum
from mkbo_plugins.errors import KernelError

KEPT_VALUES = 4
"""Sets of points for which deviations are kept."""


@dataclass(frozen=True, eq=False)
class Campaigns:
    """The predictions of M campaigns over P common points.

    Parameters
    ----------
    kernel
        The free kernel K_2.
    points
        The points z_j in frame coordinates, (P, d).
    alpha
        Coefficients, (M, P).
    bias
        Constant terms, (M,).

    Raises
    ------
    KernelError
        If shapes disagree, or a value is not finite.
    """

    kernel: FreeKernel
    points: np.ndarray
    alpha: np.ndarray
    bias: np.ndarray
    _recent: ValueCache = field(default_factory=lambda: ValueCache(KEPT_VALUES), init=False, repr=False)

    def __post_init__(self) -> None:
        values = {name: np.array(getattr(self, name), dtype=float) for name in ("points", "alpha", "bias")}
        points, alpha, bias = values.values()
        if points.ndim != 2 or alpha.ndim != 2 or alpha.shape != (len(bias), len(points)) or bias.ndim != 1:
            shapes = ", ".join(f"{name} {value.shape}" for name, value in values.items())
            raise KernelError(f"campaigns need points (P, d), alpha (M, P) and bias (M,), got {shapes}")
        if not all(np.isfinite(value).all() for value in values.values()):
            raise KernelError("points, alpha and bias of campaigns must hold finite numbers")
        for name, value in values.items():
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Campaigns):
            return NotImplemented
        return self.kernel == other.kernel and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ("points", "alpha", "bias")
        )

    def __hash__(self) -> int:
        return hash((self.kernel, (self.points + 0.0).tobytes(), (self.alpha + 0.0).tobytes()))  # 0.0 equals -0.0

    def __call__(self, X: Float[Array, "*batch n d"]) -> Float[Array, "*batch n M"]:
        """Return the predictions g_i at points (..., n, d), (..., n, M)."""
        return self._combined(X, self.alpha, self.bias)

    @cached_property
    def mean(self) -> DecisionFunction:
        """The mean m of the predictions."""
        return DecisionFunction(
            self.kernel, WeightedPoints(self.points, self.alpha.mean(axis=0)), float(self.bias.mean())
        )

    def deviations(self, X: Float[Array, "*batch n d"]) -> Float[Array, "*batch n M"]:
        """Return (g_i - m) / sqrt(M) at points (..., n, d), (..., n, M), whose products sum to the covariance."""
        return self._combined(X, *self._centred)

    def recent_deviations(self, X: Float[Array, "*batch n d"]) -> Float[Array, "*batch n M"]:
        """Return the same, with values kept of points seen a moment ago."""
        values: Array = self._recent.get("deviations", (X,), self.deviations)
        return values

    def pull(self, X: Float[Array, "*batch n d"], upstream: Float[Array, "*batch n M"]) -> Float[Array, "*batch n d"]:
        """Pull a gradient with respect to ``deviations(X)`` back to X."""
        Z = doubled(X)
        of_kernel = doubled(upstream) @ constant(self._centred[0], Z)
        return with_dtype(self.kernel.pull(Z, constant(self.points, Z), of_kernel, second=False)[0], X.dtype)

    @cached_property
    def _centred(self) -> tuple[Float[np.ndarray, "M P"], Float[np.ndarray, " M"]]:
        root = np.sqrt(len(self.bias))
        return (self.alpha - self.alpha.mean(axis=0)) / root, (self.bias - self.bias.mean()) / root

    def _combined(
        self, X: Float[Array, "*batch n d"], alpha: Float[np.ndarray, "M P"], bias: Float[np.ndarray, " M"]
    ) -> Float[Array, "*batch n M"]:
        Z = doubled(X)
        values = self.kernel.between(Z, constant(self.points, Z)) @ constant(alpha.T, Z)
        return with_dtype(values + constant(bias, Z), X.dtype)


@dataclass(frozen=True, eq=False)
class OfCampaigns:
    """The covariance of campaigns between points (..., n, d) and (..., n', d)."""

    campaigns: Campaigns
    X: Float[Array, "... n d"]
    Y: Float[Array, "... m d"] | None
    elementwise: bool

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        return self._products(*self._deviations)

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Return what `Component.vjp` does."""
        of_x, of_y = self._deviations
        pulled = self.campaigns.pull(self.X, self._combined(upstream, of_y))
        if not second:
            return pulled, None
        transposed = upstream if self.elementwise else upstream.mT
        return pulled, self.campaigns.pull(self.X if self.Y is None else self.Y, self._combined(transposed, of_x))

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does: the value at these very points, without S."""
        of_x = self.campaigns.deviations(self.X)
        return self._products(of_x, of_x if self.Y is None else self.campaigns.deviations(self.Y))

    @cached_property
    def _deviations(self) -> tuple[Float[Array, "... n M"], Float[Array, "... m M"]]:
        of_x = self.campaigns.recent_deviations(self.X)
        return of_x, of_x if self.Y is None else self.campaigns.recent_deviations(self.Y)

    def _products(self, of_x: Float[Array, "... n M"], of_y: Float[Array, "... m M"]) -> Float[Array, "..."]:
        xp = array_namespace(of_x)
        return xp.sum(of_x * of_y, axis=-1) if self.elementwise else (of_x @ of_y.mT)

    def _combined(self, upstream: Float[Array, "..."], deviations: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """Return the gradient with respect to the deviations at the points of one argument from those of the other."""
        if self.elementwise:
            return upstream[..., None] * deviations
        return upstream @ deviations
