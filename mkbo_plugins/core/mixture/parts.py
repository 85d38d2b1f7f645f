"""A kernel mixture in the place of the fixed parts of a pre-trained covariance."""

from dataclasses import dataclass

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.mixture.kernel_mixture import KernelMixture
from mkbo_plugins.errors import KernelError

PART = "base"
"""The only part that a mixture has: it takes the place of the free kernel K_2."""


@dataclass(frozen=True)
class MixtureParts:
    """What `FixedCovariance` is for a machine; a mixture has the part ``"base"`` alone.

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

    def part(self, name: str, X: Array, Y: Array | None = None, *, elementwise: bool = False) -> Array:
        """Return what `FixedCovariance.part` does."""
        self._check(name)
        return self.mixture(X, X if Y is None else Y) if elementwise else self.mixture.gram(X, Y)

    def pull_part(
        self,
        name: str,
        X: Array,
        Y: Array | None,
        value: Array,
        upstream: Array,
        *,
        elementwise: bool = False,
        second: bool = True,
    ) -> tuple[Array, Array]:
        """Return what `FixedCovariance.pull_part` does."""
        self._check(name)
        Y = X if Y is None else Y
        if not elementwise:
            return self.mixture.pull(X, Y, upstream)
        of_x, of_y = self.mixture.pull(X[..., None, :], Y[..., None, :], upstream[..., None, None])
        return of_x[..., 0, :], of_y[..., 0, :]

    @staticmethod
    def _check(name: str) -> None:
        if name != PART:
            raise KernelError(f"a kernel mixture has no part {name!r}: no machine was trained; use form={PART!r}")
