"""What BaYBE's models see of a parameter, read back as its values."""

from dataclasses import dataclass

import numpy as np
from baybe.parameters.base import DiscreteParameter
from baybe.parameters.base import Parameter as BaybeParameter
from baybe.searchspace import SearchSpace
from jaxtyping import Float
from torch import Tensor

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.parameters import Parameter

NEAR = 1e-6
"""Distance of inputs from those of a level, in units of the search space's range, up to which they are that level."""


@dataclass(frozen=True)
class Number:
    """A parameter that is one input, scaled to [0, 1] between two numbers."""

    index: int
    lower: float
    upper: float

    def raw(self, X: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
        """Return its values at inputs (..., d)."""
        return self.lower + (self.upper - self.lower) * X[..., self.index]


@dataclass(frozen=True)
class Label:
    """A parameter whose levels are rows of numbers in some inputs.

    Parameters
    ----------
    name
        Its name.
    index
        The inputs.
    rows
        What they are for each level.
    numbers
        The raw number of each level.
    """

    name: str
    index: tuple[int, ...]
    rows: tuple[tuple[float, ...], ...]
    numbers: tuple[float, ...]

    def raw(self, X: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
        """Return the raw numbers of its levels at inputs (..., d).

        Raises
        ------
        SpaceError
            If inputs are those of no level.
        """
        inputs = X[..., list(self.index)].detach().unsqueeze(-2)
        least, which = (inputs - inputs.new_tensor(self.rows)).abs().amax(dim=-1).min(dim=-1)
        if bool((least > NEAR).any()):
            raise SpaceError(
                f"parameter {self.name!r}: BaYBE asks for a covariance between levels, where there is none; use a "
                "recommender that takes discrete parameters as they are, such as BotorchRecommender"
            )
        return X.new_tensor(self.numbers)[which]


def bounds_of_inputs(searchspace: SearchSpace) -> Float[np.ndarray, "2 d"]:
    """Return between which numbers BaYBE scales each input of its models.

    Raises
    ------
    SpaceError
        If it does not say so of the same columns in the same order.
    """
    scaled, seen = searchspace.scaling_bounds, list(searchspace.comp_rep_columns)
    if list(scaled.columns) != seen:
        raise SpaceError(
            f"BaYBE scales the columns {list(scaled.columns)}, but its models see {seen}; this version of BaYBE is not "
            "supported, or the search space was made with empty_encoding=True"
        )
    return scaled.to_numpy(dtype=float)


def reader(shown: BaybeParameter, target: Parameter, searchspace: SearchSpace) -> Number | Label:
    """Return what reads a parameter from BaYBE's inputs.

    Raises
    ------
    SpaceError
        If two of its levels look alike to BaYBE's models, or one is none that the table's parameter can take.
    """
    columns, bounds = list(searchspace.comp_rep_columns), bounds_of_inputs(searchspace)
    if shown.is_numerical or not isinstance(shown, DiscreteParameter):
        index = columns.index(shown.name)
        return Number(index, *bounds[:, index].tolist())
    encoded = shown.comp_df.loc[list(shown.values)]
    inputs = tuple(columns.index(label) for label in encoded.columns)
    low, high = bounds[:, list(inputs)]
    rows = (encoded.to_numpy(dtype=float) - low) / (high - low)
    apart = np.abs(rows[:, None] - rows).max(axis=-1) + np.eye(len(rows))
    if apart.min() <= 2 * NEAR:
        alike = [shown.values[k] for k in np.unravel_index(apart.argmin(), apart.shape)]
        raise SpaceError(f"parameter {shown.name!r}: BaYBE encodes {alike} alike; leave one out, or encode it one-hot")
    numbers = tuple(float(target.to_raw(value)) for value in shown.values)
    return Label(shown.name, inputs, tuple(map(tuple, rows.tolist())), numbers)
