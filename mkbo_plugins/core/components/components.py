"""The components of a pre-trained covariance in frame coordinates: what no optimiser refits, with gradients."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, per_pair
from mkbo_plugins.core.components.campaigns import Campaigns, OfCampaigns, OfCampaignsFromPoint
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.evaluation.evaluator import RADII, SLACK, CertifiedEvaluator, Choice
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.formulas import FeatureDistance, Formula, Normalised, Reweighted
from mkbo_plugins.core.reweighted.gram import DifferentiableSum, Gram, composed, gram
from mkbo_plugins.core.reweighted.normalisation import NormalisedKernel, normalise
from mkbo_plugins.core.reweighted.point_gram import PointGram
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel

KEPT_VALUES = 4
"""Sets of points for which values of the decision function are kept."""

COARSE = 1e-6
"""Error of entries relative to the root of the product of both diagonals where speed matters more."""

ROUGH = 1e-2
"""The same where points are ranked only and `COARSE` takes very many features: a bound for the corners of the frame's
box, so that it is a hundred times smaller at most points."""

SEARCHED = 1e-3
"""The same in the search of an acquisition function, relative to the mean diagonal where a diagonal is smaller; of the
corners of the box, too."""

SEARCH_POINTS = 10
"""Points that a search moves at a time, as hosts do."""

FEW_FEATURES = 1000
"""Rough features up to which there are few enough coarse ones, too."""


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


@dataclass(frozen=True, eq=False)
class OfReweighted:
    """A formula in a re-weighted kernel between points, divided by a constant."""

    formula: Formula
    evaluator: CertifiedEvaluator
    unit: float
    X: Float[Array, "... n d"]
    Y: Float[Array, "... m d"] | None
    elementwise: bool

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """The quotient."""
        return self._gram.value / self.unit

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Return what `Component.vjp` does."""
        return self._gram.vjp(upstream / self.unit, second=second)

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does."""
        value = composed(self.formula, self.evaluator, self.X, self.Y, S, elementwise=self.elementwise)
        return value / self.unit

    @cached_property
    def _gram(self) -> Gram:
        return gram(self.formula, self.evaluator, self.X, self.Y, elementwise=self.elementwise)


@dataclass(frozen=True, eq=False)
class OfReweightedFromPoint:
    """A formula in a re-weighted kernel, divided by a constant, from a point to others and to itself."""

    gram: PointGram
    unit: float

    @cached_property
    def value(self) -> Float[Array, "1 n"]:
        """The quotient."""
        return self.gram.value / self.unit

    def vjp(self, upstream: Float[Array, "k n"], *, second: bool = True) -> tuple[Float[Array, "k d"], None]:
        """Return what `FromPoint.vjp` does."""
        return self.gram.vjp(upstream / self.unit), None


class PullableKernel(Protocol):
    """A kernel of two arguments with the way of gradients back through its Gram matrices."""

    def __call__(self, *points: Array) -> Float[Array, "..."]:
        """Return the kernel between points paired row by row."""

    def gram(self, X: Float[Array, "... n d"], Y: Float[Array, "... m d"] | None = None) -> Float[Array, "... n m"]:
        """Return the kernel between all points."""

    def pull(
        self,
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"],
        upstream: Float[Array, "... n m"],
        *,
        second: bool = True,
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
            return self.kernel.pull(X, Y, upstream, second=second)
        of_x, of_y = self.kernel.pull(X[..., None, :], Y[..., None, :], upstream[..., None, None], second=second)
        return of_x[..., 0, :], None if of_y is None else of_y[..., 0, :]

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does: the value, without S."""
        return self.value


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
class DecidedPair:
    """A covariance's decision function at both arguments of its components."""

    covariance: "PretrainedComponents"
    X: Float[Array, "... n d"]
    Y: Float[Array, "... m d"] | None

    @cached_property
    def recent(self) -> tuple[Decided, Decided]:
        """With values kept of points seen a moment ago."""
        x = self.covariance.recently_decided(self.X)
        return x, x if self.Y is None else self.covariance.recently_decided(self.Y)

    def anew(self) -> tuple[Decided, Decided]:
        """Return it at these very points, for a host to differentiate."""
        x = self.covariance.decided(self.X)
        return x, x if self.Y is None else self.covariance.decided(self.Y)


@dataclass(frozen=True, eq=False)
class OfDecision:
    """A symmetric function of the decision function at both points."""

    symmetric: Symmetric
    decided: DecidedPair
    elementwise: bool

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        return self.symmetric.function(*self._pairs(*self.decided.recent))

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Return what `Component.vjp` does."""
        xp = array_namespace(upstream)
        x, y = self.decided.recent
        left, right = self._pairs(x, y)
        to_x = upstream * self.symmetric.derivative(left, right)
        of_x = (to_x if self.elementwise else xp.sum(to_x, axis=-1))[..., None] * x.gradient
        if not second:
            return of_x, None
        to_y = upstream * self.symmetric.derivative(right, left)
        return of_x, (to_y if self.elementwise else xp.sum(to_y, axis=-2))[..., None] * y.gradient

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does: the value at these very points, without S."""
        return self.symmetric.function(*self._pairs(*self.decided.anew()))

    def _pairs(self, x: Decided, y: Decided) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        return per_pair(x.values, y.values, elementwise=self.elementwise)


@dataclass(frozen=True, eq=False)
class OfDecisionFromPoint:
    """A symmetric function of the decision function at a point, and at others (m,) and the point itself."""

    symmetric: Symmetric
    x: Decided
    others: Float[Array, " m"]

    @cached_property
    def value(self) -> Float[Array, "1 n"]:
        """Its value."""
        return self.symmetric.function(*self._pairs)

    def vjp(self, upstream: Float[Array, "k n"], *, second: bool = True) -> tuple[Float[Array, "k d"], None]:
        """Return what `FromPoint.vjp` does."""
        to_x = array_namespace(upstream).sum(upstream * self.symmetric.derivative(*self._pairs), axis=-1)
        return to_x[:, None] * self.x.gradient, None

    @cached_property
    def _pairs(self) -> tuple[Float[Array, "1 1"], Float[Array, "1 n"]]:
        values = array_namespace(self.others).concat([self.others, self.x.values])
        return self.x.values[:, None], values[None, :]


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


@dataclass(frozen=True)
class PretrainedComponents:
    """A machine trained on a table, its re-weighted kernel, and the scales of both over the table's rows.

    Parameters
    ----------
    decision
        The decision function of the machine, which re-weights the kernel, and is g where there are no campaigns.
    mean_diagonal
        Mean of K^E(x, x) over the table's rows; the unit in which models see K^E.
    decision_mean, decision_spread
        Mean and standard deviation of g over the table's rows; of campaigns, of all their predictions there.
    earlier
        Weighted points of further tables by which the kernel is re-weighted too; g is of the last table alone.
    campaigns
        Predictions of campaigns, whose mean is g; None where the table is of one alone.
    choice, tolerance, radius
        How K^E is evaluated, with what error and in what box, as for `CertifiedEvaluator`; no part of what the
        covariance is.
    """

    decision: DecisionFunction
    mean_diagonal: float
    decision_mean: float
    decision_spread: float
    earlier: tuple[WeightedPoints, ...] = ()
    campaigns: Campaigns | None = None
    choice: Choice = field(default="auto", compare=False)
    tolerance: float = field(default=1e-10, compare=False)
    radius: float | None = field(default=None, compare=False)
    _searched: ValueCache = field(default_factory=lambda: ValueCache(1), init=False, compare=False, repr=False)
    _recent: ValueCache = field(default_factory=lambda: ValueCache(KEPT_VALUES), init=False, compare=False, repr=False)

    @property
    def prediction(self) -> DecisionFunction:
        """The function g."""
        return self.decision if self.campaigns is None else self.campaigns.mean

    @cached_property
    def kernel(self) -> ReweightedKernel:
        """The re-weighted kernel K^E."""
        return ReweightedKernel(self.decision.kernel, (*self.earlier, self.decision.table), self.choice, self.tolerance)

    @cached_property
    def of_distances(self) -> CertifiedEvaluator:
        """Evaluator of K^E with errors relative to its mean diagonal where a diagonal is smaller."""
        return replace(self.kernel.evaluator, unit=self.mean_diagonal, radius=self.radius)

    @cached_property
    def coarse(self) -> "PretrainedComponents":
        """The same with an error of up to `COARSE`, faster, for many points of which the best are wanted."""
        return replace(self, tolerance=max(self.tolerance, COARSE))

    def rough(
        self, names: Iterable[str], X: Float[Array, "n d"], Y: Float[Array, "m d"]
    ) -> "PretrainedComponents | None":
        """Return the same with an error of up to `ROUGH` where `coarse` is slow, for ranking points by data.

        It is evaluated by features alone: all entries are of one positive semi-definite covariance, those between the
        data too.

        Parameters
        ----------
        names
            The components asked for.
        X, Y
            Data (n, d) and points (m, d).

        Returns
        -------
        PretrainedComponents or None
            The same object for all points; None where `coarse` is fast, or features do not serve.
        """
        evaluators = list({self._rough.evaluator_of(name): None for name in names if name in OF_REWEIGHTED})
        common = [evaluator.common_features(X, Y) for evaluator in evaluators]
        counts = [0 if features is None else len(features.monomials) for features in common]
        if not all(counts) or max(counts, default=0) <= FEW_FEATURES:
            return None
        serving = all(e.serves(features, X, Y) for e, features in zip(evaluators, common, strict=True) if features)
        return self._rough if serving else None

    def searched(self, names: Iterable[str], X: Float[Array, "n d"]) -> "PretrainedComponents":
        """Return the same for the search of an acquisition function in the box that points (n, d) span.

        Feature distances are of features up to an error of `SEARCHED`, the same ones for all points of the box, so that
        all covariances are of one positive semi-definite function. Where features cost more than pairs, or other
        formulas in K^E are asked for, whose errors are relative to diagonals however small, it is `coarse`.

        Parameters
        ----------
        names
            The components asked for.
        X
            Points among which are the data and the ends of what is searched.
        """
        reach = float(array_namespace(X).max(abs(X))) if len(X) else 0.0
        radius = next((radius for radius in RADII if reach <= radius * SLACK), None)
        if radius is None or {name for name in names if name in OF_REWEIGHTED} != {"feature_distance"}:
            return self.coarse
        searched = self._searched.get(radius, (), lambda: self._of_box(radius))
        evaluator = searched.of_distances
        features, entries = evaluator.features(radius), SEARCH_POINTS * len(X)
        if features is None:
            return self.coarse
        fewer, more = sorted((SEARCH_POINTS, len(X)))
        of_pairs = self.of_distances.pairs.terms * (entries + 3 * fewer)
        if features.cost(fewer, more, entries) > of_pairs or not evaluator.serves(features, X):
            return self.coarse
        return searched

    def _of_box(self, radius: float) -> "PretrainedComponents":
        return replace(self, choice="features", tolerance=max(self.tolerance, SEARCHED), radius=radius)

    @cached_property
    def _rough(self) -> "PretrainedComponents":
        return replace(self, choice="features", tolerance=max(self.tolerance, ROUGH))

    def evaluator_of(self, name: str) -> CertifiedEvaluator:
        """Return the evaluator of a component that is a formula in K^E."""
        return self.of_distances if name == "feature_distance" else self.kernel.evaluator

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
        values = self.recently_decided(X).values
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
            of the standardised decision function at both points, to which campaigns add their covariance in the same
            unit, so that it is their second moment; ``"decision_distance"``, its squared difference;
            ``"decision"``, its mean, which of points paired with themselves is the function itself.
        X, Y
            Frame coordinates, (..., n, d) and (..., n', d); None means Y is X.
        elementwise
            Pair X with Y row by row, giving (..., n), instead of all with all, giving (..., n, n').
        """
        by_name: dict[str, Component] = {}
        decided = DecidedPair(self, X, Y)
        for name in names:
            if name == "base":
                by_name[name] = KernelGram(self.decision.kernel, X, Y, elementwise)
            elif name in OF_DECISION:
                by_name[name] = OfDecision(OF_DECISION[name], decided, elementwise)
                if name == "moment" and self.campaigns is not None:
                    of_campaigns = OfCampaigns(self.campaigns, self.decision_spread**2, X, Y, elementwise)
                    by_name[name] = Added(by_name[name], of_campaigns)
            else:
                formula, has_unit = OF_REWEIGHTED[name]
                unit = self.mean_diagonal if has_unit else 1.0
                by_name[name] = OfReweighted(formula, self.evaluator_of(name), unit, X, Y, elementwise)
        return by_name

    def from_point(self, names: Iterable[str], x: Float[Array, "1 d"], Y: Float[Array, "m d"]) -> dict[str, FromPoint]:
        """Return components between a point (1, d) and others (m, d) and, in a last column, the point itself."""
        xp = array_namespace(x, Y)
        by_name: dict[str, FromPoint] = {}
        decided = self.decided(x)
        for name in names:
            if name == "base":
                by_name[name] = KernelGram(self.decision.kernel, x, xp.concat([Y, x]), elementwise=False)
            elif name in OF_DECISION:
                by_name[name] = OfDecisionFromPoint(OF_DECISION[name], decided, self.recently_decided(Y).values)
                if name == "moment" and self.campaigns is not None:
                    of_campaigns = OfCampaignsFromPoint(self.campaigns, self.decision_spread**2, x, Y)
                    by_name[name] = Added(by_name[name], of_campaigns)
            else:
                formula, has_unit = OF_REWEIGHTED[name]
                point_gram = PointGram(formula, self.evaluator_of(name), x, Y)
                by_name[name] = OfReweightedFromPoint(point_gram, self.mean_diagonal if has_unit else 1.0)
        return by_name

    def decided(self, X: Float[Array, "... n d"]) -> Decided:
        """Return the standardised decision function at points (..., n, d)."""
        return Decided(self.prediction, self.decision_mean, self.decision_spread, X)

    def recently_decided(self, X: Float[Array, "... n d"]) -> Decided:
        """Return the same, with values kept of points seen a moment ago."""
        return self._recent.get("decision", (X,), self.decided)


OF_REWEIGHTED: Mapping[str, tuple[Formula, bool]] = MappingProxyType(
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
        "decision": Symmetric(lambda left, right: (left + right) / 2, lambda left, right: 0.5),
    }
)
"""Components that are functions of the standardised decision function at both points."""

COMPONENTS = ("base", *OF_REWEIGHTED, *OF_DECISION)
"""Names of the fixed components."""
