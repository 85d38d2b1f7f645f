"""Two-layer kernels: a stationary profile of the distance between feature vectors."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float, Inexact

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.kernels import FreeKernel, check_points, gram_points, positive
from mkbo_plugins.core.reweighted.formulas import FeatureDistance
from mkbo_plugins.core.reweighted.gram import gram
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel, undamped
from mkbo_plugins.errors import KernelError


def squared_exponential_profile(squared_distance: Inexact[Array, "..."], scale: Array | float) -> Inexact[Array, "..."]:
    """Return exp(-squared_distance / (2 scale))."""
    return array_namespace(squared_distance).exp(-squared_distance / (2 * scale))


def rational_quadratic_profile(squared_distance: Inexact[Array, "..."], scale: Array | float) -> Inexact[Array, "..."]:
    """Return 1 / (1 + squared_distance / (2 scale)), whose slope far out does not vanish as an exponential's does."""
    return 1 / (1 + squared_distance / (2 * scale))


def matern52_profile(squared_distance: Inexact[Array, "..."], scale: Array | float) -> Inexact[Array, "..."]:
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

    def __call__(self, x: Array, y: Array) -> Float[Array, "..."]:
        """Evaluate at points x and y, each (..., d), whose leading shapes broadcast."""
        x, y = check_points((x, y), self.kernel.dimension)
        distance = gram(FeatureDistance(), undamped(self.kernel, x.shape[-1]), x, y, elementwise=True).value
        return _PROFILES[self.profile](distance, self.scale)

    def gram(self, X: Array, Y: Array | None = None) -> Float[Array, "... n m"]:
        """Return the Gram matrix, (..., n, n'), for points (..., n, d) and (..., n', d)."""
        X, Y = gram_points(X, Y, self.kernel.dimension)
        distance = gram(FeatureDistance(), undamped(self.kernel, X.shape[-1]), X, Y).value
        return _PROFILES[self.profile](distance, self.scale)
