"""Linear constraints of a space, as far as scikit-optimize can keep them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.skopt.columns import ColumnMap
from mkbo_plugins.skopt.dimensions import named_dimensions
from mkbo_plugins.space.constraints import broken
from mkbo_plugins.space.space import ParameterSpace, check_columns
from mkbo_plugins.tables.constraints import warn_of_lost_by_name

ROUNDING = 1e-12
"""Share of a constraint's largest number that is taken as rounding."""

REMEDY = (
    "scikit-optimize keeps at_least and at_most by gp_minimize(..., "
    "space_constraint=mkbo_plugins.skopt.space_constraint(space, dimensions)), and no equals, for which mkbo suggest, "
    "BoTorch or Ax serve"
)


def space_constraint(
    space: ParameterSpace, dimensions: Any, names: Sequence[str] | Mapping[str, str] | None = None
) -> Callable[[Sequence[Any]], bool]:
    """Return the inequalities of a space as ``space_constraint`` of `skopt.gp_minimize` and `skopt.Optimizer`.

    The host draws points between the bounds, leaves out those that break them, and searches among these points alone,
    without gradients.

    Parameters
    ----------
    space
        The parameters, with their constraints.
    dimensions, names
        As for `pretrained_regressor`.

    Returns
    -------
    callable
        From a point, a list of values in the order of the dimensions, to whether it keeps the constraints.

    Raises
    ------
    SpaceError
        If there is an equality, which no point drawn at random keeps, or a parameter is no dimension.
    """
    if not isinstance(space, ParameterSpace):
        raise SpaceError(f"space must be a ParameterSpace, got {type(space).__name__}; its constraints are used")
    for constraint in space.constraints:
        if constraint.least == constraint.most:
            raise SpaceError(
                f"scikit-optimize draws points and leaves out those that break a constraint; none keeps {constraint}; "
                "use mkbo suggest, mkbo_plugins.botorch or mkbo_plugins.ax for a space with it"
            )
    order = [name for name, _ in named_dimensions(dimensions, names)]
    named = [space.names[j] for j in space.constrained]
    check_columns(order, named)
    places = [order.index(name) for name in named]

    def keeps(point: Sequence[Any]) -> bool:
        values = np.array([[float(point[place]) for place in places]])
        return not any(broken(constraint, named, values, ROUNDING).any() for constraint in space.constraints)

    return keeps


def warn_of_lost_by_dimensions(pretrained: ParameterSpace, columns: ColumnMap) -> None:
    """Warn of constraints of the table's space, which dimensions do not have, for its caller's caller."""
    target = ParameterSpace(tuple(d.parameter for d in columns.dimensions if d.parameter is not None))
    warn_of_lost_by_name(pretrained, target, dict(columns.fixed), "the space of the dimensions", REMEDY, stacklevel=3)
