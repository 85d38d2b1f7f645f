r"""The kernel mixture, a baseline: a sum of stationary kernels whose parameters a table determines.

.. math:: K(x, y) = v_1 \exp(-r^2 / (2 l_1^2)) + v_2 \exp(-r / l_2)
          + v_3 (1 + \sqrt 3 r / l_3) \exp(-\sqrt 3 r / l_3), \quad r = \|x - y\|,

the squared exponential, Matérn 1/2 and Matérn 3/2. All parameters minimise the leave-one-out mean squared error of a
Gaussian process on the table, which sees the variances and the noise only up to a common factor: variances sum to 1.

Source: the mixture of Shilton et al., arXiv 1802.05370, experiments.
"""

import itertools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from mkbo_plugins.core.arrays import Array, array_namespace, per_pair
from mkbo_plugins.core.gp.exact_gp import held_out_residuals
from mkbo_plugins.core.gp.map_fit import lowest_minimum
from mkbo_plugins.core.kernels import check_points, gram_points, not_negative, positive, sequence
from mkbo_plugins.errors import FitError, KernelError

Triple: TypeAlias = tuple[float, float, float]
"""One number per component."""

ROOT_THREE = math.sqrt(3)

_STARTS = (0.2, 0.7, 2.0)
_SCALE_BOUNDS = (2.5e-2, 1e3)
_SHARE_BOUNDS = (1e-6, 1e6)
_NOISE_BOUNDS = (1e-8, 1e2)


def _components(
    squared: Float[Array, "*shape"], scales: Triple
) -> tuple[tuple[Float[Array, "*shape"], Float[Array, "*shape"]], ...]:
    """Return each component and its derivative in r^2 from squared distances; the derivative is 0 at r = 0."""
    xp = array_namespace(squared)
    apart = squared > 0
    # The root has no gradient at zero; equal points get a distance of 1 there, and constants in its place.
    r = xp.sqrt(xp.where(apart, squared, xp.ones_like(squared)))
    one, zero = xp.ones_like(squared), xp.zeros_like(squared)
    se = xp.exp(-squared / (2 * scales[0] ** 2))
    rough = xp.exp(-r / scales[1])
    t = ROOT_THREE * r / scales[2]
    smooth = xp.exp(-t)
    return (
        (se, -se / (2 * scales[0] ** 2)),
        (xp.where(apart, rough, one), xp.where(apart, -rough / (2 * scales[1] * r), zero)),
        (xp.where(apart, (1 + t) * smooth, one), xp.where(apart, -1.5 * smooth / scales[2] ** 2, zero)),
    )


@dataclass(frozen=True)
class KernelMixture:
    """A mixture of the squared exponential, Matérn 1/2 and Matérn 3/2.

    Parameters
    ----------
    variances
        v_1, v_2, v_3, finite and not negative, at least one of them positive.
    scales
        Length scales l_1, l_2, l_3, above 0, in units of the coordinates.
    noise
        Noise variance that goes with them, above 0; no part of the kernel's values.
    dimension
        Number of coordinates, or None where any is accepted.

    Raises
    ------
    KernelError
        If an argument is not as described.
    """

    variances: Triple
    scales: Triple
    noise: float = 1e-6
    dimension: int | None = None

    def __post_init__(self) -> None:
        for name, checked in (("variances", not_negative), ("scales", positive)):
            values = sequence(getattr(self, name), name)
            if len(values) != 3:
                raise KernelError(f"{name} must hold 3 numbers, one per component, got {len(values)}")
            object.__setattr__(self, name, tuple(checked(value, f"{name}[{i}]") for i, value in enumerate(values)))
        if not any(self.variances):
            raise KernelError("variances must not all be 0")
        object.__setattr__(self, "noise", positive(self.noise, "noise"))

    def __call__(self, x: Array, y: Array) -> Float[Array, "..."]:
        """Evaluate at points x and y, each (..., d), whose leading shapes broadcast."""
        x, y = check_points((x, y), self.dimension)
        return self._values(array_namespace(x, y).sum((x - y) ** 2, axis=-1))

    def gram(self, X: Array, Y: Array | None = None) -> Float[Array, "... n m"]:
        """Return the Gram matrix, (..., n, n'), for points (..., n, d) and (..., n', d)."""
        X, Y = gram_points(X, Y, self.dimension)
        return self._values(_squared_distances(X, X if Y is None else Y))

    def pull(
        self,
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"],
        upstream: Float[Array, "... n m"],
        *,
        second: bool = True,
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Pull a gradient with respect to ``gram(X, Y)``, (..., n, n'), back to X and Y, or only to X.

        Equal points have none.
        """
        xp = array_namespace(X, Y)
        parts = _components(_squared_distances(X, Y), self.scales)
        slope = 2 * upstream * sum(v * part[1] for v, part in zip(self.variances, parts, strict=True))
        of_x = xp.sum(slope, axis=-1)[..., None] * X - (slope @ Y)
        if not second:
            return of_x, None
        return of_x, xp.sum(slope, axis=-2)[..., None] * Y - (slope.mT @ X)

    def _values(self, squared: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        parts = _components(squared, self.scales)
        return sum(v * part[0] for v, part in zip(self.variances, parts, strict=True))


def _squared_distances(X: Float[Array, "... n d"], Y: Float[Array, "... m d"]) -> Float[Array, "... n m"]:
    """Return squared distances from differences, so that equal points are at distance 0 exactly."""
    total = 0.0
    for j in range(X.shape[-1]):
        left, right = per_pair(X[..., j], Y[..., j], elementwise=False)
        total = total + (left - right) ** 2
    return total


@dataclass(frozen=True)
class MixtureFit:
    """A mixture fitted to a table.

    Parameters
    ----------
    mixture
        The mixture; variances sum to 1, the noise is in the same units.
    loo_mse
        Its leave-one-out mean squared error on the table, in squared units of the target.
    """

    mixture: KernelMixture
    loo_mse: float


def fit_kernel_mixture(X: Array, y: Array) -> MixtureFit:
    """Fit variances, length scales and noise of a `KernelMixture` to a table by leave-one-out error.

    The Gaussian process has a constant mean, which each held-out row's prediction estimates anew.

    Parameters
    ----------
    X
        Frame coordinates, (N, d).
    y
        Values, (N,).

    Raises
    ------
    FitError
        If there are fewer than 3 rows, shapes disagree, values are not finite, or y is constant.
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if X.ndim != 2 or y.shape != X.shape[:1] or len(y) < 3:
        raise FitError(f"X must be (N, d) and y (N,) with N of at least 3, got shapes {X.shape} and {y.shape}")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise FitError("X and y must hold finite numbers; drop or fill in the rows that do not")
    std = float(np.std(y))
    if not std:
        raise FitError(f"y has the value {y[0]:g} in every row: there is nothing to learn")
    squared, scaled = _squared_distances(X, X), (y - y.mean()) / std
    bounds = np.log([_SHARE_BOUNDS] * 2 + [_SCALE_BOUNDS] * 3 + [_NOISE_BOUNDS])
    starts = [
        np.concatenate([np.zeros(2), np.log([scale] * 3), [math.log(noise)]])
        for scale, noise in itertools.product(_STARTS, (1e-4, 1e-1))
    ]
    fit = lowest_minimum(leave_one_out_loss, starts, bounds, args=(squared, scaled))
    variances, scales, noise = _unpack(fit.x)
    return MixtureFit(KernelMixture(variances, scales, noise, X.shape[1]), float(fit.fun) * std**2)


def _unpack(parameters: Float[np.ndarray, " 6"]) -> tuple[Triple, Triple, float]:
    """Return variances, scales and noise from logarithms of v_2 / v_1, v_3 / v_1, the scales and noise / total."""
    shares = np.exp(np.concatenate([[0.0], parameters[:2]]))
    variances, scales = (shares / shares.sum()).tolist(), np.exp(parameters[2:5]).tolist()
    return tuple(variances), tuple(scales), float(np.exp(parameters[5]))


def leave_one_out_loss(
    parameters: Float[np.ndarray, " 6"], squared: Float[np.ndarray, "N N"], y: Float[np.ndarray, " N"]
) -> tuple[float, Float[np.ndarray, " 6"]]:
    """Return the closed-form leave-one-out mean squared error and its gradient.

    With ``P = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1)`` and ``A = K + noise I``, the held-out residual of row i is
    ``(P y)_i / P_ii``, the constant mean estimated without it.

    Parameters
    ----------
    parameters
        Logarithms of v_2 / v_1, v_3 / v_1, the three length scales and the noise, (6,); variances sum to 1.
    squared
        Squared distances between rows, (N, N).
    y
        Values, (N,).
    """
    n = len(y)
    variances, scales, noise = _unpack(parameters)
    parts = _components(squared, scales)
    gram = sum(v * value for v, (value, _) in zip(variances, parts, strict=True))
    inverse = cho_solve(cho_factor(gram + noise * np.eye(n)), np.eye(n))
    total = inverse.sum(axis=1)
    P = inverse - np.outer(total, total) / total.sum()
    dual, diagonal = P @ y, np.diag(P)
    residuals = held_out_residuals(P, dual)
    # The loss moves by the sum over G * dA.
    G = 2 / n * ((P * (residuals**2 / diagonal)) @ P - np.outer(P @ (residuals / diagonal), dual))
    of_variances = np.array([np.sum(G * value) for value, _ in parts])
    of_shares = np.array(variances) * (of_variances - np.dot(variances, of_variances))
    # A component depends on r^2 / l^2 alone.
    of_scales = [-2 * v * np.sum(G * slope * squared) for v, (_, slope) in zip(variances, parts, strict=True)]
    gradient = np.concatenate([of_shares[1:], of_scales, [noise * np.trace(G)]])
    return float(np.mean(residuals**2)), gradient
