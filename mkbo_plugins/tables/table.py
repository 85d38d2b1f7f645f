"""Checks of a table of condensed knowledge before anything is trained on it."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int, Shaped

from mkbo_plugins.core.spread import SPREAD_LIMITS, check_spread
from mkbo_plugins.core.training.scatter import NO_SCATTER, Scatter
from mkbo_plugins.errors import SpaceError, TableError, TableWarning
from mkbo_plugins.messages.hints import did_you_mean, listed, shown_value
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.cells import odd_rows
from mkbo_plugins.space.parameters import Scaled, is_finite_number
from mkbo_plugins.space.space import ParameterSpace, as_array, check_columns, check_doubled
from mkbo_plugins.tables.constraints import warn_broken
from mkbo_plugins.tables.labels import check_classes, read_labels
from mkbo_plugins.tables.results import as_frame

Task: TypeAlias = Literal["regression", "classification"]

FAR_OUTSIDE = 0.01
"""Share of a parameter's range beyond its bounds from which table values are worth a warning."""

SHOWN_VALUES = 5
"""Different values that a message names, of many."""

FEWEST_ROWS = 3
"""Rows of which one can be held out."""

LEAST_WEIGHT = 1e-100
"""Least sample weight relative to the mean one."""


@dataclass(frozen=True)
class TrainingTable:
    """A checked table.

    Parameters
    ----------
    X
        Raw values, (N, number of parameters).
    y
        Target, (N,), after the logarithm if one was asked for; labels are -1 and 1.
    target
        Its name.
    groups
        Group of each row as a whole number, (N,), or None.
    sample_weight
        Positive weights, (N,), or None.
    numbers
        Number of each row in the table given, (N,), counting from 0.
    classes
        Names of the classes -1 and 1 where the target is a label, else None.
    noise
        Known standard deviations of measurement noise, in units of `y`, (N,), or None.
    counts
        Number of measurements whose mean each row is, (N,), or None if each is one.
    scatter
        What these measurements, all of the table, show of their noise.
    """

    X: Float[np.ndarray, "N columns"]
    y: Float[np.ndarray, " N"]
    target: str
    groups: Int[np.ndarray, " N"] | None
    sample_weight: Float[np.ndarray, " N"] | None
    numbers: Int[np.ndarray, " N"]
    classes: tuple[str, str] | None = None
    noise: Float[np.ndarray, " N"] | None = None
    counts: Int[np.ndarray, " N"] | None = None
    scatter: Scatter = NO_SCATTER

    def __post_init__(self) -> None:
        check_target(self.y, self.target, self.classes, self.groups)

    def rows(self, indices: Int[np.ndarray, " n"]) -> "TrainingTable":
        """Return some of its rows.

        Raises
        ------
        TableError
            If their target is constant, fewer than three groups are left, or fewer than two rows of a class.
        """
        weight, scatter = _at(self.sample_weight, indices), self.scatter
        if weight is not None:
            unit = float(weight.mean())
            weight = weight / unit
            scatter = scatter._replace(sum_of_squares=scatter.sum_of_squares / unit)
        return TrainingTable(
            self.X[indices],
            self.y[indices],
            self.target,
            None if self.groups is None else _numbered(self.groups[indices]),
            weight,
            self.numbers[indices],
            self.classes,
            _at(self.noise, indices),
            _at(self.counts, indices),
            scatter,
        )


def _at(values: Any, indices: Int[np.ndarray, " n"]) -> Any:
    return None if values is None else values[indices]


def check_rows(count: int) -> None:
    """Raise a `TableError` if a table has too few rows to hold one out."""
    if count < FEWEST_ROWS:
        raise TableError(f"a table needs at least {FEWEST_ROWS} rows, got {count}; add rows")


def read_table(
    table: Any,
    target: str | None,
    space: ParameterSpace,
    *,
    task: Task = "regression",
    log_target: bool = False,
    groups: Any = None,
    sample_weight: Any = None,
    noise: Any = None,
    missing: Literal["error", "drop"] = "error",
) -> TrainingTable:
    """Check a table and take from it what training needs; parameters as for `pretrain`.

    Raises
    ------
    TableError
        If the table, its target, groups, weights or noise cannot be used; the message names columns and rows.
    SpaceError
        If a parameter's column is missing or holds a value the parameter cannot take.
    """
    if not isinstance(missing, str) or missing not in ("error", "drop"):
        raise TableError(f"missing must be 'error' or 'drop', got {missing!r}")
    frame, target = _as_frame(table, target, space)
    check_columns(list(frame.columns), [*space.names, target])
    group_values = _per_row(groups, "groups", frame)
    weight_values = _per_row(sample_weight, "sample_weight", frame)
    noise_values = _per_row(noise, "noise", frame)
    if noise_values is not None and (weight_values is not None or task == "classification"):
        reason = "labels have no noise" if task == "classification" else "sample_weight says it in relative terms"
        raise TableError(
            f"noise (--noise) holds standard deviations of the target, but {reason}; leave one of them out"
        )
    rows = present_rows(frame, [*space.names, target], missing, target)
    X = rows.inputs(space)
    y, classes = rows.target(target, task, log_target=log_target)
    weight = None if weight_values is None else _weights(weight_values[rows.numbers], rows.names)
    labels = None if group_values is None else _labels(group_values[rows.numbers], rows.names)
    deviations = None if noise_values is None else standard_deviations(noise_values[rows.numbers], "noise", rows.names)
    if deviations is not None and log_target:
        # To first order, a logarithm has the relative deviation of its value.
        deviations = deviations / np.exp(y)
    return TrainingTable(X, y, target, labels, weight, rows.numbers, classes, deviations)


@dataclass(frozen=True, eq=False)
class PresentRows:
    """The rows of a table that lack no value, read column by column.

    Parameters
    ----------
    frame
        These rows.
    numbers
        Their numbers in the table given, (n,), counting from 0.
    """

    frame: Any
    numbers: Int[np.ndarray, " N"]

    @property
    def names(self) -> RowNames:
        """What they are called."""
        return RowNames.of(self.frame, self.numbers.tolist())

    def inputs(self, space: ParameterSpace) -> Float[np.ndarray, "n columns"]:
        """Return raw values, (n, number of parameters); raises and warns as `read_table`, for its caller's caller."""
        X = space.to_raw(self.frame, row_numbers=self.numbers.tolist())
        for name, values in zip(space.names, X.T, strict=True):
            if np.ptp(values) == 0:
                raise TableError(
                    f"column {name!r} is constant in the table: nothing can be learned about it; leave it out of the "
                    "space"
                )
        warn_outside(X, space, self.names, stacklevel=5)
        warn_broken(X, space, self.names, stacklevel=5)
        return X

    def target(
        self, name: str, task: Task, *, log_target: bool
    ) -> tuple[Float[np.ndarray, " n"], tuple[str, str] | None]:
        """Return values, (n,), after the logarithm if one is asked for, or labels with the names of their classes."""
        values = self.frame[name].tolist()
        if task == "classification":
            y, classes = read_labels(values, name)
        else:
            or_else = "; labels need task='classification' (--task classification)"
            y, classes = _numbers(values, f"target {name!r}", self.names, or_else), None
        if not log_target:
            return y, classes
        faulty = np.flatnonzero(y <= 0)
        if faulty.size:
            raise TableError(
                f"log_target (--log-target) needs a target above 0, but {name!r} is not in {self.names.at(faulty)}; "
                "drop these rows, or leave it out"
            )
        return np.log(y), classes


def _as_frame(table: Any, target: str | None, space: ParameterSpace) -> tuple[Any, str]:
    import pandas as pd

    if target is not None and not isinstance(target, str):
        raise TableError(f"the target must be named by text, got {target!r}; rename its column")
    table, target = as_frame(table, target)
    if isinstance(table, tuple) and len(table) == 2:
        X, y = table[0], as_array(table[1], "y")
        X = X if isinstance(X, pd.DataFrame) else as_array(X, "X")
        if X.ndim != 2 or X.shape[1] != len(space.names):
            raise TableError(f"X must be (N, {len(space.names)}) with columns {list(space.names)}, got shape {X.shape}")
        if y.shape != (len(X),):
            raise TableError(f"y must have one value for each of the {len(X)} rows of X, got shape {y.shape}")
        target = "target" if target is None else target
        if target in space.names:
            raise TableError(f"target {target!r} is also a parameter of the space; give the target another name")
        if not isinstance(X, pd.DataFrame):
            X = pd.DataFrame(_level_columns(X, space))
        return X.assign(**{target: y}), target
    if not isinstance(table, pd.DataFrame):
        raise TableError(
            "table must be a pandas DataFrame, a pair of arrays (X, y), a scikit-optimize result or an Optuna study, "
            f"got {type(table).__name__}"
        )
    if target is None:
        raise TableError(f"name the target column, one of {list(table.columns)}")
    present = list(table.columns)
    if target not in present:
        raise TableError(f"target {target!r} is not a column of the table; it has {listed(present, target)}")
    if target in space.names:
        raise TableError(f"target {target!r} is also a parameter of the space; take it out of one of them")
    return table, target


def _level_columns(X: Shaped[np.ndarray, "N columns"], space: ParameterSpace) -> dict[str, list[Any]]:
    """Return array columns by name, with level indices of numeric arrays replaced by levels; gaps stay gaps."""
    if X.dtype.kind not in "fiu":
        return {name: X[:, j].tolist() for j, name in enumerate(space.names)}
    columns: dict[str, list[Any]] = {}
    for j, parameter in enumerate(space.parameters):
        columns[parameter.name] = []
        for row, value in enumerate(X[:, j].tolist()):
            try:
                columns[parameter.name].append(parameter.from_raw(value) if np.isfinite(value) else value)
            except SpaceError as error:
                raise SpaceError(f"{error} (row {row}, counting from 0)") from error
    return columns


def _per_row(values: Any, name: str, frame: Any) -> Shaped[np.ndarray, " N"] | None:
    if values is None:
        return None
    if isinstance(values, str):
        if values not in list(frame.columns):
            close = did_you_mean(values, frame.columns)
            raise TableError(
                f"{name}: {values!r} is not a column of the table; it has {listed(list(frame.columns))}{close}"
            )
        check_doubled(list(frame.columns), [values])
        values = frame[values]
    array = as_array(values, name)
    if array.shape != (len(frame),):
        raise TableError(f"{name} must have one value for each of the {len(frame)} rows, got shape {array.shape}")
    return array


def present_rows(frame: Any, columns: Sequence[str], missing: str, target: str | None) -> PresentRows:
    """Return the rows of a DataFrame that lack no value of some columns, of three at least; `target` may be one.

    Raises
    ------
    TableError
        If there are fewer, or if others lack a value and `missing` is ``"error"``; else a warning lists those.
    """
    gaps = frame[list(columns)].isna().to_numpy()
    lacking = gaps.any(axis=1)
    faulty = np.flatnonzero(lacking)
    if faulty.size:
        where = [name for name, gap in zip(columns, gaps.any(axis=0), strict=True) if gap]
        message = f"values are missing in columns {where}, {RowNames.of(frame).at(faulty)}"
        if missing == "error":
            most = [
                name for name, gap in zip(columns, gaps.T, strict=True) if name != target and 2 * gap.sum() > len(gap)
            ]
            spared = f"leave {most}, mostly empty, out with table.drop(columns=...) (--ignore), " if most else ""
            raise TableError(
                f"{message}; fill them in, {spared}name a level that is called NA or None in the space or read the "
                "column with levels= (--levels), or leave these rows out with missing='drop' (--drop-missing)"
            )
        warnings.warn(
            f"{message}; {'this row is' if faulty.size == 1 else f'these {faulty.size} rows are'} left out",
            TableWarning,
            stacklevel=4,
        )
    check_rows(len(frame) - faulty.size)
    return PresentRows(frame[~lacking], np.flatnonzero(~lacking))


def _numbers(values: list[Any], what: str, names: RowNames, or_else: str = "") -> Float[np.ndarray, " N"]:
    faulty = [i for i, value in enumerate(values) if not is_finite_number(value)]
    if faulty:
        raise TableError(
            f"{what} must hold finite numbers, got {odd_cells(values, faulty, names)}; mend or drop these rows{or_else}"
        )
    return np.asarray(values, dtype=float)


def odd_cells(values: Sequence[Any], faulty: Sequence[int], names: RowNames) -> str:
    """Return the different values of faulty rows, the first of many, and what the rows are called."""
    odd = odd_rows(values, faulty)
    shown = list(dict.fromkeys(shown_value(values[row]) for row in odd))
    more = ", ..." if len(shown) > SHOWN_VALUES else ""
    return f"{', '.join(shown[:SHOWN_VALUES])}{more} in {names.at(odd)}"


def check_target(
    y: Float[np.ndarray, " N"], target: str, classes: tuple[str, str] | None, groups: Int[np.ndarray, " N"] | None
) -> None:
    """Raise a `TableError` if a target is constant or of a strange scale, or too few rows or groups have a label."""
    if classes is not None:
        check_classes(y, classes, groups)
        return
    with np.errstate(over="ignore"):
        spread = float(np.ptp(y))
    if spread <= 1e-12 * np.abs(y).max():
        raise TableError(f"target {target!r} is constant ({y[0]:g}): there is nothing to learn from it; choose another")
    check_spread(y, f"target {target!r}")


def standard_deviations(values: Shaped[np.ndarray, " N"], what: str, names: RowNames) -> Float[np.ndarray, " N"]:
    """Return known standard deviations of noise, (N,).

    Parameters
    ----------
    values
        Numbers, (N,).
    what
        What messages call them.
    names
        What the rows are called.

    Raises
    ------
    TableError
        If one is not a finite number above 0, or its square is none.
    """
    deviations = _numbers(values.tolist(), what, names)
    faulty = np.flatnonzero((deviations < SPREAD_LIMITS[0]) | (deviations > SPREAD_LIMITS[1]))
    if faulty.size:
        raise TableError(
            f"{what} must hold standard deviations above 0, got {deviations[faulty[0]]:g} in {names.at(faulty)}; give "
            "a small one where a value is all but exact, or drop these rows"
        )
    return deviations


def _weights(values: Shaped[np.ndarray, " N"], names: RowNames) -> Float[np.ndarray, " N"]:
    weights = _numbers(values.tolist(), "sample_weight", names)
    faulty = np.flatnonzero(weights <= 0)
    if faulty.size == 0:
        weights = weights / weights.max()
        weights = weights / weights.mean()
        faulty = np.flatnonzero(weights < LEAST_WEIGHT)
    if faulty.size:
        raise TableError(
            f"sample_weight must be above 0, but is not, or next to nothing, in {names.at(faulty)}; drop "
            "rows to ignore them"
        )
    return weights


def _labels(values: Shaped[np.ndarray, " N"], names: RowNames) -> Shaped[np.ndarray, " N"]:
    import pandas as pd

    missing = np.flatnonzero(pd.isna(values))
    if missing.size:
        raise TableError(f"groups are missing in {names.at(missing)}; give each row a group, or drop it")
    return _numbered(values)


def _numbered(groups: Shaped[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    import pandas as pd

    labels = pd.factorize(groups)[0]
    if labels.max() < 2:
        raise TableError(f"groups must name at least 3 groups to leave one out at a time, got {labels.max() + 1}")
    return np.asarray(labels)


def warn_outside(
    X: Float[np.ndarray, "N columns"], space: ParameterSpace, names: RowNames, *, stacklevel: int = 3
) -> None:
    """Warn of rows that lie outside the bounds of a space by more than `FAR_OUTSIDE`.

    Parameters
    ----------
    X
        Raw values, (n, number of parameters).
    space
        The parameters.
    names
        What the rows are called.
    stacklevel
        As for `warnings.warn`, 2 being the caller of this function.

    Warns
    -----
    TableWarning
        For each parameter with such rows.
    """
    for j, parameter in enumerate(space.parameters):
        if not isinstance(parameter, Scaled) or parameter.indexed_levels:
            continue
        unit = parameter.to_coordinates(X[:, j], "unit")[:, 0]
        outside = np.flatnonzero((unit < -FAR_OUTSIDE) | (unit > 1 + FAR_OUTSIDE))
        if outside.size:
            low, high = X[outside, j].min(), X[outside, j].max()
            found = f"{low:g}" if low == high else f"from {low:g} to {high:g}"
            bounds = np.exp(parameter.ends) if parameter.log else parameter.ends
            warnings.warn(
                f"column {parameter.name!r} lies outside its bounds ({bounds[0]:g}, {bounds[1]:g}) in "
                f"{names.at(outside)}: {found}; check units and bounds",
                TableWarning,
                stacklevel=stacklevel,
            )
