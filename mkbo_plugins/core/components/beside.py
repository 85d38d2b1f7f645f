"""Components between points and both others and themselves, as a posterior needs them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.components.protocols import Component, FixedComponents
from mkbo_plugins.core.reweighted.gram import DifferentiableSum


@dataclass(frozen=True, eq=False)
class Beside:
    """A component between q points and, one after the other, n others and the points themselves.

    Parameters
    ----------
    across
        The component between the points and the others, (..., q, n).
    own
        The same between the points, (..., q, q).
    """

    across: Component
    own: Component

    @cached_property
    def value(self) -> Float[Array, "... q nq"]:
        """Both, (..., q, n + q)."""
        across, own = self.across.value, self.own.value
        return array_namespace(across).concat([across, own], axis=-1)

    def vjp(
        self, upstream: Float[Array, "... q nq"], *, second: bool = True
    ) -> tuple[Float[Array, "... q d"], Float[Array, "... n d"] | None]:
        """Pull a gradient with respect to the value back to the points, on both sides, and to the others."""
        n = upstream.shape[-1] - upstream.shape[-2]
        of_points, of_others = self.across.vjp(upstream[..., :n], second=second)
        left, right = self.own.vjp(upstream[..., n:])
        return of_points + left + right, of_others

    def composed(self, S: DifferentiableSum) -> Float[Array, "... q nq"]:
        """Return what `Component.composed` does."""
        across, own = self.across.composed(S), self.own.composed(S)
        return array_namespace(across).concat([across, own], axis=-1)


def components_beside(
    fixed: FixedComponents, names: Iterable[str], X: Float[Array, "... q d"], Y: Float[Array, "... n d"]
) -> dict[str, Beside]:
    """Return components between points X, and both others Y and X itself, by name.

    Parameters
    ----------
    fixed, names
        As for `PretrainedComponents.components`.
    X, Y
        Frame coordinates, (..., q, d) and (..., n, d) with leading shapes that broadcast to that of X.
    """
    names = tuple(names)
    across, own = fixed.components(names, X, Y), fixed.components(names, X)
    return {name: Beside(across[name], own[name]) for name in names}
