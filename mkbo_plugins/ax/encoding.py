"""How the columns that Ax shows its models stand for the parameters of a pre-trained covariance.

With the transforms `mkbo_plugins.ax.surrogate` pins, a range is one column, as log10 on a log scale; an ordered choice
is one column, of its numbers or else its ranks; an unordered choice is one column per level, which Ax relaxes to
numbers between 0 and 1; fixed and derived parameters have none. Bounds do not enter.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core.parameter import ChoiceParameter, DerivedParameter, FixedParameter, RangeParameter
from ax.core.parameter import Parameter as AxParameter
from ax.core.search_space import SearchSpace

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.levels import levels_by_name
from mkbo_plugins.space.mapping import Affine, Constant, Levels, Source
from mkbo_plugins.space.matching import check_kind, check_levels, check_names, check_positive
from mkbo_plugins.space.parameters import FurtherLevels, Numeric, Ordered, Parameter
from mkbo_plugins.space.space import ParameterSpace

Encoding: TypeAlias = dict[str, Any]
"""What stands for one pre-trained parameter, as Ax stores it. A number that is affine in ranges, most often one of
them, has ``terms`` (name of the column, its scale ``"linear"``, ``"log10"`` or ``"logit"``, and its coefficient) and an
``intercept``. A choice has its ``levels`` and ``columns``: one for each level, or a single one whose values at the
levels are the increasing ``knots``. A constant has its ``value``."""

WHERE = "in the experiment"


def column_names(encoding: Encoding) -> list[str]:
    """Return the names of the columns that an encoding needs."""
    return [name for name, _, _ in encoding.get("terms", ())] or encoding.get("columns", [])


def source(encoding: Encoding, parameter: Parameter) -> Source:
    """Return what stands for a parameter among raw numbers, labelled by column, and weights of levels."""
    if "terms" in encoding:
        return Affine(tuple((name, weight) for name, _, weight in encoding["terms"]), encoding["intercept"])
    if "levels" in encoding:
        return Levels(parameter.name, tuple(encoding["levels"]))
    return Constant(parameter.to_raw(encoding["value"]))


def encodings(
    space: ParameterSpace, target: SearchSpace, names: Mapping[str, str], fixed: Mapping[str, Any]
) -> dict[str, Encoding]:
    """Return what stands for each parameter of a pre-trained covariance in an experiment.

    Parameters
    ----------
    space
        Parameters of the covariance.
    target
        Search space of the experiment.
    names
        Names in the experiment by name in `space`, as `target_names` returns them.
    fixed
        Values of parameters that the experiment does not have, by name in `space`.

    Raises
    ------
    SpaceError
        If a parameter has another kind or other levels than in the table.
    """
    constants = {name: _constant(space[name], value) for name, value in fixed.items()}
    return constants | {name: _encoding(space[name], target.parameters[other], target) for name, other in names.items()}


def target_names(
    space: ParameterSpace, target: SearchSpace, rename: Mapping[str, str], fixed: Mapping[str, Any]
) -> dict[str, str]:
    """Return the names in an experiment by the names of the covariance's parameters, those in `fixed` left out.

    Parameters
    ----------
    space
        Parameters of the covariance.
    target
        Search space of the experiment.
    rename
        Pairs of a name in the table and a name in the experiment, either way round.
    fixed
        Values of parameters that the experiment does not have, by name in `space`.

    Raises
    ------
    SpaceError
        If a name is unknown or ambiguous, a parameter is both fixed and in the experiment, or neither.
    """
    names = {name: name for name in space.names}
    for pair in rename.items():
        readings = _readings(pair, space, target)
        if len(readings) != 1:
            problem = (
                "could be meant either way" if readings else "pairs no name of the table with one of the experiment"
            )
            raise SpaceError(
                f"rename {pair[0]!r}: {pair[1]!r} {problem}; the table has {list(space.names)}, the experiment "
                f"{list(target.parameters)}"
            )
        names.update(readings)
    present = list(target.parameters)
    check_names(
        space,
        [name for name in space.names if names[name] in present],
        fixed,
        lacks=f"the experiment {present} lacks",
        within=WHERE,
        remedy=", or its other name, rename={name: other}",
    )
    doubled = sorted({names[a] for a in names for b in names if a < b and names[a] == names[b]} - set(fixed))
    if doubled:
        raise SpaceError(f"parameters {doubled} of the experiment stand for two of the table; rename each to one")
    return {name: other for name, other in names.items() if name not in fixed}


def _readings(pair: tuple[str, str], space: ParameterSpace, target: SearchSpace) -> set[tuple[str, str]]:
    """Return what a pair can mean: a name in the table, and one in the experiment."""
    return {(a, b) for a, b in (pair, pair[::-1]) if a in space.names and b in target.parameters}


def concerning(
    space: ParameterSpace, target: SearchSpace, rename: Mapping[str, str], fixed: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what of `rename` and `fixed` is about a covariance that is one of several with other parameters.

    Parameters
    ----------
    space, target, rename, fixed
        As for `target_names`.
    """
    return (
        {a: b for a, b in rename.items() if _readings((a, b), space, target)},
        {name: value for name, value in fixed.items() if name in space.names},
    )


def levels(target: SearchSpace, names: Mapping[str, str], fixed: Mapping[str, Any]) -> dict[str, FurtherLevels]:
    """Return the levels of choices of an experiment, and what parameters are fixed at, by their names in the table.

    Parameters
    ----------
    target, names, fixed
        As for `encodings`.
    """
    parameters = {name: target.parameters[other] for name, other in names.items()}
    constants = {name: p.value for name, p in parameters.items() if isinstance(p, FixedParameter)}
    choices: dict[str, tuple[Any, ...]] = {
        name: tuple(p.values) for name, p in parameters.items() if isinstance(p, ChoiceParameter)
    }
    return levels_by_name(None, {**fixed, **constants}) | choices


def ranges(
    space: ParameterSpace, target: SearchSpace, rename: Mapping[str, str], fixed: Mapping[str, Any]
) -> dict[str, Parameter]:
    """Return those parameters of an experiment that have a range of numbers, by their names in `space`.

    Parameters
    ----------
    space, target, rename, fixed
        As for `target_names`.
    """
    described: dict[str, Parameter] = {}
    for name, other in target_names(space, target, rename, fixed).items():
        parameter = target.parameters[other]
        if isinstance(parameter, RangeParameter):
            described[name] = _numeric(parameter)
        elif isinstance(parameter, ChoiceParameter) and parameter.is_numeric and len(parameter.values) > 1:
            described[name] = Ordered(other, tuple(sorted(parameter.values)))  # type: ignore[arg-type]
    return described


def _numeric(other: RangeParameter) -> Numeric:
    return Numeric(other.name, other.lower, other.upper, log=other.log_scale)


def _encoding(parameter: Parameter, other: AxParameter, target: SearchSpace) -> Encoding:
    if isinstance(other, FixedParameter):
        return _constant(parameter, other.value)
    if isinstance(other, DerivedParameter):
        return _derived(parameter, other, target)
    if isinstance(other, RangeParameter):
        check_kind(parameter, _numeric(other), WHERE)
        check_positive(parameter, _numeric(other))
        return _affine([[other.name, _scale(other), 1.0]])
    if not isinstance(other, ChoiceParameter):
        raise SpaceError(f"parameter {other.name!r} is a {type(other).__name__}, which is not supported")
    levels = list(other.values)
    check_levels(parameter, levels, "the experiment")
    if not other.is_ordered:
        columns = [f"{other.name}{OH_PARAM_INFIX}{i}" for i in range(len(levels))]
        return {"columns": columns, "levels": levels, "knots": []}
    if other.is_numeric and not parameter.indexed_levels:
        return _affine([[other.name, _scale(other), 1.0]])
    knots = [float(level) for level in levels] if other.is_numeric else map(float, range(len(levels)))  # type: ignore[arg-type]
    return {
        "columns": [other.name],
        "levels": levels,
        "knots": [math.log10(knot) if other.log_scale else knot for knot in knots],
    }


def _derived(parameter: Parameter, other: DerivedParameter, target: SearchSpace) -> Encoding:
    if other.source_parameter_name is not None:
        return _encoding(parameter, target.parameters[other.source_parameter_name], target)
    check_kind(parameter, Numeric(other.name, 0, 1), WHERE)
    terms = []
    for name, weight in other.parameter_names_to_weights.items():
        part = target.parameters[name]
        if not isinstance(part, RangeParameter):
            raise SpaceError(f"parameter {other.name!r} is derived from {name!r}, which is no range; fix it instead")
        terms.append([name, _scale(part), weight])
    return _affine(terms, other.intercept)


def _affine(terms: list[list[Any]], intercept: float = 0.0) -> Encoding:
    return {"terms": terms, "intercept": intercept}


def _constant(parameter: Parameter, value: Any) -> Encoding:
    parameter.to_raw(value)
    return {"value": value}


def _scale(other: RangeParameter | ChoiceParameter) -> str:
    if other.log_scale:
        return "log10"
    return "logit" if isinstance(other, RangeParameter) and other.logit_scale else "linear"
