"""Machines in a space with further levels of categorical parameters."""

from collections.abc import Mapping
from dataclasses import replace

from mkbo_plugins.core.components.components import PretrainedComponents
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.space.levels import widened_points, widened_weights
from mkbo_plugins.space.parameters import FurtherLevels
from mkbo_plugins.space.space import ParameterSpace


def widened_components(
    fixed: PretrainedComponents, space: ParameterSpace, new: Mapping[str, FurtherLevels]
) -> PretrainedComponents:
    """Return components over a space as those over the one with new levels, of which no point of theirs has one."""

    def kernel(free: FreeKernel) -> FreeKernel:
        return free if free.weights is None else replace(free, weights=widened_weights(free.weights, space, new))

    def table(weighted: WeightedPoints) -> WeightedPoints:
        return WeightedPoints(widened_points(weighted.points, space, new), weighted.alpha)

    decision, campaigns = fixed.decision, fixed.campaigns
    if campaigns is not None:
        points = widened_points(campaigns.points, space, new)
        campaigns = replace(campaigns, kernel=kernel(campaigns.kernel), points=points)
    return replace(
        fixed,
        decision=DecisionFunction(kernel(decision.kernel), table(decision.table), decision.bias),
        earlier=tuple(map(table, fixed.earlier)),
        campaigns=campaigns,
    )
