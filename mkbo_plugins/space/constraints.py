"""Linear constraints on parameters, in raw units: mixtures whose parts sum to a constant, budgets, ratios."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.region.polytope import Polytope
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.space.parameters import Categorical, Numeric, Parameter, is_finite_number, plain_value

KEYS = ("sum", "coefficients", "equals", "at_least", "at_most")
PINNED = 1e-7
"""Share of a parameter's range that constraints must leave it."""


@dataclass(frozen=True)
class LinearConstraint:
    """A sum of parameters, each times a coefficient, that is kept between two numbers; both are equal for a constant.

    Parameters
    ----------
    coefficients
        Pairs of a parameter's name and what it is multiplied by, or a mapping of these.
    at_least, at_most
        The numbers, in raw units; None where there is none.

    Raises
    ------
    SpaceError
        If there is no coefficient, one is 0 or not finite, a name occurs twice, or the numbers are missing or reversed.
    """

    coefficients: tuple[tuple[str, float], ...]
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        given: Any = self.coefficients
        pairs = list(given.items()) if isinstance(given, Mapping) else [tuple(pair) for pair in given]
        for name, weight in pairs:
            if not isinstance(name, str) or not is_finite_number(plain_value(weight)) or weight == 0:
                raise SpaceError(
                    f"a constraint takes names with finite coefficients other than 0, got {name!r}: {weight!r:.60}; "
                    "leave a parameter out whose coefficient is 0"
                )
        object.__setattr__(self, "coefficients", tuple((name, float(weight)) for name, weight in pairs))
        if not pairs:
            raise SpaceError('a constraint names no parameter; write sum = ["a", "b"] or coefficients = {a = 1, b = 2}')
        doubled = sorted({name for name in self.names if self.names.count(name) > 1})
        if doubled:
            raise SpaceError(f"a constraint names {doubled} twice; keep one, with the sum of the coefficients")
        for key in ("at_least", "at_most"):
            value = plain_value(getattr(self, key))
            if value is not None and not is_finite_number(value):
                raise SpaceError(f"constraint on {self.form}: {key} must be a finite number, got {value!r:.60}")
            object.__setattr__(self, key, None if value is None else float(value))
        if self.at_least is None and self.at_most is None:
            raise SpaceError(f"the constraint on {self.form} says nothing; give it equals, at_least or at_most")
        if self.least > self.most:
            raise SpaceError(
                f"constraint on {self.form}: at_least = {self.least:g} lies above at_most = {self.most:g}; swap them"
            )

    @classmethod
    def of(cls, entry: Any) -> "LinearConstraint":
        """Return the constraint that a mapping describes, as `ParameterSpace.from_dict` accepts it.

        Raises
        ------
        SpaceError
            If it describes none.
        """
        if isinstance(entry, LinearConstraint):
            return entry
        if not isinstance(entry, Mapping):
            raise SpaceError(
                f"a constraint is a mapping such as {{'sum': ['a', 'b'], 'equals': 100}}, got {entry!r:.60}"
            )
        unknown = [key for key in entry if key not in KEYS]
        if unknown:
            raise SpaceError(
                f"a constraint has the keys {list(KEYS)}, got {unknown[0]!r}{did_you_mean(unknown[0], KEYS)}"
            )
        if ("sum" in entry) == ("coefficients" in entry):
            raise SpaceError(f"a constraint has either 'sum' or 'coefficients', got the keys {list(entry)}")
        if "equals" in entry and ("at_least" in entry or "at_most" in entry):
            raise SpaceError("a constraint has either 'equals', or 'at_least' and/or 'at_most'; leave one out")
        names = entry.get("sum", entry.get("coefficients"))
        if "sum" in entry and (isinstance(names, str) or not isinstance(names, Sequence)):
            raise SpaceError(f"'sum' of a constraint must be a list of names, got {names!r:.60}")
        if "coefficients" in entry and not isinstance(names, Mapping):
            raise SpaceError(f"'coefficients' of a constraint must map names to numbers, got {names!r:.60}")
        terms = dict.items(dict(names)) if isinstance(names, Mapping) else [(name, 1.0) for name in names]
        ends = [entry.get("equals", entry.get(key)) for key in ("at_least", "at_most")]
        return cls(tuple(terms), *ends)

    def to_spec(self) -> dict[str, Any]:
        """Return the mapping that `of` reads."""
        plain = all(weight == 1 for _, weight in self.coefficients)
        terms = {"sum": list(self.names)} if plain else {"coefficients": dict(self.coefficients)}
        if self.at_least == self.at_most:
            return terms | {"equals": self.at_least}
        ends = {"at_least": self.at_least, "at_most": self.at_most}
        return terms | {key: value for key, value in ends.items() if value is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(name for name, _ in self.coefficients)

    @property
    def least(self) -> float:
        """The lower number, infinite where there is none."""
        return -math.inf if self.at_least is None else self.at_least

    @property
    def most(self) -> float:
        """The upper number, infinite where there is none."""
        return math.inf if self.at_most is None else self.at_most

    @property
    def form(self) -> str:
        """What is kept between the numbers, such as ``a + 2 b``."""
        text = ""
        for name, weight in self.coefficients:
            sign = (" - " if text else "-") if weight < 0 else (" + " if text else "")
            text += f"{sign}{'' if abs(weight) == 1 else f'{abs(weight):g} '}{name}"
        return text

    def __str__(self) -> str:
        """Return it as an equation, such as ``a + b + c = 100``."""
        if self.least == self.most:
            return f"{self.form} = {self.least:g}"
        if self.at_least is None:
            return f"{self.form} <= {self.most:g}"
        return (
            f"{self.form} >= {self.least:g}"
            if self.at_most is None
            else f"{self.least:g} <= {self.form} <= {self.most:g}"
        )

    def given(self, fixed: Mapping[str, float]) -> "LinearConstraint | None":
        """Return what is left of it where some parameters are constant; None if nothing is.

        Parameters
        ----------
        fixed
            Raw numbers by name; other parameters' are ignored.

        Raises
        ------
        SpaceError
            If all are constant and break it.
        """
        known = {name: weight * fixed[name] for name, weight in self.coefficients if name in fixed}
        if not known:
            return self
        left, shift = tuple(pair for pair in self.coefficients if pair[0] not in known), sum(known.values())
        if left:
            ends = {"at_least": self.at_least, "at_most": self.at_most}
            moved = {key: None if value is None else value - shift for key, value in ends.items()}
            return replace(self, coefficients=left, **moved)
        slack = 1e-9 * max(map(abs, known.values()))
        if not self.least - slack <= shift <= self.most + slack:
            raise SpaceError(f"the fixed values {dict(fixed)} break the constraint {self}: they give {shift:.10g}")
        return None


def coefficient_rows(
    constraints: Sequence[Mapping[str, float]], names: Sequence[str]
) -> Float[np.ndarray, "constraints names"]:
    """Return coefficients by name as rows, 0 where a name is missing; there may be no constraint, or no name."""
    rows = [[coefficients.get(name, 0.0) for name in names] for coefficients in constraints]
    return np.array(rows, dtype=float).reshape(len(constraints), len(names))


def polytope(parameters: Sequence[Parameter], constraints: Sequence[LinearConstraint]) -> Polytope:
    """Return the region of those parameters, in this order, that constraints name; all must be numeric."""
    numeric = [p for p in parameters if isinstance(p, Numeric)]
    return Polytope(
        np.array([p.lower for p in numeric]),
        np.array([p.upper for p in numeric]),
        coefficient_rows([dict(constraint.coefficients) for constraint in constraints], [p.name for p in numeric]),
        np.array([constraint.least for constraint in constraints]),
        np.array([constraint.most for constraint in constraints]),
        np.array([p.integer for p in numeric], dtype=bool),
    )


def check_constraints(parameters: Sequence[Parameter], constraints: Sequence[LinearConstraint]) -> None:
    """Check that constraints are about numbers on linear scales, and that points are left that keep all of them.

    Raises
    ------
    SpaceError
        If one names an unknown parameter, or one that is no number or on a log scale; if one, or several together,
        cannot be kept within the bounds; or if they leave a parameter a single value.
    """
    known = {p.name: p for p in parameters}
    for constraint in constraints:
        for name in constraint.names:
            _check_linear(constraint, name, known)
    for number, constraint in enumerate(constraints, 1):
        own = _only(parameters, [constraint])
        if _empty(own, [constraint]):
            raise SpaceError(
                f"the constraint {constraint} cannot be kept: {_reach(own, constraint)}; widen one of them"
            )
        if _empty(_only(parameters, constraints[:number]), constraints[:number]):
            others = ", ".join(map(str, constraints[: number - 1]))
            raise SpaceError(
                f"the constraint {constraint} cannot be kept together with {others} within the bounds; mend one of them"
            )
    _check_room(_only(parameters, constraints), constraints)


def _check_linear(constraint: LinearConstraint, name: str, known: Mapping[str, Parameter]) -> None:
    if name not in known:
        raise SpaceError(
            f"the constraint {constraint} names {name!r}, which is no parameter; the space has {list(known)}"
            f"{did_you_mean(name, known)}"
        )
    parameter = known[name]
    if isinstance(parameter, Numeric) and not parameter.log:
        return
    what = "is on a log scale, on which no sum is linear; describe it on a linear scale (without 'log')"
    if not isinstance(parameter, Numeric):
        kind = "levels without an order" if isinstance(parameter, Categorical) else "levels"
        what = f"has {kind}; constraints are about real or whole numbers between bounds"
    raise SpaceError(f"the constraint {constraint} names {name!r}, which {what}, or leave it out of the constraint")


def _only(parameters: Sequence[Parameter], constraints: Sequence[LinearConstraint]) -> list[Parameter]:
    return [p for p in parameters if any(p.name in constraint.names for constraint in constraints)]


def _empty(parameters: Sequence[Parameter], constraints: Sequence[LinearConstraint]) -> bool:
    region = polytope(parameters, constraints)
    return region.extreme(region.matrix[0]) is None


def _reach(parameters: Sequence[Parameter], constraint: LinearConstraint) -> str:
    """Return in words between which numbers a form lies within the bounds."""
    region = polytope(parameters, [constraint])
    (weights,) = region.matrix
    ends = np.sort([weights * region.lower, weights * region.upper], axis=0).sum(axis=1)
    low, high = map(float, ends)
    if low <= constraint.most and high >= constraint.least:
        return "whole numbers within the bounds do not give it"
    return f"within the bounds, {constraint.form} lies between {low:g} and {high:g}"


def _check_room(parameters: Sequence[Parameter], constraints: Sequence[LinearConstraint]) -> None:
    region = polytope(parameters, constraints)
    for parameter, axis in zip(parameters, np.eye(len(parameters)), strict=True):
        ends = region.interval(axis)
        if ends is not None and ends[1] - ends[0] <= PINNED * float(axis @ (region.upper - region.lower)):
            about = ", ".join(str(constraint) for constraint in constraints if parameter.name in constraint.names)
            raise SpaceError(
                f"the constraints leave parameter {parameter.name!r} the single value {ends[0]:.10g} ({about}); leave "
                f"it out of the space, or fix it, fixed={{{parameter.name!r}:{ends[0]:.10g}}} (--fix NAME=VALUE)"
            )


def broken(
    constraint: LinearConstraint, names: Sequence[str], X: Float[np.ndarray, "n columns"], tolerance: float
) -> Float[np.ndarray, " n"]:
    """Return by how much points break a constraint, (n,): 0 where they keep it up to a share of its largest number.

    Parameters
    ----------
    constraint
        The constraint.
    names, X
        Parameters, and points in raw units in their order, (n, number of parameters).
    tolerance
        The share.
    """
    weights = dict(constraint.coefficients)
    terms = X[:, [names.index(name) for name in weights]] * np.array(list(weights.values()))
    value = terms.sum(axis=1)
    excess = np.minimum(value - constraint.least, 0.0) + np.maximum(value - constraint.most, 0.0)
    ends = [abs(end) for end in (constraint.least, constraint.most) if math.isfinite(end)]
    scale = np.maximum(np.abs(terms).max(axis=1), max(ends))
    return np.where(np.abs(excess) <= tolerance * scale, 0.0, excess)
