"""Sums and quotients of components, between points or from a point."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.reweighted.gram import DifferentiableSum


@dataclass(frozen=True, eq=False)
class Added:
    """The sum of two functions of the same points."""

    first: Any
    second: Any

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        return self.first.value + self.second.value

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... d"], Float[Array, "... d"] | None]:
        """Return what `Component.vjp`, or `FromPoint.vjp`, does."""
        (of_x, of_y), (more_x, more_y) = (part.vjp(upstream, second=second) for part in (self.first, self.second))
        return of_x + more_x, None if of_y is None else of_y + more_y

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does."""
        return self.first.composed(S) + self.second.composed(S)


@dataclass(frozen=True, eq=False)
class Divided:
    """A function of two points, divided by a constant."""

    function: Any
    unit: float

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        return self.function.value / self.unit

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... d"], Float[Array, "... d"] | None]:
        """Return what `Component.vjp`, or `FromPoint.vjp`, does."""
        of_x, of_y = self.function.vjp(upstream / self.unit, second=second)
        return of_x, of_y

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does."""
        return self.function.composed(S) / self.unit
