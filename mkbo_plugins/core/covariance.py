"""The fixed parts of a pre-trained covariance in frame coordinates: everything that no optimiser refits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from mkbo_plugins.core.arrays import Array, per_pair
from mkbo_plugins.core.decision import DecisionFunction
from mkbo_plugins.core.normalisation import normalised
from mkbo_plugins.core.pairsum import Evaluator
from mkbo_plugins.core.reweighting import ReweightedKernel, reweighted
from mkbo_plugins.core.two_layer import feature_distance


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
    """

    decision: DecisionFunction
    mean_diagonal: float
    decision_mean: float
    decision_spread: float

    @cached_property
    def kernel(self) -> ReweightedKernel:
        """The re-weighted kernel K^E."""
        return ReweightedKernel(self.decision.kernel, (self.decision.table,))

    def standardised_decision(self, X: Array) -> Array:
        """Return g at points (..., n, d), centred and scaled by its mean and spread over the table's rows."""
        return (self.decision(X) - self.decision_mean) / self.decision_spread

    def part(
        self,
        name: str,
        X: Array,
        Y: Array | None = None,
        *,
        evaluator: Evaluator | None = None,
        elementwise: bool = False,
    ) -> Array:
        """Return one fixed part between points.

        Parameters
        ----------
        name
            ``"base"``, K_2; ``"reweighted"``, K^E over its mean diagonal; ``"normalised"``, normalised K^E;
            ``"feature_distance"``, squared feature distance of K^E over its mean diagonal; ``"moment"``, the product
            of the standardised decision function at both points.
        X, Y
            Frame coordinates, (..., n, d) and (..., n', d); None means Y is X.
        evaluator
            Replacement for the evaluator of K^E, such as a differentiable one.
        elementwise
            Pair X with Y row by row, giving (..., n), instead of all with all, giving (..., n, n').
        """
        return PARTS[name](self, evaluator or self.kernel.evaluator, X, Y, elementwise)


def _base(fixed: FixedCovariance, evaluator: Evaluator, X: Array, Y: Array | None, elementwise: bool) -> Array:
    if elementwise:
        return fixed.decision.kernel(X, X if Y is None else Y)
    return fixed.decision.kernel.gram(X, Y)


def _reweighted(fixed: FixedCovariance, evaluator: Evaluator, X: Array, Y: Array | None, elementwise: bool) -> Array:
    return reweighted(fixed.kernel.base, evaluator, X, Y, elementwise=elementwise) / fixed.mean_diagonal


def _normalised(fixed: FixedCovariance, evaluator: Evaluator, X: Array, Y: Array | None, elementwise: bool) -> Array:
    return normalised(evaluator, X, Y, elementwise=elementwise)


def _distance(fixed: FixedCovariance, evaluator: Evaluator, X: Array, Y: Array | None, elementwise: bool) -> Array:
    return feature_distance(fixed.kernel.base, evaluator, X, Y, elementwise=elementwise) / fixed.mean_diagonal


def _moment(fixed: FixedCovariance, evaluator: Evaluator, X: Array, Y: Array | None, elementwise: bool) -> Array:
    of_x = fixed.standardised_decision(X)
    of_y = of_x if Y is None else fixed.standardised_decision(Y)
    left, right = per_pair(of_x, of_y, elementwise=elementwise)
    return left * right


PARTS: Mapping[str, Callable[[FixedCovariance, Evaluator, Array, Array | None, bool], Array]] = MappingProxyType(
    {
        "base": _base,
        "reweighted": _reweighted,
        "normalised": _normalised,
        "feature_distance": _distance,
        "moment": _moment,
    }
)
