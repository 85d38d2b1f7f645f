"""Input transform from the columns of Ax's models to the frame of a pre-trained covariance."""

from collections.abc import Mapping, Sequence

import torch
from botorch.models.transforms.input import InputTransform, Normalize
from torch import Tensor

from mkbo_plugins.ax.encoding import Encoding
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import SpaceError


class PretrainedInputs(InputTransform):
    """Map Ax's columns, found by name, to frame coordinates followed by columns scaled to [0, 1] as Ax scales them.

    The frame coordinates are the artefact's and never depend on the bounds of the experiment or of its data.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    encodings
        What stands for each of its parameters, by name.
    names
        Names of the columns, in their order.
    bounds
        Bounds of the columns, (2, d).
    stock_columns
        Names of the columns to put out scaled to [0, 1].

    Raises
    ------
    SpaceError
        If a column is missing.
    """

    def __init__(
        self,
        cov: Covariance,
        encodings: Mapping[str, Encoding],
        names: Sequence[str],
        bounds: Tensor,
        stock_columns: Sequence[str],
    ) -> None:
        super().__init__()
        self.transform_on_train = True
        self.transform_on_eval = True
        self.transform_on_fantasize = True
        self.cov = cov
        self.names = tuple(names)
        self.encodings = dict(encodings)
        needed = {column for encoding in encodings.values() for column in encoding.columns}
        missing = sorted(needed - set(names))
        if missing:
            raise SpaceError(
                f"columns {missing}, which the pre-trained covariance needs, are not among Ax's {list(names)}; use "
                "Ax's transforms MBM_X_trans, and call use_pretrained again if the search space has changed"
            )
        self._index = {
            name: [self.names.index(column) for column in encoding.columns] for name, encoding in encodings.items()
        }
        self._stock_index = [self.names.index(name) for name in stock_columns]
        self._scaling = Normalize(d=len(stock_columns), bounds=bounds[:, self._stock_index]) if stock_columns else None

    def transform(self, X: Tensor) -> Tensor:
        """Map Ax's columns (..., n, d) to coordinates (..., n, frame + stock columns)."""
        blocks = []
        for parameter in self.cov.space.parameters:
            columns = X[..., self._index[parameter.name]]
            blocks.append(self.encodings[parameter.name].to_coordinates(columns, parameter, self.cov.frame))
        if self._scaling is not None:
            blocks.append(self._scaling.transform(X[..., self._stock_index]))
        return torch.cat(blocks, dim=-1)

    def equals(self, other: InputTransform) -> bool:
        """Return whether another transform does exactly the same."""
        return isinstance(other, PretrainedInputs) and self._key() == other._key()

    def _key(self) -> tuple[object, ...]:
        bounds = None if self._scaling is None else self._scaling.bounds.tolist()
        return (self.cov.fingerprint, self.encodings, self.names, self._stock_index, bounds)
