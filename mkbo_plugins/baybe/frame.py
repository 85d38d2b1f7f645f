"""Input transform from what BaYBE shows its kernels to the frame of a pre-trained covariance."""

from collections.abc import Mapping
from typing import Any

import torch
from baybe.searchspace import SearchSpace
from botorch.models.transforms.input import InputTransform
from jaxtyping import Float
from torch import Tensor

from mkbo_plugins.baybe.inputs import bounds_of_inputs, reader
from mkbo_plugins.baybe.searchspace import target_space
from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.covariance.base import Covariance

MOST_CANDIDATES = 1000
"""Discrete candidates kept, of which points spread over the search space are made."""


class SearchSpaceFrame(NamedFrame):
    """Map inputs of BaYBE's Gaussian process to frame coordinates, followed by these inputs.

    BaYBE has scaled them to [0, 1] by the bounds of the search space and by the values of discrete parameters. That is
    undone, so that the frame is the artefact's; the inputs are what the stock covariance sees, as BaYBE's own does.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    searchspace
        The search space of the campaign.
    fixed
        Values of pre-trained parameters that the search space lacks, by name.

    Raises
    ------
    SpaceError
        If the search space lacks a pre-trained parameter that is not fixed, or has one of another kind.
    """

    def __init__(self, cov: Covariance, searchspace: SearchSpace, fixed: Mapping[str, Any]) -> None:
        super().__init__(cov, space=target_space(cov.space, searchspace), fixed=fixed, stock_columns="none")
        shown = {p.name: p for p in searchspace.parameters}
        self.readers = tuple(reader(shown[name], self.target_space[name], searchspace) for name in self.names)
        self.bounds = tuple(map(tuple, bounds_of_inputs(searchspace).T.tolist()))
        candidates = searchspace.discrete.comp_rep.to_numpy(dtype=float)
        self._candidates = torch.tensor(candidates[:: 1 + len(candidates) // MOST_CANDIDATES])

    @property
    def num_stock_columns(self) -> int:
        """Number of columns behind the frame coordinates: all inputs."""
        return len(self.bounds)

    def transform(self, X: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch k"]:
        """Map inputs (..., n, d) to frame coordinates and the inputs themselves, (..., n, frame + d).

        Raises
        ------
        SpaceError
            If a parameter is on a log scale and not above 0, or takes none of its levels.
        """
        return torch.cat([super().transform(self.raw(X)), X], dim=-1)

    def raw(self, X: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch columns"]:
        """Return raw columns, those of `names`, of inputs (..., n, d)."""
        return torch.stack([part.raw(X) for part in self.readers], dim=-1)

    def sample(self, n: int, like: Tensor) -> Float[Tensor, "n d"]:
        """Return `n` inputs spread over the search space, (n, d), as a tensor like `like`."""
        unit = torch.quasirandom.SobolEngine(self.num_stock_columns, scramble=True, seed=0).draw(n, dtype=torch.double)
        count = self._candidates.shape[-1]
        if count:
            low, high = torch.tensor(self.bounds[:count], dtype=torch.double).T
            rows = torch.arange(n) * len(self._candidates) // n
            unit[:, :count] = (self._candidates[rows] - low) / (high - low)
        return unit.to(dtype=like.dtype, device=like.device)

    def ends(self, like: Tensor) -> Float[Tensor, "2 d"]:
        """Return the row of the lower ends of all inputs and that of the upper ones, as a tensor like `like`."""
        return torch.stack([like.new_zeros(self.num_stock_columns), like.new_ones(self.num_stock_columns)])

    def equals(self, other: InputTransform) -> bool:
        """Return whether another transform does exactly the same."""
        same = isinstance(other, SearchSpaceFrame) and (self.readers, self.bounds) == (other.readers, other.bounds)
        return same and super().equals(other)
