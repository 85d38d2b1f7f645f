"""Components that are functions of the standardised decision function at both points."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, per_pair
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.reweighted.gram import DifferentiableSum

KEPT_VALUES = 4
"""Sets of points for which values of the decision function are kept."""


class Symmetric(NamedTuple):
    """A symmetric function of two numbers, and its derivative in the first."""

    function: Callable[[Array, Array], Array]
    derivative: Callable[[Array, Array], Array]


OF_DECISION: Mapping[str, Symmetric] = MappingProxyType(
    {
        "moment": Symmetric(operator.mul, lambda left, right: right),
        "decision_distance": Symmetric(lambda left, right: (left - right) ** 2, lambda left, right: 2 * (left - right)),
        "decision": Symmetric(lambda left, right: (left + right) / 2, lambda left, right: 0.5),
    }
)
"""The functions by the names of the components."""


@dataclass(frozen=True, eq=False)
class StandardisedDecision:
    """The standardised decision function (g - mean) / spread."""

    decision: DecisionFunction
    mean: float
    spread: float
    recent: ValueCache = field(default_factory=lambda: ValueCache(KEPT_VALUES), init=False, repr=False)


@dataclass(frozen=True, eq=False)
class Decided:
    """The standardised decision function at points (..., n, d)."""

    decision: StandardisedDecision
    points: Float[Array, "... n d"]

    @cached_property
    def values(self) -> Float[Array, "... n"]:
        """Its values, (..., n)."""
        return (self.decision.decision(self.points) - self.decision.mean) / self.decision.spread

    @cached_property
    def gradient(self) -> Float[Array, "... n d"]:
        """Its gradient in each point, (..., n, d)."""
        return self.decision.decision.gradient(self.points) / self.decision.spread

    @cached_property
    def recent(self) -> "Decided":
        """The same, with values kept of points seen a moment ago."""
        found: Decided = self.decision.recent.get("decision", (self.points,), partial(Decided, self.decision))
        return found


@dataclass(frozen=True, eq=False)
class OfDecision:
    """A symmetric function of the decision function at both points."""

    symmetric: Symmetric
    x: Decided
    y: Decided
    elementwise: bool

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        return self.symmetric.function(
            *per_pair(self.x.recent.values, self.y.recent.values, elementwise=self.elementwise)
        )

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Return what `Component.vjp` does."""
        xp = array_namespace(upstream)
        x, y = self.x.recent, self.y.recent
        left, right = per_pair(x.values, y.values, elementwise=self.elementwise)
        to_x = upstream * self.symmetric.derivative(left, right)
        of_x = (to_x if self.elementwise else xp.sum(to_x, axis=-1))[..., None] * x.gradient
        if not second:
            return of_x, None
        to_y = upstream * self.symmetric.derivative(right, left)
        return of_x, (to_y if self.elementwise else xp.sum(to_y, axis=-2))[..., None] * y.gradient

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does: the value at these very points, without S."""
        return self.symmetric.function(*per_pair(self.x.values, self.y.values, elementwise=self.elementwise))
