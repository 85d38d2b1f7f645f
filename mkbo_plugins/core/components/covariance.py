"""The fixed parts of a pre-trained covariance in frame coordinates: everything that no optimiser refits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Protocol

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, per_pair
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.evaluation.evaluator import Choice
from mkbo_plugins.core.evaluation.recent import Recent
from mkbo_plugins.core.kernels import pull_gram
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.formula import Formula
from mkbo_plugins.core.reweighted.gram import evaluate, pull
from mkbo_plugins.core.reweighted.normalisation import Normalised, NormalisedKernel, normalise
from mkbo_plugins.core.reweighted.reweighting import Reweighted, ReweightedKernel
from mkbo_plugins.core.reweighted.two_layer import FeatureDistance

KEPT_VALUES = 4
"""Sets of points for which values of the decision function are kept."""

COARSE = 1e-6
"""Error of entries relative to the root of the product of both diagonals where speed matters more."""


@dataclass(frozen=True)
class FixedCovariance:
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
    _recent: Recent = field(default_factory=lambda: Recent(KEPT_VALUES), init=False, compare=False, repr=False)

    @cached_property
    def kernel(self) -> ReweightedKernel:
        """The re-weighted kernel K^E."""
        return ReweightedKernel(self.decision.kernel, (*self.earlier, self.decision.table), self.choice, self.tolerance)

    @cached_property
    def coarse(self) -> "FixedCovariance":
        """The same with an error of up to `COARSE`, faster, for many points of which the best are wanted."""
        return replace(self, tolerance=max(self.tolerance, COARSE))

    @property
    def tables(self) -> int:
        """Number of tables that have parts and scales of their own: one."""
        return 1

    def views(self, X: Array) -> tuple[tuple["FixedCovariance", Array], ...]:
        """Return the covariance of each table with the coordinates (..., n, d) that it is a function of."""
        return ((self, X),)

    def likeness(self, X: Array, Y: Array) -> Array:
        """Return the normalised free kernel between points (n, d) and (n', d), (n, n')."""
        return self._correlation.gram(X, Y)

    @cached_property
    def _correlation(self) -> NormalisedKernel:
        return normalise(self.decision.kernel)

    def standardised_decision(self, X: Array) -> Array:
        """Return g at points (..., n, d), centred and scaled by its mean and spread over the table's rows."""
        known = self._recent.get(
            "decision", (X,), lambda points: (self.decision(points) - self.decision_mean) / self.decision_spread
        )
        return array_namespace(known).asarray(known, copy=True)

    def part(self, name: str, X: Array, Y: Array | None = None, *, elementwise: bool = False) -> Array:
        """Return one fixed part between points.

        Parameters
        ----------
        name
            ``"base"``, K_2; ``"reweighted"``, K^E over its mean diagonal; ``"normalised"``, normalised K^E;
            ``"feature_distance"``, squared feature distance of K^E over its mean diagonal; ``"moment"``, the product
            of the standardised decision function at both points; ``"decision_distance"``, its squared difference.
        X, Y
            Frame coordinates, (..., n, d) and (..., n', d); None means Y is X.
        elementwise
            Pair X with Y row by row, giving (..., n), instead of all with all, giving (..., n, n').
        """
        return PARTS[name].value(self, X, Y, elementwise)

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
    ) -> tuple[Array, Array | None]:
        """Pull a gradient with respect to a part back to both arguments.

        Parameters
        ----------
        name, X, Y, elementwise
            As for `part`.
        value
            What `part` returned.
        upstream
            Gradient with respect to it, of its shape.
        second
            Whether the gradient with respect to the second argument is wanted.

        Returns
        -------
        tuple of arrays
            Gradients with respect to the first and the second argument, of the shapes of X and Y (or X); None may take
            the place of the second where it is not wanted.
        """
        return PARTS[name].pull(self, Pull(X, Y, value, upstream, elementwise, second))


class Pull(NamedTuple):
    """What `FixedCovariance.pull_part` is given."""

    X: Array
    Y: Array | None
    value: Array
    upstream: Array
    elementwise: bool
    second: bool


class Part(Protocol):
    """A fixed part with the way back of its gradient."""

    def value(self, fixed: FixedCovariance, X: Array, Y: Array | None, elementwise: bool) -> Array:
        """Return what `FixedCovariance.part` does."""

    def pull(self, fixed: FixedCovariance, given: Pull) -> tuple[Array, Array | None]:
        """Return what `FixedCovariance.pull_part` does."""


@dataclass(frozen=True)
class _OfKernel:
    """A formula in K^E, divided by its mean diagonal unless it has no unit."""

    formula: Formula
    has_unit: bool

    def value(self, fixed: FixedCovariance, X: Array, Y: Array | None, elementwise: bool) -> Array:
        value = evaluate(self.formula, fixed.kernel.evaluator, X, Y, elementwise=elementwise)
        return value / fixed.mean_diagonal if self.has_unit else value

    def pull(self, fixed: FixedCovariance, given: Pull) -> tuple[Array, Array | None]:
        unit = fixed.mean_diagonal if self.has_unit else 1.0
        return pull(
            self.formula,
            fixed.kernel.evaluator,
            given.X,
            given.Y,
            given.value * unit,
            given.upstream / unit,
            elementwise=given.elementwise,
            second=given.second,
        )


class _Base:
    def value(self, fixed: FixedCovariance, X: Array, Y: Array | None, elementwise: bool) -> Array:
        kernel = fixed.decision.kernel
        return kernel(X, X if Y is None else Y) if elementwise else kernel.gram(X, Y)

    def pull(self, fixed: FixedCovariance, given: Pull) -> tuple[Array, Array | None]:
        X, Y, upstream = given.X, given.X if given.Y is None else given.Y, given.upstream
        if not given.elementwise:
            return pull_gram(fixed.decision.kernel, X, Y, upstream)
        of_x, of_y = pull_gram(fixed.decision.kernel, X[..., None, :], Y[..., None, :], upstream[..., None, None])
        return of_x[..., 0, :], of_y[..., 0, :]


@dataclass(frozen=True)
class _OfDecision:
    """A function of the standardised decision function at both points, (left, right), and its two derivatives."""

    function: Callable[[Array, Array], Array]
    derivatives: Callable[[Array, Array], tuple[Array, Array]]

    def value(self, fixed: FixedCovariance, X: Array, Y: Array | None, elementwise: bool) -> Array:
        return self.function(*self._sides(fixed, X, Y, elementwise))

    def pull(self, fixed: FixedCovariance, given: Pull) -> tuple[Array, Array | None]:
        xp = array_namespace(given.X)
        X, Y, upstream = given.X, given.X if given.Y is None else given.Y, given.upstream / fixed.decision_spread
        slopes = self.derivatives(*self._sides(fixed, X, Y, given.elementwise))
        to_x, to_y = (upstream * slope for slope in slopes)
        if not given.elementwise:
            to_x, to_y = xp.sum(to_x, axis=-1), xp.sum(to_y, axis=-2)
        return fixed.decision.pull(X, to_x), fixed.decision.pull(Y, to_y) if given.second else None

    @staticmethod
    def _sides(fixed: FixedCovariance, X: Array, Y: Array | None, elementwise: bool) -> tuple[Array, Array]:
        of_x = fixed.standardised_decision(X)
        of_y = of_x if Y is None else fixed.standardised_decision(Y)
        return per_pair(of_x, of_y, elementwise=elementwise)


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "base": _Base(),
        "reweighted": _OfKernel(Reweighted(), has_unit=True),
        "normalised": _OfKernel(Normalised(), has_unit=False),
        "feature_distance": _OfKernel(FeatureDistance(), has_unit=True),
        "moment": _OfDecision(lambda left, right: left * right, lambda left, right: (right, left)),
        "decision_distance": _OfDecision(
            lambda left, right: (left - right) ** 2, lambda left, right: (2 * (left - right), 2 * (right - left))
        ),
    }
)
