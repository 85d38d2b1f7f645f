"""BaYBE's search spaces as named parameters."""

from collections.abc import Sequence

import numpy as np
from baybe.parameters import NumericalContinuousParameter, NumericalDiscreteParameter, TaskParameter
from baybe.parameters.base import DiscreteParameter
from baybe.parameters.base import Parameter as BaybeParameter
from baybe.searchspace import SearchSpace

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.constraints import LinearConstraint
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.levels import level_parameter
from mkbo_plugins.space.matching import check_sequence
from mkbo_plugins.space.parameters import Categorical, Numeric, Parameter
from mkbo_plugins.space.space import ParameterSpace


def parameter_space(searchspace: SearchSpace, *, described: Sequence[str] = ()) -> ParameterSpace:
    """Return a search space as a `ParameterSpace`, for `pretrain` on the measurements of an earlier campaign.

    Numbers are real, between the bounds or the extremes of their values; all else has levels. Linear constraints on
    continuous parameters are kept.

    Parameters
    ----------
    searchspace
        The search space.
    described
        Names of discrete parameters, substances say, whose levels have BaYBE's encoding as descriptors, so that levels
        that are alike in it are alike.

    Raises
    ------
    SpaceError
        If it has a task parameter, or cannot be described; if one of `described` has no levels, or an encoding that
        does not tell levels apart or has too many columns.

    Examples
    --------
    >>> from baybe.parameters import NumericalContinuousParameter
    >>> searchspace = SearchSpace.from_product([NumericalContinuousParameter("celsius", (20, 90))])
    >>> parameter_space(searchspace).to_dict()
    {'celsius': {'bounds': [20.0, 90.0], 'log': False, 'integer': False}}
    """
    if not isinstance(searchspace, SearchSpace):
        raise SpaceError(
            f"searchspace must be a SearchSpace of BaYBE, got {type(searchspace).__name__}; a campaign has one as "
            "campaign.searchspace"
        )
    check_sequence("described", described)
    strange = [name for name in described if name not in searchspace.parameter_names]
    if strange:
        raise SpaceError(f"described={strange} are no parameters; there are {list(searchspace.parameter_names)}")
    parameters = tuple(_encoded(p) if p.name in described else parameter_of(p, None) for p in searchspace.parameters)
    return ParameterSpace(parameters, tuple(_continuous_constraints(searchspace)))


def parameter_of(parameter: BaybeParameter, pretrained: Parameter | None) -> Parameter:
    """Return what a parameter of BaYBE stands for, beside the table's parameter of its name, if there is one.

    Raises
    ------
    SpaceError
        If it is a task parameter.
    """
    if isinstance(parameter, TaskParameter):
        raise SpaceError(
            f"parameter {parameter.name!r} is a TaskParameter, for which BaYBE needs a kernel of tasks; leave it "
            "out of the search space, and let the other tasks be tables"
        )
    if isinstance(parameter, NumericalContinuousParameter):
        return Numeric(parameter.name, *parameter.bounds.to_tuple())
    if isinstance(parameter, NumericalDiscreteParameter):
        return Numeric(parameter.name, float(min(parameter.values)), float(max(parameter.values)))
    if isinstance(parameter, DiscreteParameter):
        return level_parameter(parameter.name, tuple(parameter.values), pretrained)
    raise SpaceError(f"parameter {parameter.name!r} is a {type(parameter).__name__}, which is not supported")


def _encoded(parameter: BaybeParameter) -> Described:
    """Return a parameter whose levels have BaYBE's encoding as descriptors."""
    levels = parameter_of(parameter, None)
    if not isinstance(levels, Categorical) or not isinstance(parameter, DiscreteParameter):
        raise SpaceError(f"parameter {parameter.name!r} has numbers and no levels; leave it out of described=")
    encoding = parameter.comp_df.loc[list(levels.levels)]
    rows = [{str(name): float(number) for name, number in row.items()} for row in encoding.to_dict("records")]
    return Described.of(parameter.name, dict(zip(levels.levels, rows, strict=True)))


def target_space(pretrained: ParameterSpace, searchspace: SearchSpace) -> ParameterSpace:
    """Return those parameters of a search space that the table has, and what is known of their sums.

    Raises
    ------
    SpaceError
        If there are none, or one is a task parameter.
    """
    shared = [p for p in searchspace.parameters if p.name in pretrained.names]
    if not shared:
        raise SpaceError(
            f"the search space, with {[p.name for p in searchspace.parameters]}, has none of the table's parameters "
            f"{list(pretrained.names)}; parameters are matched by name"
        )
    names = {p.name for p in shared}
    known = [*_continuous_constraints(searchspace), *_sums_of_candidates(pretrained, searchspace)]
    parameters = tuple(parameter_of(p, pretrained[p.name]) for p in shared)
    return ParameterSpace(parameters, tuple(c for c in known if set(c.names) <= names))


def _continuous_constraints(searchspace: SearchSpace) -> list[LinearConstraint]:
    """Return the linear constraints that each continuous point keeps."""
    space = searchspace.continuous
    return [
        LinearConstraint(
            tuple(zip(c.parameters, c.coefficients, strict=True)),
            None if c.operator == "<=" else c.rhs,
            None if c.operator == ">=" else c.rhs,
        )
        for c in (*space.constraints_lin_eq, *space.constraints_lin_ineq)
        if not c.is_interpoint
    ]


def _sums_of_candidates(pretrained: ParameterSpace, searchspace: SearchSpace) -> list[LinearConstraint]:
    """Return between which numbers the sums that the table's space keeps lie, over all discrete candidates."""
    candidates = searchspace.discrete.exp_rep
    found = []
    for constraint in pretrained.constraints:
        if set(constraint.names) <= set(candidates.columns):
            weights = np.array([weight for _, weight in constraint.coefficients])
            sums = candidates[list(constraint.names)].to_numpy(dtype=float) @ weights
            found.append(LinearConstraint(constraint.coefficients, float(sums.min()), float(sums.max())))
    return found
