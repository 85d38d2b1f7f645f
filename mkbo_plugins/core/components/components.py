"""The components of a pre-trained covariance in frame coordinates: what no optimiser refits, with gradients."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.components.arithmetic import Added, Divided
from mkbo_plugins.core.components.between_points import KernelGram, OfReweighted
from mkbo_plugins.core.components.campaigns import Campaigns, OfCampaigns
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.components.from_point import OfCampaignsFromPoint, OfDecisionFromPoint
from mkbo_plugins.core.components.of_decision import OF_DECISION, Decided, OfDecision, StandardisedDecision
from mkbo_plugins.core.components.protocols import Component, FromPoint
from mkbo_plugins.core.evaluation.box_features import SEARCH_RADII, SLACK, largest_coordinate, smallest_box
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator, Choice
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.formulas import FeatureDistance, Formula, Normalised, Reweighted
from mkbo_plugins.core.reweighted.normalisation import NormalisedKernel, normalise
from mkbo_plugins.core.reweighted.point_gram import PointGram
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel

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
        radius = smallest_box(largest_coordinate(X) / SLACK, SEARCH_RADII)
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

    @cached_property
    def standardised(self) -> StandardisedDecision:
        """The function g, centred and scaled by its mean and spread over the table's rows."""
        return StandardisedDecision(self.prediction, self.decision_mean, self.decision_spread)

    def standardised_decision(self, X: Float[Array, "*batch n d"]) -> Float[Array, "*batch n"]:
        """Return values of `standardised` at points (..., n, d), (..., n)."""
        values = Decided(self.standardised, X).recent.values
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
        x = Decided(self.standardised, X)
        y = x if Y is None else Decided(self.standardised, Y)
        for name in names:
            if name == "base":
                by_name[name] = KernelGram(self.decision.kernel, X, Y, elementwise)
            elif name in OF_DECISION:
                by_name[name] = OfDecision(OF_DECISION[name], x, y, elementwise)
                if name == "moment" and self.campaigns is not None:
                    of_campaigns = OfCampaigns(self.campaigns, X, Y, elementwise)
                    by_name[name] = Added(by_name[name], Divided(of_campaigns, self.decision_spread**2))
            else:
                of_reweighted = OfReweighted(OF_REWEIGHTED[name], self.evaluator_of(name), X, Y, elementwise)
                by_name[name] = self._in_unit(name, of_reweighted)
        return by_name

    def from_point(self, names: Iterable[str], x: Float[Array, "1 d"], Y: Float[Array, "m d"]) -> dict[str, FromPoint]:
        """Return components between a point (1, d) and others (m, d) and, in a last column, the point itself."""
        by_name: dict[str, FromPoint] = {}
        for name in names:
            if name == "base":
                others = array_namespace(x, Y).concat([Y, x])
                by_name[name] = KernelGram(self.decision.kernel, x, others, elementwise=False)
            elif name in OF_DECISION:
                values = Decided(self.standardised, Y).recent.values
                by_name[name] = OfDecisionFromPoint(OF_DECISION[name], Decided(self.standardised, x), values)
                if name == "moment" and self.campaigns is not None:
                    of_campaigns = OfCampaignsFromPoint(self.campaigns, x, Y)
                    by_name[name] = Added(by_name[name], Divided(of_campaigns, self.decision_spread**2))
            else:
                by_name[name] = self._in_unit(name, PointGram(OF_REWEIGHTED[name], self.evaluator_of(name), x, Y))
        return by_name

    def _in_unit(self, name: str, of_reweighted: OfReweighted | PointGram) -> Any:
        """Return a formula in K^E in units of the mean diagonal where it has the unit of K^E."""
        return of_reweighted if name == "normalised" else Divided(of_reweighted, self.mean_diagonal)


OF_REWEIGHTED: Mapping[str, Formula] = MappingProxyType(
    {"reweighted": Reweighted(), "normalised": Normalised(), "feature_distance": FeatureDistance()}
)
"""Components that are formulas in K^E."""

COMPONENTS = ("base", *OF_REWEIGHTED, *OF_DECISION)
"""Names of the fixed components."""
