"""The components of a kernel mixture, so that hosts use it as they use a pre-trained covariance."""

from collections.abc import Iterable
from dataclasses import dataclass

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.components.between_points import KernelGram
from mkbo_plugins.core.mixture.kernel_mixture import KernelMixture
from mkbo_plugins.errors import KernelError

PART = "base"
"""The only part that a mixture has: it takes the place of the free kernel K_2."""


@dataclass(frozen=True)
class MixtureParts:
    """The components of a kernel mixture: ``"base"`` alone, since no machine was trained.

    Parameters
    ----------
    mixture
        The mixture.
    """

    mixture: KernelMixture

    @property
    def tables(self) -> int:
        """Number of tables that have parts and scales of their own: one."""
        return 1

    @property
    def coarse(self) -> "MixtureParts":
        """Itself: a mixture is evaluated in one way only."""
        return self

    def rough(self, names: Iterable[str], X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> None:
        """Return None: a mixture is never slow."""

    def searched(self, names: Iterable[str], X: Float[Array, "n d"]) -> "MixtureParts":
        """Return itself, as for `coarse`."""
        return self

    def correlation(self, X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Return the mixture's correlations between points (n, d) and (n', d), (n, n')."""
        return self.mixture.gram(X, Y) / sum(self.mixture.variances)

    def components(
        self,
        names: Iterable[str],
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"] | None = None,
        *,
        elementwise: bool = False,
    ) -> dict[str, KernelGram]:
        """Return what `PretrainedComponents.components` does."""
        for name in names:
            if name != PART:
                raise KernelError(f"a kernel mixture has no part {name!r}: no machine was trained; use form={PART!r}")
        return dict.fromkeys(names, KernelGram(self.mixture, X, Y, elementwise))

    def from_point(self, names: Iterable[str], x: Float[Array, "1 d"], Y: Float[Array, "m d"]) -> dict[str, KernelGram]:
        """Return what `PretrainedComponents.from_point` does."""
        return self.components(names, x, array_namespace(x, Y).concat([Y, x]))
