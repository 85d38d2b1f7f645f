"""Named parameters in raw units, and the frame: the fixed coordinates a pre-trained covariance lives in.

A *raw* array has one column per parameter: the value itself for real, integer and ordered numeric parameters, the
index of the level for categorical parameters and for ordered levels that are not numbers. *Frame coordinates* have one
column per numeric or ordered parameter, and one {0, 1} column per level of a categorical one or, where levels are
described by numbers, one per descriptor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.region.walk import Walk
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.messages.hints import did_you_mean, listed
from mkbo_plugins.messages.rows import BY_PLACE, SHOWN_ROWS, RowNames
from mkbo_plugins.space.cells import reads_as_number
from mkbo_plugins.space.columns import parameter_of_column
from mkbo_plugins.space.constraints import LinearConstraint, check_constraints, polytope
from mkbo_plugins.space.parameters import (
    FRAMES,
    Categorical,
    Frame,
    Level,
    Parameter,
)
from mkbo_plugins.space.parsing import parse_parameter

if TYPE_CHECKING:
    import pandas as pd

SPARE, MOST_SPARE = 4, 1024
"""Draws for each space-filling point where constraints leave no cube to fill, and most of them beyond the points."""

MOST_POINTS = 2**20
"""Space-filling points that are drawn at once."""


@dataclass(frozen=True)
class ParameterSpace:
    """Named parameters of a table and of the covariance pre-trained on it.

    Parameters
    ----------
    parameters
        The parameters, in column order; names must differ.
    constraints
        Linear constraints on them, in raw units, which whatever is suggested keeps.

    Raises
    ------
    SpaceError
        If there is no parameter, or two share a name; or if constraints cannot be kept, or are not about real or whole
        numbers on linear scales.
    """

    parameters: tuple[Parameter, ...]
    constraints: tuple[LinearConstraint, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "constraints", tuple(map(LinearConstraint.of, self.constraints)))
        if not self.parameters:
            raise SpaceError("a space needs at least one parameter; describe one, such as {'power': (0, 10)}")
        strange = next((p for p in self.parameters if not isinstance(p, Parameter)), None)
        if strange is not None:
            raise SpaceError(f"a space is made of parameters, got {strange!r}; ParameterSpace.from_dict makes them")
        check_distinct(self.names, "parameter")
        if self.constraints:
            check_constraints(self.parameters, self.constraints)

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any], constraints: Iterable[Any] = ()) -> "ParameterSpace":
        """Build a space from a mapping of parameter names to short descriptions.

        Parameters
        ----------
        spec
            ``(low, high)`` for a real parameter, with ``"log"`` and/or ``"int"`` appended for a logarithmic scale or
            whole numbers; a list of levels for a categorical one (ordered, and placed by value, if all are numbers);
            or a mapping with ``bounds`` (and ``log``, ``integer``) or ``levels`` (and ``ordered``). Levels that are
            described by numbers, as substances are, are a mapping of each to its numbers by descriptor,
            ``{"levels": {"PPh3": {"pKa": 2.7}, ...}}``, or a DataFrame with the levels as its index.
        constraints
            Linear constraints in raw units: mappings with ``sum``, a list of names, or ``coefficients``, a mapping of
            names to numbers; and with ``equals``, or ``at_least`` and/or ``at_most``. They are about real and whole
            numbers on linear scales.

        Raises
        ------
        SpaceError
            If a description is not one of these; the message names the parameter. If constraints cannot be kept; the
            message names them.

        Examples
        --------
        >>> space = ParameterSpace.from_dict({"lr": (1e-5, 1e-1, "log"), "gas": ["Argon", "Air"]})
        >>> space.coordinate_names
        ('lr', 'gas=Argon', 'gas=Air')
        >>> bounds = {"sand": (0, 80), "lime": (0, 40), "water": (5, 30)}
        >>> mixture = ParameterSpace.from_dict(bounds, constraints=[{"sum": list(bounds), "equals": 100}])
        >>> str(mixture.constraints[0])
        'sand + lime + water = 100'
        """
        if not isinstance(spec, Mapping):
            raise SpaceError(f"a space is described by a mapping of names, got {type(spec).__name__}")
        if isinstance(constraints, (str, Mapping)) or not isinstance(constraints, Iterable):
            raise SpaceError(
                f"constraints must be a list, such as [{{'sum': ['a', 'b'], 'equals': 100}}], got {constraints!r:.60}"
            )
        return cls(tuple(parse_parameter(name, entry) for name, entry in spec.items()), tuple(constraints))

    @classmethod
    def from_table(cls, table: "pd.DataFrame", target: str) -> "ParameterSpace":
        """Build a space from the columns of a table other than `target`, with bounds at the extremes found.

        Whole numbers become integer parameters, other numbers real ones, text and booleans categorical ones with sorted
        levels.

        Raises
        ------
        SpaceError
            If `target` is no column, or a column is constant, doubled, or holds nothing but missing values, text among
            numbers, or numbers with several units.
        """
        import pandas as pd

        if not isinstance(table, pd.DataFrame):
            raise SpaceError(f"table must be a pandas DataFrame, got {type(table).__name__}")
        present = list(table.columns)
        if target not in present:
            raise SpaceError(f"target {target!r} is not a column of the table; it has {listed(present, target)}")
        check_doubled(present, present)
        return cls(tuple(parameter_of_column(table[name]) for name in present if name != target))

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return a mapping that `from_dict` reads back into a space that is equal but for constraints."""
        return {parameter.name: parameter.to_spec() for parameter in self.parameters}

    def without(self, fixed: Mapping[str, Any]) -> "ParameterSpace":
        """Return the space of the other parameters where some are constant, with what is left of its constraints.

        Parameters
        ----------
        fixed
            User-facing values by name; a level may be a new one.

        Raises
        ------
        SpaceError
            If a name is unknown, a number is not one its parameter can take, or constraints cannot be kept with it.
        """
        known = {name: self[name] for name in fixed}
        raw = {name: p.to_raw(fixed[name]) for name, p in known.items() if not isinstance(p, Categorical)}
        left = [constraint.given(raw) for constraint in self.constraints]
        return ParameterSpace(
            tuple(p for p in self.parameters if p.name not in known),
            tuple(constraint for constraint in left if constraint is not None),
        )

    @cached_property
    def constrained(self) -> tuple[int, ...]:
        """Places of the parameters that constraints name."""
        named = {name for constraint in self.constraints for name in constraint.names}
        return tuple(j for j, name in enumerate(self.names) if name in named)

    @cached_property
    def walk(self) -> Walk:
        """What draws points of these parameters that keep the constraints; there must be some."""
        return Walk(polytope([self.parameters[j] for j in self.constrained], self.constraints))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in column order."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of the frame coordinates."""
        return tuple(name for parameter in self.parameters for name in parameter.coordinate_names)

    @cached_property
    def coordinate_owners(self) -> tuple[str, ...]:
        """Name of the parameter that each frame coordinate belongs to."""
        return tuple(parameter.name for parameter in self.parameters for _ in parameter.coordinate_names)

    def coordinate_ranges(self, frame: Frame) -> Float[np.ndarray, " d"]:
        """Width of the interval each frame coordinate spans inside the bounds, (d,)."""
        wide = 2.0 if frame == "centred" else 1.0
        return np.array(
            [1.0 if p.has_coordinate_per_level else wide for p in self.parameters for _ in p.coordinate_names]
        )

    def __getitem__(self, name: str) -> Parameter:
        """Return the parameter called `name`."""
        if name not in self.names:
            raise SpaceError(f"unknown parameter {name!r}; the space has {listed(self.names)}")
        return self.parameters[self.names.index(name)]

    def to_coordinates(self, X: Array, frame: Frame = "centred") -> Float[Array, "... d"]:
        """Map raw points (..., number of parameters) to frame coordinates (..., d), for arrays and tensors alike."""
        check_frame(frame)
        if X.shape[-1] != len(self.parameters):
            raise SpaceError(
                f"expected {len(self.parameters)} columns in the order {list(self.names)}, got {X.shape[-1]}"
            )
        xp = array_namespace(X)
        return xp.concat([p.to_coordinates(X[..., j], frame) for j, p in enumerate(self.parameters)], axis=-1)

    def to_raw(self, points: Any, *, row_numbers: Sequence[int] | None = None) -> Float[np.ndarray, "n columns"]:
        """Return user-facing points as a checked raw array.

        Parameters
        ----------
        points
            A DataFrame (columns found by name, others ignored), a mapping or a sequence of mappings of names to
            values, or an array-like (n, number of parameters) in column order. Numeric arrays are raw already;
            elsewhere categorical values are levels.
        row_numbers
            Numbers by which error messages call the rows; None counts from 0. Tables read from a file have those of
            its lines.

        Returns
        -------
        ndarray
            Raw values, (n, number of parameters).

        Raises
        ------
        SpaceError
            If a column is missing, or a value is missing, not finite, or not one that its parameter can take. The
            message names the parameter and the rows.
        """
        if isinstance(points, Mapping):
            points = [points]
        if hasattr(points, "columns"):
            columns = _table_columns(points, self.names)
        elif _is_records(points):
            columns = {name: [_record_value(record, name, i) for i, record in enumerate(points)] for name in self.names}
        else:
            return self._checked_array(points)
        rows = RowNames.of(points, row_numbers)
        raw = [_gather(p.to_raw, columns[p.name], rows) for p in self.parameters]
        return np.column_stack(raw) if raw[0].size else np.empty((0, len(self.names)))

    def _checked_array(self, points: Any) -> np.ndarray:
        array = as_array(points, "points")
        if array.ndim != 2 or array.shape[1] != len(self.names):
            raise SpaceError(
                f"expected points (n, {len(self.names)}) with columns {list(self.names)}, got shape {array.shape}"
            )
        if array.dtype.kind in "fiu":
            raw = [_gather(p.check_raw, array[:, j]) for j, p in enumerate(self.parameters)]
        else:
            raw = [_gather(p.to_raw, array[:, j]) for j, p in enumerate(self.parameters)]
        return np.column_stack(raw)

    def from_raw(self, X: np.ndarray) -> list[dict[str, Level]]:
        """Return raw points (n, number of parameters) as user-facing mappings of names to values."""
        array = as_array(X, "points")
        if array.ndim != 2 or array.shape[1] != len(self.names) or array.dtype.kind not in "fiu":
            raise SpaceError(
                f"expected raw numbers (n, {len(self.names)}) with columns {list(self.names)}, got an array of "
                f"{array.dtype} of shape {array.shape}"
            )
        return [{p.name: p.from_raw(v) for p, v in zip(self.parameters, row, strict=True)} for row in array]

    def sobol(self, n: int, seed: int | None = 0) -> Float[np.ndarray, "n columns"]:
        """Return `n` space-filling raw points, (n, number of parameters), from a scrambled Sobol sequence.

        Parameters that constraints name are drawn evenly from what these leave, and of some more points those are
        taken that lie far from one another, the middlemost first.
        """
        for name, value in {"n": n, "seed": 0 if seed is None else seed}.items():
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
                raise SpaceError(f"{name} must be a whole number of at least 0, got {value!r}")
        if n > MOST_POINTS:
            raise SpaceError(f"n must be at most {MOST_POINTS}, got {n}; ask for fewer points")
        from mkbo_plugins.core.sobol import sobol_points

        count = max(n, min(SPARE * n, MOST_SPARE)) if self.constraints else n
        raw = self.from_unit(sobol_points(len(self.parameters), count, seed))
        if not self.constraints or not n:
            return raw
        from mkbo_plugins.core.training.subset import farthest_point_order

        raw[:, self.constrained] = self.walk.draws(count, np.random.default_rng(seed))
        return raw[farthest_point_order(np.asarray(self.to_coordinates(raw, "unit")), n)]

    def from_unit(self, unit: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, "n columns"]:
        """Map points of the unit cube, (n, number of parameters), to raw ones spread evenly between the bounds.

        Constraints are not kept.
        """
        return np.column_stack([p.from_unit(unit[:, j]) for j, p in enumerate(self.parameters)])


def check_frame(frame: str) -> None:
    """Raise a `SpaceError` unless `frame` is one of `FRAMES`."""
    if not isinstance(frame, str) or frame not in FRAMES:
        raise SpaceError(f"frame must be one of {list(FRAMES)}, got {frame!r}")


def as_array(values: Any, name: str) -> np.ndarray:
    """Return an array of numbers, or of objects where `values` holds anything else, so that nothing turns into text.

    Raises
    ------
    SpaceError
        If rows differ in length, or `values` cannot be read as an array.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind in "fiubcO" and (hasattr(values, "dtype") or not _holds_booleans(values)):
            return array
        return np.asarray(values, dtype=object)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SpaceError(f"{name} cannot be read as an array with rows of one length: {error}") from error


def _holds_booleans(values: Any) -> bool:
    return any(isinstance(value, (bool, np.bool_)) for value in np.asarray(values, dtype=object).ravel())


def _gather(convert: Callable[[Any], float], values: Iterable[Any], rows: RowNames = BY_PLACE) -> np.ndarray:
    """Convert a column, gathering the faulty rows into one message."""
    raw, faults, odd, values = [], {}, [], list(values)
    for row, value in enumerate(values):
        try:
            raw.append(convert(value))
        except SpaceError as error:
            faults[row] = error
            odd += [] if reads_as_number(value) else [row]
            if len(odd) > SHOWN_ROWS:  # no message has more, and what is close to each takes long to find
                break
    if faults:
        named = odd or list(faults)
        raise SpaceError(f"{faults[named[0]]} ({rows.at(named)})")
    return np.asarray(raw, dtype=float)


def _is_records(points: Any) -> bool:
    return isinstance(points, Sequence) and len(points) > 0 and all(isinstance(p, Mapping) for p in points)


def _record_value(record: Mapping[str, Any], name: str, row: int) -> Any:
    if name not in record:
        raise SpaceError(f"point {row} lacks parameter {name!r}; it has {sorted(map(str, record))}")
    return record[name]


def _table_columns(table: Any, names: Sequence[str]) -> dict[str, Any]:
    present = list(table.columns)
    check_columns(present, names)
    return {name: table[name].tolist() for name in names}


def check_columns(present: Sequence[Any], names: Sequence[Any]) -> None:
    """Raise a `SpaceError` unless each of `names` occurs exactly once in `present`."""
    missing = [name for name in names if name not in present]
    if missing:
        close = did_you_mean(missing[0], [name for name in present if name not in names])
        raise SpaceError(
            f"columns {missing} are missing; the table has {listed(present)}; add or rename columns{close}"
        )
    check_doubled(present, names)


def check_distinct(names: Sequence[str], kind: str) -> None:
    """Raise a `SpaceError` if a name occurs twice; `kind` says of what."""
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise SpaceError(f"{kind} names must differ, found twice: {doubled}; rename one of each")


def check_doubled(present: Sequence[Any], names: Iterable[Any]) -> None:
    """Raise a `SpaceError` if one of `names` occurs more than once in `present`."""
    doubled = list(dict.fromkeys(name for name in names if present.count(name) > 1))
    if doubled:
        raise SpaceError(f"columns {doubled} occur more than once; rename or drop the extra ones")
