"""The components of a pre-trained covariance in frame coordinates: what no optimiser refits, with gradients."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Protocol

from array_api_compat import array_namespace
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, per_pair
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.evaluation.evaluator import Choice
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.formulas import FeatureDistance, Formula, Normalised, Reweighted
from mkbo_plugins.core.reweighted.gram import DifferentiableSum, composed, gram
from mkbo_plugins.core.reweighted.normalisation import NormalisedKernel, normalise
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel

KEPT_VALUES = 4
"""Sets of points for which values of the decision function are kept."""

COARSE = 1e-6
"""Error of entries relative to the root of the product of both diagonals where speed matters more."""


class Component(Protocol):
    """A function of two sets of points, evaluated at them: its value, and the way of gradients back to them."""

    @property
    def value(self) -> Float[Array, "..."]:
        """Its value, (..., n, n'), or, of points paired row by row, (..., n)."""

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... d"], Float[Array, "... d"] | None]:
        """Pull a gradient with respect to the value back to both points.

        Parameters
        ----------
        upstream
            Gradient with respect to the value, of its shape.
        second
            Whether the gradient with respect to the second argument is wanted.

        Returns
        -------
        tuple of arrays
            Gradients with respect to the first and the second argument, of their shapes. With respect to points that
            are both arguments, the gradient is their sum. None may stand for the second where it is not wanted.
        """


class ModelComponents(Protocol):
    """What a covariance model needs of a pre-trained covariance."""

    @property
    def tables(self) -> int:
        """Number of tables that have components and scales of their own."""

    @property
    def coarse(self) -> "ModelComponents":
        """The same with larger errors, faster, for many points of which the best are wanted."""

    def components(
        self,
        names: Iterable[str],
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"] | None = None,
        *,
        elementwise: bool = False,
    ) -> Mapping[str, Component]:
        """Return components between points by name, as `PretrainedComponents.components`."""


class FixedComponents(ModelComponents, Protocol):
    """What hosts need of a pre-trained covariance, be it of one table, of several, or a kernel mixture."""

    def correlation(self, X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Return the prior correlation between points (n, d) and (n', d), (n, n')."""

    def composed(
        self,
        name: str,
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"] | None,
        S: DifferentiableSum,
        *,
        elementwise: bool = False,
    ) -> Float[Array, "..."]:
        """Return the value of a component, as `PretrainedComponents.composed`."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """A component divided by a constant."""

    component: Component
    unit: float

    @property
    def value(self) -> Float[Array, "..."]:
        """The quotient."""
        return self.component.value / self.unit

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... d"], Float[Array, "... d"] | None]:
        """Return what `Component.vjp` does."""
        return self.component.vjp(upstream / self.unit, second=second)


class PullableKernel(Protocol):
    """A kernel of two arguments with the way of gradients back through its Gram matrices."""

    def __call__(self, *points: Array) -> Float[Array, "..."]:
        """Return the kernel between points paired row by row."""

    def gram(self, X: Float[Array, "... n d"], Y: Float[Array, "... m d"] | None = None) -> Float[Array, "... n m"]:
        """Return the kernel between all points."""

    def pull(
        self, X: Float[Array, "... n d"], Y: Float[Array, "... m d"], upstream: Float[Array, "... n m"]
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Pull a gradient with respect to ``gram(X, Y)`` back to X and Y."""


@dataclass(frozen=True, eq=False)
class KernelGram:
    """A kernel between points (..., n, d) and (..., n', d), None standing for the same points."""

    kernel: PullableKernel
    X: Float[Array, "... n d"]
    Y: Float[Array, "... m d"] | None
    elementwise: bool

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        if self.elementwise:
            return self.kernel(self.X, self.X if self.Y is None else self.Y)
        return self.kernel.gram(self.X, self.Y)

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Return what `Component.vjp` does."""
        X, Y = self.X, self.X if self.Y is None else self.Y
        if not self.elementwise:
            return self.kernel.pull(X, Y, upstream)
        of_x, of_y = self.kernel.pull(X[..., None, :], Y[..., None, :], upstream[..., None, None])
        return of_x[..., 0, :], None if of_y is None else of_y[..., 0, :]


class Symmetric(NamedTuple):
    """A symmetric function of two numbers, and its derivative in the first."""

    function: Callable[[Array, Array], Array]
    derivative: Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Decided:
    """The standardised decision function (g - mean) / spread at points (..., n, d)."""

    decision: DecisionFunction
    mean: float
    spread: float
    points: Float[Array, "... n d"]

    @cached_property
    def values(self) -> Float[Array, "... n"]:
        """Its values, (..., n)."""
        return (self.decision(self.points) - self.mean) / self.spread

    @cached_property
    def gradient(self) -> Float[Array, "... n d"]:
        """Its gradient in each point, (..., n, d)."""
        return self.decision.gradient(self.points) / self.spread


@dataclass(frozen=True, eq=False)
class OfDecision:
    """A symmetric function of the decision function at both points."""

    x: Decided
    y: Decided
    symmetric: Symmetric
    elementwise: bool

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        return self.symmetric.function(*self._sides)

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Return what `Component.vjp` does."""
        xp = array_namespace(upstream)
        left, right = self._sides
        to_x = upstream * self.symmetric.derivative(left, right)
        of_x = (to_x if self.elementwise else xp.sum(to_x, axis=-1))[..., None] * self.x.gradient
        if not second:
            return of_x, None
        to_y = upstream * self.symmetric.derivative(right, left)
        return of_x, (to_y if self.elementwise else xp.sum(to_y, axis=-2))[..., None] * self.y.gradient

    @property
    def _sides(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        return per_pair(self.x.values, self.y.values, elementwise=self.elementwise)


@dataclass(frozen=True)
class PretrainedComponents:
    """A machine trained on a table, its re-weighted kernel, and the scales of both over the table's rows.

    Parameters
    ----------
    decision
        The decision function g.
    mean_diagonal
        Mean of K^E(x, x) over the table's rows; the unit in which models see K^E.
    decision_mean, decision_spread
        Mean and standard deviation of g over the table's rows.
    earlier
        Weighted points of further tables by which the kernel is re-weighted too; g is of the last table alone.
    choice, tolerance
        How K^E is evaluated and with what error, as for `CertifiedEvaluator`; no part of what the covariance is.
    """

    decision: DecisionFunction
    mean_diagonal: float
    decision_mean: float
    decision_spread: float
    earlier: tuple[WeightedPoints, ...] = ()
    choice: Choice = field(default="auto", compare=False)
    tolerance: float = field(default=1e-10, compare=False)
    _recent: ValueCache = field(default_factory=lambda: ValueCache(KEPT_VALUES), init=False, compare=False, repr=False)

    @cached_property
    def kernel(self) -> ReweightedKernel:
        """The re-weighted kernel K^E."""
        return ReweightedKernel(self.decision.kernel, (*self.earlier, self.decision.table), self.choice, self.tolerance)

    @cached_property
    def coarse(self) -> "PretrainedComponents":
        """The same with an error of up to `COARSE`, faster, for many points of which the best are wanted."""
        return replace(self, tolerance=max(self.tolerance, COARSE))

    @property
    def tables(self) -> int:
        """Number of tables that have parts and scales of their own: one."""
        return 1

    def views(self, X: Float[Array, "... n d"]) -> tuple[tuple["PretrainedComponents", Float[Array, "... n d"]], ...]:
        """Return the covariance of each table with the coordinates (..., n, d) that it is a function of."""
        return ((self, X),)

    def correlation(self, X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Return the normalised free kernel between points (n, d) and (n', d), (n, n')."""
        return self._correlation.gram(X, Y)

    @cached_property
    def _correlation(self) -> NormalisedKernel:
        return normalise(self.decision.kernel)

    def standardised_decision(self, X: Float[Array, "*batch n d"]) -> Float[Array, "*batch n"]:
        """Return g at points (..., n, d), centred and scaled by its mean and spread over the table's rows."""
        values = self._decided(X).values
        return array_namespace(values).asarray(values, copy=True)

    def components(
        self,
        names: Iterable[str],
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"] | None = None,
        *,
        elementwise: bool = False,
    ) -> dict[str, Component]:
        """Return fixed components between points by name: their values, and the way of gradients back through them.

        Parameters
        ----------
        names
            ``"base"``, K_2; ``"reweighted"``, K^E over its mean diagonal; ``"normalised"``, normalised K^E;
            ``"feature_distance"``, squared feature distance of K^E over its mean diagonal; ``"moment"``, the product
            of the standardised decision function at both points; ``"decision_distance"``, its squared difference.
        X, Y
            Frame coordinates, (..., n, d) and (..., n', d); None means Y is X.
        elementwise
            Pair X with Y row by row, giving (..., n), instead of all with all, giving (..., n, n').
        """
        by_name: dict[str, Component] = {}
        sides: tuple[Decided, Decided] | None = None
        for name in names:
            if name == "base":
                by_name[name] = KernelGram(self.decision.kernel, X, Y, elementwise)
            elif name in OF_DECISION:
                if sides is None:
                    x = self._decided(X)
                    sides = x, x if Y is None else self._decided(Y)
                by_name[name] = OfDecision(*sides, OF_DECISION[name], elementwise)
            else:
                formula, has_unit = OF_KERNEL[name]
                matrix = gram(formula, self.kernel.evaluator, X, Y, elementwise=elementwise)
                by_name[name] = Scaled(matrix, self.mean_diagonal) if has_unit else matrix
        return by_name

    def composed(
        self,
        name: str,
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"] | None,
        S: DifferentiableSum,
        *,
        elementwise: bool = False,
    ) -> Float[Array, "..."]:
        """Return the value of a component by operations that a host differentiates; S as for `gram.composed`."""
        if name == "base":
            return KernelGram(self.decision.kernel, X, Y, elementwise).value
        if name in OF_DECISION:
            x, y = (
                Decided(self.decision, self.decision_mean, self.decision_spread, Z) for Z in (X, X if Y is None else Y)
            )
            return OfDecision(x, y, OF_DECISION[name], elementwise).value
        formula, has_unit = OF_KERNEL[name]
        value = composed(formula, self.kernel.evaluator, X, Y, S, elementwise=elementwise)
        return value / self.mean_diagonal if has_unit else value

    def _decided(self, X: Float[Array, "... n d"]) -> Decided:
        return self._recent.get(
            "decision", (X,), lambda points: Decided(self.decision, self.decision_mean, self.decision_spread, points)
        )


OF_KERNEL: Mapping[str, tuple[Formula, bool]] = MappingProxyType(
    {
        "reweighted": (Reweighted(), True),
        "normalised": (Normalised(), False),
        "feature_distance": (FeatureDistance(), True),
    }
)
"""Components that are formulas in K^E, and whether they are in units of it."""

OF_DECISION: Mapping[str, Symmetric] = MappingProxyType(
    {
        "moment": Symmetric(lambda left, right: left * right, lambda left, right: right),
        "decision_distance": Symmetric(lambda left, right: (left - right) ** 2, lambda left, right: 2 * (left - right)),
    }
)
"""Components that are functions of the standardised decision function at both points."""

COMPONENTS = ("base", *OF_KERNEL, *OF_DECISION)
"""Names of the fixed components."""
