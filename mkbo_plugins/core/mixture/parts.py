"""A kernel mixture in the place of the fixed parts of a pre-trained covariance."""

from dataclasses import dataclass

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.components.components import KernelGram
from mkbo_plugins.core.mixture.kernel_mixture import KernelMixture
from mkbo_plugins.errors import KernelError

PART = "base"
"""The only part that a mixture has: it takes the place of the free kernel K_2."""


@dataclass(frozen=True)
class MixtureParts:
    """What `PretrainedComponents` is for a machine; a mixture has the part ``"base"`` alone.

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
        """Itself, being as fast as can be."""
        return self

    def likeness(self, X: Array, Y: Array) -> Array:
        """Return the mixture's correlations between points (n, d) and (n', d), (n, n')."""
        return self.mixture.gram(X, Y) / sum(self.mixture.variances)

    def component(self, name: str, X: Array, Y: Array | None = None, *, elementwise: bool = False) -> KernelGram:
        """Return what `PretrainedComponents.component` does."""
        if name != PART:
            raise KernelError(f"a kernel mixture has no part {name!r}: no machine was trained; use form={PART!r}")
        return KernelGram(self.mixture, X, Y, elementwise)
