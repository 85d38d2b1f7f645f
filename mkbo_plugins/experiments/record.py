"""What a campaign leaves behind."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Campaign:
    """What was tried, in order, and what came out.

    Parameters
    ----------
    indices
        Candidates tried, the starting points first.
    values
        Their outcomes.
    """

    indices: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def best_so_far(self) -> np.ndarray:
        """Largest outcome up to each trial, (number of trials,)."""
        return np.maximum.accumulate(self.values)

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Return the campaign whose fields JSON holds."""
        kinds = {"indices": int}
        return cls(
            **{f.name: tuple(_frozen(item, kinds.get(f.name, float)) for item in stored[f.name]) for f in fields(cls)}
        )


def _frozen(item: Any, kind: type) -> Any:
    return tuple(_frozen(inner, kind) for inner in item) if isinstance(item, list) else kind(item)
