"""Input transform from the columns of Ax's models to the frame of a pre-trained covariance."""

from collections.abc import Mapping, Sequence

import torch
from botorch.models.transforms.input import InputTransform, Normalize
from torch import Tensor

from mkbo_plugins.ax.encoding import Encoding, column_names, source
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.mapping import CoordinateMap

_TO_RAW = {"linear": lambda x: x, "log10": lambda x: 10**x, "logit": torch.sigmoid}


class PretrainedInputs(InputTransform):
    """Map Ax's columns, found by name, to frame coordinates, then inputs of the stock covariance in [0, 1].

    These are descriptors of levels, and other columns as Ax scales them. The frame coordinates are the artefact's and
    never depend on the bounds of the experiment or of its data.

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
    described
        Names of parameters whose descriptors are put out scaled to [0, 1].

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
        described: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.transform_on_train = True
        self.transform_on_eval = True
        self.transform_on_fantasize = True
        self.cov = cov
        self.names = tuple(names)
        self.encodings = dict(encodings)
        needed = {name for encoding in encodings.values() for name in column_names(encoding)}
        missing = sorted(needed - set(names))
        if missing:
            raise SpaceError(
                f"columns {missing}, which the pre-trained covariance needs, are not among Ax's {list(names)}; use "
                "Ax's transforms MBM_X_trans, and call use_pretrained again if the search space has changed"
            )
        self._reads = [
            (self.encodings[p.name], [self.names.index(name) for name in column_names(self.encodings[p.name])])
            for p in cov.space.parameters
        ]
        parts = {p.name: (source(encodings[p.name], p), p) for p in cov.space.parameters}
        self._map = CoordinateMap.of(
            [label for part, _ in parts.values() for label in part.columns],
            [*((*part, cov.frame) for part in parts.values()), *((*parts[name], "unit") for name in described)],
        )
        self.described = tuple(described)
        self._stock_index = [self.names.index(name) for name in stock_columns]
        self._scaling = Normalize(d=len(stock_columns), bounds=bounds[:, self._stock_index]) if stock_columns else None

    def transform(self, X: Tensor) -> Tensor:
        """Map Ax's columns (..., n, d) to coordinates (..., n, frame + descriptors + stock columns)."""
        mapped = self._map(torch.cat([_values(X[..., index], encoding) for encoding, index in self._reads], dim=-1))
        if self._scaling is None:
            return mapped
        return torch.cat([mapped, self._scaling.transform(X[..., self._stock_index])], dim=-1)

    def equals(self, other: InputTransform) -> bool:
        """Return whether another transform does exactly the same."""
        return isinstance(other, PretrainedInputs) and self._key() == other._key()

    def _key(self) -> tuple[object, ...]:
        bounds = None if self._scaling is None else self._scaling.bounds.tolist()
        return (self.cov.fingerprint, self.encodings, self.names, self._stock_index, self.described, bounds)


def _values(X: Tensor, encoding: Encoding) -> Tensor:
    """Map the columns of an encoding, (..., number of columns), to raw numbers or weights of levels."""
    if encoding.get("terms"):
        return torch.stack([_TO_RAW[scale](X[..., j]) for j, (_, scale, _) in enumerate(encoding["terms"])], dim=-1)
    if not encoding.get("knots"):
        return X
    knots = torch.tensor(encoding["knots"], dtype=X.dtype, device=X.device)
    upper = torch.searchsorted(knots, X[..., 0].detach().contiguous()).clamp(1, len(knots) - 1)
    share = ((X[..., 0] - knots[upper - 1]) / (knots[upper] - knots[upper - 1])).clamp(0, 1)[..., None]
    corners = torch.eye(len(knots), dtype=X.dtype, device=X.device)
    return (1 - share) * corners[upper - 1] + share * corners[upper]
