"""Two-layer kernels: a stationary profile of the distance between feature vectors."""

from dataclasses import dataclass
from typing import Literal

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, equal_points, per_pair
from mkbo_plugins.core.kernels import FreeKernel, check_points, gram_points, positive
from mkbo_plugins.core.pairsum import Evaluator
from mkbo_plugins.core.reweighting import ReweightedKernel, sum_between, undamped
from mkbo_plugins.errors import KernelError


def feature_distance(
    base: FreeKernel, evaluator: Evaluator, X: Array, Y: Array | None = None, *, elementwise: bool = False
) -> Array:
    """Return the squared feature distance K(x, x) + K(y, y) - 2 K(x, y) >= 0.

    Parameters
    ----------
    base
        The free kernel, which damps each argument.
    evaluator
        Evaluator of the undamped kernel; a differentiable one makes the result differentiable.
    X, Y
        Points (..., n, d) and (..., n', d); None means Y is X.
    elementwise
        Pair X with Y row by row, giving (..., n), instead of all with all, giving (..., n, n').
    """
    xp = array_namespace(X)
    between = sum_between(evaluator, X, Y, elementwise=elementwise)
    of_x = evaluator.pointwise(X * X)
    of_y = of_x if Y is None else evaluator.pointwise(Y * Y)
    damping_x = base.log_damping(X)
    damping_y = damping_x if Y is None else base.log_damping(Y)
    log_x, log_y = per_pair(of_x.log_scale + 2 * damping_x, of_y.log_scale + 2 * damping_y, elementwise=elementwise)
    mantissa_x, mantissa_y = per_pair(of_x.mantissa, of_y.mantissa, elementwise=elementwise)
    left, right = per_pair(damping_x, damping_y, elementwise=elementwise)
    log_between = between.log_scale + (left + right)
    # Subtracted on a common scale, so that two overflowing terms cannot give infinity minus infinity.
    common = xp.maximum(xp.maximum(log_x, log_y), log_between)
    difference = (
        mantissa_x * xp.exp(log_x - common)
        + mantissa_y * xp.exp(log_y - common)
        - 2 * between.mantissa * xp.exp(log_between - common)
    )
    positive = (difference > 0) & ~equal_points(X, X if Y is None else Y, elementwise=elementwise)
    zero = xp.zeros_like(difference)
    distance = xp.where(positive, difference, zero) * xp.exp(xp.where(positive, common, zero))
    return xp.astype(distance, X.dtype)


def squared_exponential_profile(squared_distance: Array, scale: Array | float) -> Array:
    """Return exp(-squared_distance / (2 scale))."""
    return array_namespace(squared_distance).exp(-squared_distance / (2 * scale))


def matern52_profile(squared_distance: Array, scale: Array | float) -> Array:
    """Return (1 + r + r^2 / 3) exp(-r) with r^2 = 5 squared_distance / scale."""
    xp = array_namespace(squared_distance)
    # The profile is smooth in r^2; a floor keeps the gradient of the root finite at zero.
    squared = xp.clip(5 * squared_distance / scale, 1e-30, None)
    r = xp.sqrt(squared)
    return (1 + r + squared / 3) * xp.exp(-r)


_PROFILES = {"se": squared_exponential_profile, "matern52": matern52_profile}


@dataclass(frozen=True)
class TwoLayerKernel:
    """A stationary profile of the feature distance of a kernel.

    Parameters
    ----------
    kernel
        Free or re-weighted kernel whose features measure distance.
    scale
        Squared length scale s in feature space, above 0, in units of the kernel's values.
    profile
        ``"se"``: exp(-d^2 / (2 s)); ``"matern52"``: Matérn 5/2 of d / sqrt(s).

    Raises
    ------
    KernelError
        If an argument is not as described.
    """

    kernel: FreeKernel | ReweightedKernel
    scale: float
    profile: Literal["se", "matern52"] = "se"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, (FreeKernel, ReweightedKernel)):
            raise KernelError(f"kernel must be a free or a re-weighted kernel, got {type(self.kernel).__name__}")
        object.__setattr__(self, "scale", positive(self.scale, "scale"))
        if self.profile not in _PROFILES:
            raise KernelError(f"profile must be one of {sorted(_PROFILES)}, got {self.profile!r}")

    def __call__(self, x: Array, y: Array) -> Array:
        """Evaluate at points x and y, each (..., d), whose leading shapes broadcast."""
        x, y = check_points((x, y), self.kernel.dimension)
        base, evaluator = undamped(self.kernel, x.shape[-1])
        return _PROFILES[self.profile](feature_distance(base, evaluator, x, y, elementwise=True), self.scale)

    def gram(self, X: Array, Y: Array | None = None) -> Array:
        """Return the Gram matrix, (..., n, n'), for points (..., n, d) and (..., n', d)."""
        X, Y = gram_points(X, Y, self.kernel.dimension)
        base, evaluator = undamped(self.kernel, X.shape[-1])
        return _PROFILES[self.profile](feature_distance(base, evaluator, X, Y), self.scale)
