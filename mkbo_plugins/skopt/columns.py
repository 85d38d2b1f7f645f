"""Map from the columns the host feeds to the fixed frame of a pre-trained covariance and to unit-scaled inputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Num

from mkbo_plugins.core.forms import Form
from mkbo_plugins.core.gp.form_model import Points
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.skopt.dimensions import INPUTS, Inputs, NamedDimension, named_dimension, named_dimensions
from mkbo_plugins.space.mapping import Constant, CoordinateMap, Source
from mkbo_plugins.space.matching import check_names
from mkbo_plugins.space.parameters import Frame
from mkbo_plugins.space.space import ParameterSpace

SLACK = 1e-6
"""What columns may lie beyond bounds by, in units of the range: rounding, and steps of numeric derivatives."""


@dataclass(frozen=True)
class ColumnMap:
    """Map from transformed columns to what a form needs; made by `column_map`.

    Columns of levels may be any numbers, as the host's search moves between levels. They are taken as the level that
    the host will round them to: a mixture of levels may be better than every level.

    Parameters
    ----------
    pretrained, frame
        Space of the covariance and how it maps to frame coordinates.
    dimensions
        The dimensions, in the host's order.
    fixed
        Pre-trained parameters that the target keeps constant, with their raw values.
    stock
        Names of the dimensions put out unit-scaled.
    """

    pretrained: ParameterSpace
    frame: Frame
    dimensions: tuple[NamedDimension, ...]
    fixed: tuple[tuple[str, float], ...]
    stock: tuple[str, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> "ColumnMap":
        """Return itself, since nothing in it can change."""
        return self

    @cached_property
    def size(self) -> int:
        """Number of columns."""
        return sum(dimension.size for dimension in self.dimensions)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions, in the host's order."""
        return tuple(dimension.name for dimension in self.dimensions)

    @property
    def stock_dims(self) -> int:
        """Number of unit-scaled inputs."""
        return len(self._maps["normalised"].coordinates) - len(self.pretrained.coordinate_names)

    def check_size(self, columns: int) -> None:
        """Raise a `SpaceError` unless there are as many columns as the dimensions have."""
        if columns != self.size:
            described = ", ".join(f"{d.name} ({d.size})" if d.size > 1 else d.name for d in self.dimensions)
            raise SpaceError(
                f"expected {self.size} columns, those of the dimensions {described}, got {columns}; build the "
                "regressor from the dimensions the optimiser gets"
            )

    def recognise(self, X: Num[np.ndarray, "n columns"]) -> Inputs:
        """Return as what columns (n, size) were fed; where both may be, as scaled to [0, 1].

        Raises
        ------
        SpaceError
            If they can be neither.
        """
        if self._misfit(X, "normalised") is not None and self._misfit(X, "raw") is None:
            return "raw"
        self.check_normalised(X)
        return "normalised"

    def check_normalised(self, X: Num[np.ndarray, "n columns"]) -> None:
        """Raise a `SpaceError` if columns (n, size) cannot have been scaled to [0, 1]."""
        misfit = self._misfit(X, "normalised")
        if misfit is not None:
            name, part = misfit
            raise SpaceError(
                f"columns of dimension {name!r} run from {part.min():g} to {part.max():g}; pass inputs='normalised' if "
                "numbers are scaled to [0, 1] by the bounds, as skopt does for Gaussian processes, or inputs='raw' if "
                "they are not, as its Optimizer does for EIps and PIps"
            )

    def _misfit(self, X: Num[np.ndarray, "n columns"], inputs: Inputs) -> tuple[str, Num[np.ndarray, "n size"]] | None:
        """Return the first dimension, with its columns, that cannot have been fed as `inputs` says."""
        for d, columns in self._split(X):
            low, high = d.bounds(inputs)
            slack = SLACK * (high - low)
            if not ((columns >= low - slack) & (columns <= high + slack)).all():
                return d.name, columns
        return None

    def points(self, X: Num[np.ndarray, "n columns"], inputs: Inputs) -> Points:
        """Map columns (n, size) to points."""
        frame, stock = np.hsplit(self._maps[inputs](self._values(X)), [len(self.pretrained.coordinate_names)])
        return Points(np.ascontiguousarray(frame), np.ascontiguousarray(stock))

    def vjp(
        self,
        x: Float[np.ndarray, " columns"],
        inputs: Inputs,
        of_frame: Float[np.ndarray, "m d"],
        of_stock: Float[np.ndarray, "m k"],
    ) -> Float[np.ndarray, "m columns"]:
        """Pull gradients (m, d) and (m, k) in the coordinates of one point (size,) back to its columns, (m, size)."""
        coordinates, upstream = self._maps[inputs], np.hstack([of_frame, of_stock])
        # Of an affine map the slopes are the same everywhere.
        of_values = coordinates.vjp(x if coordinates.is_affine else self._values(x[None, :]), upstream)
        if not self._has_levels:
            return of_values
        of_columns = np.zeros((len(of_values), self.size))
        # Levels are rounded, so that nothing changes with their columns.
        columns, values = self._numbers
        of_columns[:, columns] = of_values[:, values]
        return of_columns

    def _split(self, X: Num[np.ndarray, "n columns"]) -> Iterator[tuple[NamedDimension, Num[np.ndarray, "n size"]]]:
        """Return the dimensions, each with its columns."""
        self.check_size(X.shape[1])
        return ((d, X[:, columns]) for d, columns in zip(self.dimensions, self._columns, strict=True))

    def _values(self, X: Num[np.ndarray, "n columns"]) -> Float[np.ndarray, "n values"]:
        """Return columns of numbers, and weights of levels, (n, number of both)."""
        if not self._has_levels:
            self.check_size(X.shape[1])
            return X
        return np.hstack([_one_hot(columns, len(d.levels)) if d.levels else columns for d, columns in self._split(X)])

    @cached_property
    def _columns(self) -> list[slice]:
        """Columns of each dimension."""
        ends = np.cumsum([0, *(d.size for d in self.dimensions)]).tolist()
        return [slice(*both) for both in pairwise(ends)]

    @cached_property
    def _numbers(self) -> tuple[list[int], list[int]]:
        """Places of the numbers among the columns, and among these with a weight for each level."""
        values = np.cumsum([0, *(len(d.levels) or 1 for d in self.dimensions)]).tolist()
        numbers = [j for j, d in enumerate(self.dimensions) if not d.levels]
        return [self._columns[j].start for j in numbers], [values[j] for j in numbers]

    @cached_property
    def _has_levels(self) -> bool:
        return any(d.levels for d in self.dimensions)

    @cached_property
    def _maps(self) -> dict[Inputs, CoordinateMap]:
        return {inputs: self._map(inputs) for inputs in INPUTS}

    def _map(self, inputs: Inputs) -> CoordinateMap:
        sources: dict[str, Source] = {d.name: d.source(inputs) for d in self.dimensions}
        labels = [label for source in sources.values() for label in source.columns]
        sources |= {name: Constant(number) for name, number in self.fixed}
        frame = [(sources[p.name], p, self.frame) for p in self.pretrained.parameters]
        stock = [entry for d in self.dimensions if d.name in self.stock for entry in d.unit_scaled(inputs)]
        return CoordinateMap.of(labels, [*frame, *stock])


def _one_hot(X: Num[np.ndarray, "n size"], levels: int) -> Float[np.ndarray, "n levels"]:
    """Return a weight of 1 for the level that the host rounds columns to, (n, number of levels)."""
    chosen = (X[:, 0] > 0.5).astype(int) if levels == 2 else np.argmax(X, axis=1)
    return np.eye(levels)[chosen]


def column_map(
    cov: Covariance,
    dimensions: Any,
    form: Form,
    names: Sequence[str] | Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> ColumnMap:
    """Return the map from the host's columns to what a form needs.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    dimensions, names
        As for `named_dimensions`.
    form
        The form; one without a stock covariance gets unit-scaled inputs of parameters that the table lacks only.
    fixed
        Values of pre-trained parameters that the target keeps constant, by name.

    Raises
    ------
    SpaceError
        If a pre-trained parameter is neither a dimension nor fixed, or both, or not of the same kind.
    """
    space, fixed = cov.space, dict(fixed or {})
    described = tuple(
        named_dimension(dimension, name, space[name] if name in space.names else None)
        for name, dimension in named_dimensions(dimensions, names)
    )
    present = [dimension.name for dimension in described]
    check_names(
        space,
        present,
        fixed,
        lacks=f"the dimensions {present} lack",
        within="dimensions",
        remedy=", or rename a dimension with names=",
    )
    constants = tuple((name, space[name].to_raw(value)) for name, value in sorted(fixed.items()))
    stock = present if form.uses_stock else [name for name in present if name not in space.names]
    return ColumnMap(space, cov.frame, described, constants, tuple(stock))


def parameter_space(dimensions: Any, names: Sequence[str] | Mapping[str, str] | None = None) -> ParameterSpace:
    """Return scikit-optimize dimensions as a `ParameterSpace`, for `pretrain` on an earlier result.

    Parameters
    ----------
    dimensions, names
        As for `pretrained_regressor`. Dimensions of a single level are left out.
    """
    described = [named_dimension(dimension, name, None) for name, dimension in named_dimensions(dimensions, names)]
    return ParameterSpace(tuple(d.parameter for d in described if d.parameter is not None))
