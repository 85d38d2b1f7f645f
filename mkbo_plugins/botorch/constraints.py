"""Linear constraints of a space as BoTorch's optimisers take them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.space import ParameterSpace, check_columns
from mkbo_plugins.tables.constraints import warn_of_lost_by_name

Tuples: TypeAlias = list[tuple[Int[Tensor, " k"], Float[Tensor, " k"], float]]


def linear_constraints(space: ParameterSpace, names: Sequence[str] | None = None) -> dict[str, Tuples | None]:
    """Return the constraints of a space as arguments of BoTorch's optimisers, in raw units.

    Parameters
    ----------
    space
        The target's parameters, with their constraints.
    names
        Names of the columns that are optimised over, in their order; None means the order of `space`.

    Returns
    -------
    dict
        ``inequality_constraints`` and ``equality_constraints`` as `botorch.optim.optimize_acqf` takes them: tuples of
        indices, coefficients and the number that the sum is at least, or is; None where there are none. BoTorch's
        `botorch.utils.sampling.get_polytope_samples` takes the same.

    Raises
    ------
    SpaceError
        If a parameter that a constraint names is no column.

    Examples
    --------
    >>> space = ParameterSpace.from_dict({"a": (0, 1), "b": (0, 1)}, constraints=[{"sum": ["a", "b"], "at_most": 1.5}])
    >>> linear_constraints(space)["inequality_constraints"]
    [(tensor([0, 1]), tensor([-1., -1.], dtype=torch.float64), -1.5)]
    """
    if not isinstance(space, ParameterSpace):
        raise SpaceError(f"space must be a ParameterSpace, got {type(space).__name__}; its constraints are returned")
    columns = list(space.names if names is None else names)
    check_columns(columns, [space.names[j] for j in space.constrained])
    inequalities: Any = []
    equalities: Any = []
    for constraint in space.constraints:
        index = torch.tensor([columns.index(name) for name in constraint.names])
        weight = torch.tensor([weight for _, weight in constraint.coefficients], dtype=torch.double)
        if constraint.least == constraint.most:
            equalities.append((index, weight, constraint.least))
            continue
        sides = ((weight, constraint.least), (-weight, -constraint.most))
        inequalities += [(index, side, end) for side, end in sides if math.isfinite(end)]
    return {"inequality_constraints": inequalities or None, "equality_constraints": equalities or None}


def warn_of_lost_in_target(
    pretrained: ParameterSpace, target: ParameterSpace, fixed: Mapping[str, Any] | None, *, stacklevel: int = 2
) -> None:
    """Warn of constraints of the table's space that a target's space does not keep; 2 is the caller of its caller."""
    numbers = {name: pretrained[name].to_raw(value) for name, value in (fixed or {}).items()}
    remedy = "add it there, ParameterSpace.from_dict(..., constraints=[...]), or leave it out of the table's space"
    warn_of_lost_by_name(pretrained, target, numbers, "the target's space", remedy, stacklevel=stacklevel + 1)
