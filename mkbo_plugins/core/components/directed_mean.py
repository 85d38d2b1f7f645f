"""The mean of a process whose outcome is known to rise, or to fall, with what tables predict."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.components.protocols import FixedComponents
from mkbo_plugins.core.forms import of_table

HALF = 0.5
"""Share of the standardised decision function in the mean of a standardised outcome, where the sign is known."""


@dataclass(frozen=True)
class DirectedMean:
    """The function share / N * sum_i s_i g_i(x), over the N tables whose sign s_i is known.

    The half that tables are given is split among them, so that the mean does not grow with their number.

    Parameters
    ----------
    fixed
        The fixed parts, with the standardised decision function g_i of each table.
    signs
        For each table 1 or -1, or 0 where unknown; at least one is known.
    share
        What multiplies the mean of the signed decision functions.
    """

    fixed: FixedComponents
    signs: tuple[float, ...]
    share: float = HALF

    def __deepcopy__(self, memo: dict[int, Any]) -> "DirectedMean":
        """Return itself, since nothing in it can change."""
        return self

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """Sign of each table whose sign is known, by the name of its decision function among the fixed parts."""
        tables = self.fixed.tables
        return {of_table("decision", i, tables): sign for i, sign in enumerate(self.signs) if sign}

    def combined(self, decisions: Mapping[str, Float[Array, "..."]]) -> Float[Array, "..."]:
        """Return the mean where tables' standardised decision functions are as given by name; linear in them."""
        return self.share * (sum(sign * decisions[name] for name, sign in self.weights.items()) / len(self.weights))

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the mean at points in frame coordinates (n, d), (n,)."""
        parts = self.fixed.components(self.weights, X, elementwise=True)
        return self.combined({name: part.value for name, part in parts.items()})

    def gradient(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return the gradient of the mean at points (n, d), of their shape."""
        parts = self.fixed.components(self.weights, X, elementwise=True)
        # Both points of a pair are one.
        return self.combined({name: sum(part.vjp(np.ones(len(X)))) for name, part in parts.items()})
