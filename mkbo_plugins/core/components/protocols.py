"""What models and hosts need of a pre-trained covariance, whatever it is made of."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.reweighted.gram import DifferentiableSum


class Component(Protocol):
    """A function of two sets of points, evaluated at them: its value, and the way of gradients back to them."""

    @property
    def value(self) -> Float[Array, "..."]:
        """Its value, (..., n, n'), or, of points paired row by row, (..., n)."""

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... d"], Float[Array, "... d"] | None]:
        """Pull a gradient with respect to the value back to both points, as `Gram.vjp`.

        Where both arguments are the same points, the gradient with respect to them is the sum of both.
        """

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return the value by operations that a host differentiates twice; S as for `gram.composed`."""


class FromPoint(Protocol):
    """A function between one point and m others, and in a last column itself, for searches that move the point."""

    @property
    def value(self) -> Float[Array, "1 n"]:
        """Its value, n = m + 1."""

    def vjp(
        self, upstream: Float[Array, "k n"], *, second: bool = True
    ) -> tuple[Float[Array, "k d"], Float[Array, "m d"] | None]:
        """Pull gradients with respect to the value, one a row, back to the first argument, where `second` is not set.

        In the last column the second argument moves too, which doubles the gradient, since functions are symmetric.
        """


class ModelComponents(Protocol):
    """What a covariance model needs of a pre-trained covariance."""

    @property
    def tables(self) -> int:
        """Number of tables that have components and scales of their own."""

    @property
    def coarse(self) -> "ModelComponents":
        """The same with larger errors, faster, for many points of which the best are wanted."""

    def rough(self, names: Iterable[str], X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> "ModelComponents | None":
        """Return the same for ranking points (m, d) by data (n, d), as `PretrainedComponents.rough`."""

    def components(
        self,
        names: Iterable[str],
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"] | None = None,
        *,
        elementwise: bool = False,
    ) -> Mapping[str, Component]:
        """Return components between points by name, as `PretrainedComponents.components`."""

    def from_point(
        self, names: Iterable[str], x: Float[Array, "1 d"], Y: Float[Array, "m d"]
    ) -> Mapping[str, "FromPoint"]:
        """Return components between a point and others and, last, itself, as `PretrainedComponents.from_point`."""


class FixedComponents(ModelComponents, Protocol):
    """What hosts need of a pre-trained covariance, be it of one table, of several, or a kernel mixture."""

    @property
    def coarse(self) -> "FixedComponents":
        """The same with larger errors, as `ModelComponents.coarse`."""

    def searched(self, names: Iterable[str], X: Float[Array, "n d"]) -> "FixedComponents":
        """Return the same for a search in the box of points (n, d), as `PretrainedComponents.searched`."""

    def correlation(self, X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Return the prior correlation between points (n, d) and (n', d), (n, n')."""
