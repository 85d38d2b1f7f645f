"""scikit-optimize dimensions as named parameters: what the columns of a transformed space mean."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
from skopt.space import Categorical as CategoricalDimension
from skopt.space import Dimension, Integer, Space

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.parameters import Categorical, Frame, Level, Numeric, Ordered, Parameter, plain_value
from mkbo_plugins.tables.ranges import check_positive

Inputs: TypeAlias = Literal["normalised", "raw"]
INPUTS: tuple[Inputs, ...] = ("normalised", "raw")
"""How the host feeds numbers: scaled to [0, 1], as it does for Gaussian processes; or as they are, logarithms to the
dimension's base where the prior is log-uniform, as `Optimizer` does for EIps and PIps."""

SLACK = 1e-6
"""What columns may lie beyond bounds by, in units of the range: rounding, and steps of numeric derivatives."""


class Columns(Protocol):
    """The transformed columns of one dimension.

    Columns may be complex: their imaginary parts carry derivatives.
    """

    @property
    def name(self) -> str:
        """Name of the dimension."""

    @property
    def size(self) -> int:
        """Number of columns."""

    @property
    def stock_size(self) -> int:
        """Number of unit-scaled inputs."""

    @property
    def parameter(self) -> Parameter | None:
        """The dimension as a parameter of the target; None where it is constant."""

    def to_frame(self, X: np.ndarray, inputs: Inputs) -> np.ndarray:
        """Map columns (n, size) to frame coordinates of the pre-trained parameter, (n, number of coordinates)."""

    def to_stock(self, X: np.ndarray, inputs: Inputs) -> np.ndarray:
        """Map columns (n, size) to unit-scaled inputs, (n, stock_size)."""

    def holds(self, X: np.ndarray, inputs: Inputs) -> bool:
        """Return whether columns (n, size) may have been fed as `inputs` says."""


@dataclass(frozen=True)
class NumericColumn:
    """The column of a Real or Integer dimension.

    Parameters
    ----------
    target
        The dimension as a parameter.
    base
        Base of the logarithms the host may feed; None on a linear scale.
    pretrained
        The pre-trained parameter of this name, if there is one.
    frame
        Frame of the covariance.
    """

    target: Numeric
    base: float | None
    pretrained: Parameter | None
    frame: Frame

    size: ClassVar[int] = 1
    stock_size: ClassVar[int] = 1

    def __post_init__(self) -> None:
        known = self.pretrained
        if known is None:
            return
        if isinstance(known, Categorical) or (isinstance(known, Ordered) and not known.numeric):
            raise SpaceError(
                f"parameter {self.name!r} has levels {list(known.indexed_levels)} in the table, but is a "
                f"{'whole' if self.target.integer else 'real'} number here; describe it as a Categorical of these"
            )
        check_positive(known, self.name, self.target.lower)

    @property
    def name(self) -> str:
        """Name of the dimension."""
        return self.target.name

    @property
    def parameter(self) -> Parameter:
        """The dimension as a parameter of the target."""
        return self.target

    @property
    def _ends(self) -> tuple[float, float]:
        low, high = self.target.lower, self.target.upper
        return (math.log(low), math.log(high)) if self.target.log else (low, high)

    def _on_scale(self, column: np.ndarray, inputs: Inputs) -> np.ndarray:
        """Return values, or their natural logarithms where the scale is logarithmic."""
        low, high = self._ends
        if inputs == "normalised":
            return low + column * (high - low)
        return column if self.base is None else column * math.log(self.base)

    def to_frame(self, X: np.ndarray, inputs: Inputs) -> np.ndarray:
        """Map columns to frame coordinates of the pre-trained parameter."""
        if self.pretrained is None:
            return X[:, :0]
        value = self._on_scale(X[:, 0], inputs)
        value = np.exp(value) if self.target.log else value
        if isinstance(self.pretrained, Numeric) and self.pretrained.log and (value.real <= 0).any():
            raise SpaceError(f"parameter {self.name!r} is on a log scale and must be above 0 everywhere")
        return self.pretrained.to_coordinates(value, self.frame)

    def to_stock(self, X: np.ndarray, inputs: Inputs) -> np.ndarray:
        """Map columns to unit-scaled inputs."""
        if inputs == "normalised":
            return X
        low, high = self._ends
        return (self._on_scale(X, inputs) - low) / (high - low)

    def holds(self, X: np.ndarray, inputs: Inputs) -> bool:
        """Return whether columns may have been fed as `inputs` says."""
        unit = self.to_stock(X, inputs)
        return bool(((unit >= -SLACK) & (unit <= 1 + SLACK)).all())


@dataclass(frozen=True)
class LevelColumns:
    """The column or columns of a Categorical dimension: one of each level, one in all for two levels or a single one.

    Rows may be any numbers, as the host's search moves between levels. Each is taken as the level that the host will
    round it to: a mixture of levels may be better than every level.

    Parameters
    ----------
    name
        Name of the dimension.
    levels
        Levels in the host's order.
    parameter
        The dimension as a parameter of the target; None where it has a single level.
    pretrained
        The pre-trained parameter of this name, if there is one.
    frame
        Frame of the covariance.
    """

    name: str
    levels: tuple[Level, ...]
    parameter: Parameter | None
    pretrained: Parameter | None
    frame: Frame

    @property
    def size(self) -> int:
        """Number of columns."""
        return 1 if len(self.levels) == 2 else len(self.levels)

    @cached_property
    def _frame_of_levels(self) -> np.ndarray:
        return _coordinates(self.pretrained, self.levels, self.frame)

    @cached_property
    def _stock_of_levels(self) -> np.ndarray:
        return _coordinates(self.parameter, self.levels, "unit")

    @property
    def stock_size(self) -> int:
        """Number of unit-scaled inputs."""
        return self._stock_of_levels.shape[1]

    def _one_hot(self, X: np.ndarray) -> np.ndarray:
        if len(self.levels) == 1:
            return np.ones_like(X)
        chosen = (X[:, 0].real > 0.5).astype(int) if len(self.levels) == 2 else np.argmax(X.real, axis=1)
        return np.eye(len(self.levels))[chosen]

    def to_frame(self, X: np.ndarray, inputs: Inputs) -> np.ndarray:
        """Map columns to frame coordinates of the pre-trained parameter."""
        return self._one_hot(X) @ self._frame_of_levels

    def to_stock(self, X: np.ndarray, inputs: Inputs) -> np.ndarray:
        """Map columns to unit-scaled inputs."""
        return self._one_hot(X) @ self._stock_of_levels

    def holds(self, X: np.ndarray, inputs: Inputs) -> bool:
        """Return whether columns may have been fed as `inputs` says."""
        return bool(((X >= -SLACK) & (X <= 1 + SLACK)).all())


def _coordinates(parameter: Parameter | None, levels: Sequence[Level], frame: Frame) -> np.ndarray:
    """Return the coordinates of levels under a parameter, (number of levels, number of coordinates)."""
    if parameter is None:
        return np.empty((len(levels), 0))
    return np.asarray(parameter.to_coordinates(np.array([parameter.to_raw(level) for level in levels]), frame))


def columns_of(dimension: Dimension, name: str, pretrained: Parameter | None, frame: Frame) -> Columns:
    """Return what the columns of a dimension mean.

    Raises
    ------
    SpaceError
        If the dimension and the pre-trained parameter of its name do not fit together.
    """
    if isinstance(dimension, CategoricalDimension):
        levels = tuple(plain_value(level) for level in dimension.categories)
        return LevelColumns(name, levels, _level_parameter(name, levels, pretrained), pretrained, frame)
    log = dimension.prior == "log-uniform"
    target = Numeric(
        name, plain_value(dimension.low), plain_value(dimension.high), log=log, integer=isinstance(dimension, Integer)
    )
    return NumericColumn(target, float(dimension.base) if log else None, pretrained, frame)


def _level_parameter(name: str, levels: tuple[Level, ...], pretrained: Parameter | None) -> Parameter | None:
    if pretrained is not None:
        try:
            for level in levels:
                pretrained.to_raw(level)
        except SpaceError as error:
            raise SpaceError(f"{error}; leave the level out of the dimension") from error
    if len(levels) == 1:
        return None
    if pretrained is None or isinstance(pretrained, Categorical):
        return Categorical(name, levels)
    if isinstance(pretrained, Ordered) and not pretrained.numeric:
        return pretrained
    return Ordered(name, tuple(sorted(levels)))


def named_dimensions(
    dimensions: Any, names: Sequence[str] | Mapping[str, str] | None = None
) -> list[tuple[str, Dimension]]:
    """Return dimensions with their names, in the order of the host's columns.

    Parameters
    ----------
    dimensions
        What `gp_minimize` or `Optimizer` take: a `Space`, or a sequence of dimensions or short descriptions of them; or
        a dictionary of names, as `BayesSearchCV` takes it, whose keys the host sorts.
    names
        Names in the order of the dimensions, or other names for some of them by their own; None means their own.

    Raises
    ------
    SpaceError
        If a dimension has no name, two have the same, or there are several spaces.
    """
    if isinstance(dimensions, (list, tuple)) and any(_is_subspace(entry) for entry in dimensions):
        if len(dimensions) > 1:
            raise SpaceError(
                f"the {len(dimensions)} sub-spaces of one BayesSearchCV would share one model, whose columns differ "
                "between them; run one BayesSearchCV for each"
            )
        (dimensions,) = dimensions
        dimensions = dimensions[0] if isinstance(dimensions, tuple) else dimensions
    if isinstance(dimensions, Mapping):
        own: list[str | None] = sorted(dimensions)
        entries = [dimensions[name] for name in own]
    else:
        entries = list(dimensions)
        own = [entry.name if isinstance(entry, Dimension) else None for entry in entries]
    if not entries:
        raise SpaceError("dimensions are empty; give those the optimiser gets")
    # Read here and not kept, since the host changes dimensions in place.
    found = list(Space(entries).dimensions)
    chosen = _chosen_names(own, names)
    doubled = sorted({name for name in chosen if chosen.count(name) > 1})
    if doubled:
        raise SpaceError(f"dimension names must differ, found twice: {doubled}; rename one of each")
    return list(zip(chosen, found, strict=True))


def _is_subspace(entry: Any) -> bool:
    return isinstance(entry, Mapping) or (isinstance(entry, tuple) and bool(entry) and isinstance(entry[0], Mapping))


def _chosen_names(own: Sequence[str | None], names: Sequence[str] | Mapping[str, str] | None) -> list[str]:
    if isinstance(names, Mapping):
        unknown = [name for name in names if name not in own]
        if unknown:
            raise SpaceError(f"names: {unknown} are no dimensions; there are {list(own)}")
        chosen: list[str | None] = [names.get(name, name) if name is not None else None for name in own]
    elif names is not None:
        if isinstance(names, str) or len(names) != len(own):
            raise SpaceError(f"names must be {len(own)} names, one for each dimension, got {names!r}")
        chosen = list(names)
        clash = [(old, new) for old, new in zip(own, chosen, strict=True) if old is not None and old != new]
        if clash:
            raise SpaceError(
                f"the dimension named {clash[0][0]!r} is called {clash[0][1]!r} in names; give the same order, or a "
                "mapping {own name: other name} to rename"
            )
    else:
        chosen = list(own)
    nameless = [j for j, name in enumerate(chosen) if not isinstance(name, str) or not name]
    if nameless:
        raise SpaceError(
            f"dimensions {nameless} (counting from 0) have no name, by which they are matched to the table's columns; "
            "write Real(..., name='power') or pass names=[...]"
        )
    return [str(name) for name in chosen]
