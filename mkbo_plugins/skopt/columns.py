"""Map from the columns the host feeds to the fixed frame of a pre-trained covariance and to unit-scaled inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mkbo_plugins.core.forms import Form
from mkbo_plugins.core.gp.form_model import STEP, Points
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.skopt.dimensions import Columns, Inputs, columns_of, named_dimensions
from mkbo_plugins.space.parameters import Frame
from mkbo_plugins.space.space import ParameterSpace


@dataclass(frozen=True)
class ColumnMap:
    """Map from transformed columns to what a form needs; made by `column_map`.

    Parameters
    ----------
    pretrained, frame
        Space of the covariance and how it maps to frame coordinates.
    blocks
        The columns of each dimension, in the host's order.
    fixed
        Pre-trained parameters that the target keeps constant, with their raw values.
    stock
        Names of the dimensions put out unit-scaled.
    """

    pretrained: ParameterSpace
    frame: Frame
    blocks: tuple[Columns, ...]
    fixed: tuple[tuple[str, float], ...]
    stock: tuple[str, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> "ColumnMap":
        """Return itself, since nothing in it can change."""
        return self

    @cached_property
    def size(self) -> int:
        """Number of columns."""
        return sum(block.size for block in self.blocks)

    @cached_property
    def _fixed_coordinates(self) -> dict[str, np.ndarray]:
        return {
            name: np.asarray(self.pretrained[name].to_coordinates(np.array([value]), self.frame))
            for name, value in self.fixed
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions, in the host's order."""
        return tuple(block.name for block in self.blocks)

    @property
    def stock_dims(self) -> int:
        """Number of unit-scaled inputs."""
        return sum(block.stock_size for block in self.blocks if block.name in self.stock)

    def check_size(self, columns: int) -> None:
        """Raise a `SpaceError` unless there are as many columns as the dimensions have."""
        if columns != self.size:
            described = ", ".join(f"{b.name} ({b.size})" if b.size > 1 else b.name for b in self.blocks)
            raise SpaceError(
                f"expected {self.size} columns, those of the dimensions {described}, got {columns}; build the "
                "regressor from the dimensions the optimiser gets"
            )

    def split(self, X: np.ndarray) -> list[np.ndarray]:
        """Return the columns of each dimension."""
        self.check_size(X.shape[1])
        return np.split(X, np.cumsum([block.size for block in self.blocks])[:-1], axis=1)

    def recognise(self, X: np.ndarray) -> Inputs:
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

    def check_normalised(self, X: np.ndarray) -> None:
        """Raise a `SpaceError` if columns (n, size) cannot have been scaled to [0, 1]."""
        misfit = self._misfit(X, "normalised")
        if misfit is not None:
            name, part = misfit
            raise SpaceError(
                f"columns of dimension {name!r} run from {part.min():g} to {part.max():g}; pass inputs='normalised' if "
                "numbers are scaled to [0, 1] by the bounds, as skopt does for Gaussian processes, or inputs='raw' if "
                "they are not, as its Optimizer does for EIps and PIps"
            )

    def _misfit(self, X: np.ndarray, inputs: Inputs) -> tuple[str, np.ndarray] | None:
        """Return the first dimension, with its columns, that cannot have been fed as `inputs` says."""
        parts = zip(self.blocks, self.split(X), strict=True)
        return next(((block.name, part) for block, part in parts if not block.holds(part, inputs)), None)

    def points(self, X: np.ndarray, inputs: Inputs) -> Points:
        """Map columns (n, size) to points; imaginary parts are carried along."""
        by_name = {block.name: (block, part) for block, part in zip(self.blocks, self.split(X), strict=True)}
        frame = []
        for name in self.pretrained.names:
            if name in self._fixed_coordinates:
                frame.append(np.tile(self._fixed_coordinates[name], (len(X), 1)))
            else:
                block, part = by_name[name]
                frame.append(block.to_frame(part, inputs))
        stock = [block.to_stock(part, inputs) for name, (block, part) in by_name.items() if name in self.stock]
        return Points(np.hstack(frame), np.hstack(stock) if stock else np.empty((len(X), 0)))

    def jacobian(self, x: np.ndarray, inputs: Inputs) -> Points:
        """Return derivatives of the coordinates of one point (size,), (size, d) and (size, k)."""
        stepped = self.points(x + 1j * STEP * np.eye(self.size), inputs)
        return Points(stepped.frame.imag / STEP, stepped.stock.imag / STEP)


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
    blocks = tuple(
        columns_of(dimension, name, space[name] if name in space.names else None, cov.frame)
        for name, dimension in named_dimensions(dimensions, names)
    )
    present = [block.name for block in blocks]
    unknown = [name for name in fixed if name not in space.names]
    if unknown:
        raise SpaceError(f"fixed parameters {unknown} are not pre-trained; the covariance has {list(space.names)}")
    both = [name for name in fixed if name in present]
    if both:
        raise SpaceError(f"parameters {both} are both fixed and dimensions; keep one")
    lacking = [name for name in space.names if name not in present and name not in fixed]
    if lacking:
        raise SpaceError(
            f"the dimensions {present} lack pre-trained parameters {lacking}; give each the constant value it has in "
            "the target, fixed={name: value}, or rename a dimension with names="
        )
    constants = tuple((name, space[name].to_raw(value)) for name, value in sorted(fixed.items()))
    stock = present if form.uses_stock else [name for name in present if name not in space.names]
    return ColumnMap(space, cov.frame, blocks, constants, tuple(stock))


def parameter_space(dimensions: Any, names: Sequence[str] | Mapping[str, str] | None = None) -> ParameterSpace:
    """Return scikit-optimize dimensions as a `ParameterSpace`, for `pretrain` on an earlier result.

    Parameters
    ----------
    dimensions, names
        As for `pretrained_regressor`. Dimensions of a single level are left out.
    """
    blocks = [columns_of(dimension, name, None, "unit") for name, dimension in named_dimensions(dimensions, names)]
    return ParameterSpace(tuple(block.parameter for block in blocks if block.parameter is not None))
