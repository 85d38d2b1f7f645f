"""Input transform from raw named columns to the fixed frame of a pre-trained covariance."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from botorch.models.transforms.input import InputTransform
from jaxtyping import Float
from torch import Tensor

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.space.named import NamedColumns, Stock
from mkbo_plugins.space.space import ParameterSpace


class NamedFrame(InputTransform):
    """Map raw columns, found by name, to frame coordinates followed by the host's own unit-scaled inputs.

    The frame is the artefact's and never depends on the bounds of the target. Where columns come out in another number
    than they go in, by default and with categoricals, BoTorch draws sample paths of a model built by hand only with a
    `PretrainedKernel`: its own kernels get as many features as there are raw columns. Models of `pretrained_gp` draw
    them in every form, ``"stock"`` too.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    names
        Names of the columns, in their order; None means the order of `space`.
    space
        The target's parameters: their own bounds scale the host's inputs, and parameters that the table lacks are
        described here. None means those of the covariance that are not fixed.
    fixed
        Values of pre-trained parameters that the target keeps constant, by name, in user-facing form.
    frame_columns
        Whether to put out the frame coordinates, one for each of ``cov.space.coordinate_names``.
    stock_columns
        Which parameters to put out scaled to [0, 1] by the target's bounds, with one {0, 1} column per categorical
        level: ``"all"`` of the target, only the ``"extra"`` ones that the table lacks, or ``"none"``.

    Raises
    ------
    SpaceError
        If a column is not described, a pre-trained parameter is neither a column nor fixed, or a parameter is not of
        the same kind in the table and the target.
    """

    def __init__(
        self,
        cov: Covariance,
        names: Sequence[str] | None = None,
        *,
        space: ParameterSpace | None = None,
        fixed: Mapping[str, Any] | None = None,
        frame_columns: bool = True,
        stock_columns: Stock = "all",
    ) -> None:
        super().__init__()
        self.transform_on_train = True
        self.transform_on_eval = True
        self.transform_on_fantasize = True
        self.columns = NamedColumns.of(cov.space, cov.frame, names, space, fixed, frame_columns, stock_columns)
        self.names, self.target_space = self.columns.names, self.columns.target

    @property
    def num_frame_columns(self) -> int:
        """Number of frame coordinates put out."""
        return self.columns.frame_dims

    @property
    def num_stock_columns(self) -> int:
        """Number of unit-scaled host inputs put out, behind the frame coordinates."""
        return len(self.columns.coordinates.coordinates) - self.columns.frame_dims

    def transform(self, X: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch d"]:
        """Map raw columns (..., n, number of names) to coordinates (..., n, frame + stock columns).

        Raises
        ------
        SpaceError
            If the number of columns is wrong, a log parameter is not above 0, or a level index is out of range.
        """
        return self.columns(X)

    def sample(self, n: int, like: Tensor) -> Float[Tensor, "n columns"]:
        """Return `n` space-filling raw rows of the target space, (n, number of names), as a tensor like `like`."""
        return self._rows(self.target_space.sobol(n), like)

    def ends(self, like: Tensor) -> Float[Tensor, "2 columns"]:
        """Return the row of the lower ends of all ranges and that of the upper ones, as a tensor like `like`.

        Of levels, these are the first and the last.
        """
        count = len(self.names)
        return self._rows(self.target_space.from_unit(np.array([[0.0] * count, [1.0] * count])), like)

    def _rows(self, raw: Float[np.ndarray, "n columns"], like: Tensor) -> Float[Tensor, "n columns"]:
        rows = torch.as_tensor(raw, dtype=like.dtype, device=like.device)
        return rows[:, [self.target_space.names.index(name) for name in self.names]]

    def equals(self, other: InputTransform) -> bool:
        """Return whether another transform does exactly the same."""
        return isinstance(other, NamedFrame) and self.columns == other.columns
