"""How the columns that Ax shows its models stand for the parameters of a pre-trained covariance.

With the transforms `mkbo_plugins.ax.surrogate` pins, a range is one column, as log10 on a log scale; an ordered choice
is one column, of its numbers or else its ranks; an unordered choice is one column per level, which Ax relaxes to
numbers between 0 and 1; fixed and derived parameters have none. Bounds do not enter.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core.parameter import ChoiceParameter, DerivedParameter, FixedParameter, RangeParameter
from ax.core.parameter import Parameter as AxParameter
from ax.core.search_space import SearchSpace
from torch import Tensor

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.parameters import Frame, Numeric, Ordered, Parameter
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.ranges import check_positive

_TO_RAW = {"linear": lambda x: x, "log10": lambda x: 10**x, "logit": torch.sigmoid}


class Encoding(ABC):
    """What stands for one pre-trained parameter; a plain value that Ax stores as `to_options` returns it."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns it needs."""

    @abstractmethod
    def to_coordinates(self, X: Tensor, parameter: Parameter, frame: Frame) -> Tensor:
        """Map these columns, (..., number of columns), to the parameter's frame coordinates, (..., k)."""

    @abstractmethod
    def to_options(self) -> dict[str, Any]:
        """Return a mapping that `encoding_from_options` reads."""


@dataclass(frozen=True)
class Affine(Encoding):
    """A number that is affine in range parameters, most often one of them.

    Parameters
    ----------
    terms
        Name of the column, its scale (``"linear"``, ``"log10"`` or ``"logit"``), and its coefficient.
    intercept
        The constant.
    """

    terms: tuple[tuple[str, str, float], ...]
    intercept: float = 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.terms)

    def to_coordinates(self, X: Tensor, parameter: Parameter, frame: Frame) -> Tensor:
        raw = self.intercept + sum(
            weight * _TO_RAW[scale](X[..., j]) for j, (_, scale, weight) in enumerate(self.terms)
        )
        return parameter.to_coordinates(raw, frame)

    def to_options(self) -> dict[str, Any]:
        return {"terms": [list(term) for term in self.terms], "intercept": self.intercept}


@dataclass(frozen=True)
class Levels(Encoding):
    """Levels of a choice: coordinates are those of the levels, linear in between.

    Parameters
    ----------
    names
        Names of the columns: one for each level, or a single one.
    levels
        Levels in user-facing form.
    knots
        Values of the single column at the levels, increasing; none where there is one column for each level.
    """

    names: tuple[str, ...]
    levels: tuple[Any, ...]
    knots: tuple[float, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def to_coordinates(self, X: Tensor, parameter: Parameter, frame: Frame) -> Tensor:
        raw = np.array([parameter.to_raw(level) for level in self.levels])
        corners = torch.as_tensor(parameter.to_coordinates(raw, frame), dtype=X.dtype, device=X.device)
        if not self.knots:
            return X @ corners
        knots = torch.tensor(self.knots, dtype=X.dtype, device=X.device)
        upper = torch.searchsorted(knots, X[..., 0].detach().contiguous()).clamp(1, len(knots) - 1)
        share = ((X[..., 0] - knots[upper - 1]) / (knots[upper] - knots[upper - 1])).clamp(0, 1)[..., None]
        return (1 - share) * corners[upper - 1] + share * corners[upper]

    def to_options(self) -> dict[str, Any]:
        return {"columns": list(self.names), "levels": list(self.levels), "knots": list(self.knots)}


@dataclass(frozen=True)
class Constant(Encoding):
    """A value that the target keeps.

    Parameters
    ----------
    value
        In user-facing form.
    """

    value: Any

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    def to_coordinates(self, X: Tensor, parameter: Parameter, frame: Frame) -> Tensor:
        return parameter.to_coordinates(X.new_full(X.shape[:-1], parameter.to_raw(self.value)), frame)

    def to_options(self) -> dict[str, Any]:
        return {"value": self.value}


def encoding_from_options(options: Mapping[str, Any]) -> Encoding:
    """Return the encoding that `Encoding.to_options` described."""
    if "terms" in options:
        return Affine(tuple((name, scale, weight) for name, scale, weight in options["terms"]), options["intercept"])
    if "levels" in options:
        return Levels(*(tuple(options[key]) for key in ("columns", "levels", "knots")))
    return Constant(options["value"])


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
    found: dict[str, Encoding] = {}
    for parameter in space.parameters:
        if parameter.name in fixed:
            found[parameter.name] = Constant(fixed[parameter.name])
        else:
            found[parameter.name] = _encoding(parameter, target.parameters[names[parameter.name]], target)
        _check(parameter, found[parameter.name])
    return found


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
    unknown = [name for name in fixed if name not in space.names]
    if unknown:
        raise SpaceError(f"fixed parameters {unknown} are not pre-trained; the covariance has {list(space.names)}")
    both = [name for name in fixed if names[name] in target.parameters]
    if both:
        raise SpaceError(f"parameters {both} are both fixed and in the experiment; keep one")
    lacking = [name for name in space.names if name not in fixed and names[name] not in target.parameters]
    if lacking:
        raise SpaceError(
            f"the experiment lacks pre-trained parameters {lacking}; it has {list(target.parameters)}; give each the "
            "constant value it has there, fixed={name: value}, or its other name, rename={name: other}"
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


def ranges(
    space: ParameterSpace, target: SearchSpace, rename: Mapping[str, str], fixed: Mapping[str, Any]
) -> dict[str, Parameter]:
    """Return those parameters of an experiment that have a range of numbers, by their names in `space`.

    Parameters
    ----------
    space, target, rename, fixed
        As for `target_names`.
    """
    found: dict[str, Parameter] = {}
    for name, other in target_names(space, target, rename, fixed).items():
        parameter = target.parameters[other]
        if isinstance(parameter, RangeParameter):
            found[name] = Numeric(other, parameter.lower, parameter.upper, log=parameter.log_scale)
        elif isinstance(parameter, ChoiceParameter) and parameter.is_numeric and len(parameter.values) > 1:
            found[name] = Ordered(other, tuple(sorted(parameter.values)))  # type: ignore[arg-type]
    return found


def _encoding(parameter: Parameter, other: AxParameter, target: SearchSpace) -> Encoding:
    if isinstance(other, FixedParameter):
        return Constant(other.value)
    if isinstance(other, DerivedParameter):
        return _derived(parameter, other, target)
    if isinstance(other, RangeParameter):
        _check_numeric(parameter, other)
        check_positive(parameter, other.name, other.lower)
        return Affine(((other.name, _scale(other), 1.0),))
    if not isinstance(other, ChoiceParameter):
        raise SpaceError(f"parameter {other.name!r} is a {type(other).__name__}, which is not supported")
    levels = tuple(other.values)
    if not other.is_ordered:
        return Levels(tuple(f"{other.name}{OH_PARAM_INFIX}{i}" for i in range(len(levels))), levels)
    if other.is_numeric and not parameter.indexed_levels:
        for level in levels:
            parameter.to_raw(level)
        return Affine(((other.name, _scale(other), 1.0),))
    knots = [float(level) for level in levels] if other.is_numeric else map(float, range(len(levels)))  # type: ignore[arg-type]
    return Levels((other.name,), levels, tuple(math.log10(knot) if other.log_scale else knot for knot in knots))


def _derived(parameter: Parameter, other: DerivedParameter, target: SearchSpace) -> Encoding:
    if other.source_parameter_name is not None:
        return _encoding(parameter, target.parameters[other.source_parameter_name], target)
    _check_numeric(parameter, other)
    terms, intercept = [], other.intercept
    for name, weight in other.parameter_names_to_weights.items():
        source = target.parameters[name]
        if isinstance(source, FixedParameter):
            intercept += weight * float(source.value)  # type: ignore[arg-type]
        elif isinstance(source, RangeParameter):
            terms.append((name, _scale(source), weight))
        else:
            raise SpaceError(f"parameter {other.name!r} is derived from {name!r}, which is no range; fix it instead")
    return Affine(tuple(terms), intercept)


def _scale(other: RangeParameter | ChoiceParameter) -> str:
    if other.log_scale:
        return "log10"
    return "logit" if isinstance(other, RangeParameter) and other.logit_scale else "linear"


def _check_numeric(parameter: Parameter, other: AxParameter) -> None:
    if parameter.indexed_levels:
        raise SpaceError(
            f"parameter {other.name!r} has the levels {list(parameter.indexed_levels)} in the table but is numeric in "
            "the experiment; describe it alike in both"
        )


def _check(parameter: Parameter, encoding: Encoding) -> None:
    """Raise a `SpaceError` if a value or level is not one that the parameter can take."""
    values = encoding.levels if isinstance(encoding, Levels) else ()
    for value in (encoding.value,) if isinstance(encoding, Constant) else values:
        parameter.to_raw(value)
