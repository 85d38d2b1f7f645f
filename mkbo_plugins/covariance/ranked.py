"""The way back from the normal scores that a machine was trained on to values of the target."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.covariance.content import Reader
from mkbo_plugins.covariance.limits import SUPPORT, VALUE
from mkbo_plugins.errors import ArtefactError

KNOTS = 201
"""Quantiles of a long table's target that are kept."""


@dataclass(frozen=True)
class RankedTarget:
    """A target by the ranks of its values: values, and the normal score of each.

    Parameters
    ----------
    scores, values
        Both rising, two or more of each; between them, values are interpolated, and beyond continued as between the
        last two.
    """

    scores: tuple[float, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, scores: Float[np.ndarray, " N"], values: Float[np.ndarray, " N"]) -> "RankedTarget":
        """Return the scores and values of a table's rows, of many different ones some that are spread evenly."""
        y, first = np.unique(values, return_index=True)
        kept = np.unique(np.linspace(0, len(y) - 1, min(len(y), KNOTS)).round().astype(int))
        s, v = scores[first][kept], y[kept]
        rising = np.append(True, np.diff(s) > 0)  # rows of hardly any weight may have the same score
        return cls(tuple(s[rising].tolist()), tuple(v[rising].tolist()))

    @cached_property
    def _line(self) -> Any:
        from scipy.interpolate import make_interp_spline

        return make_interp_spline(self.scores, self.values, k=1)

    def value_of(self, scores: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the values with these scores, (n,)."""
        return np.asarray(self._line(scores), dtype=float)

    def to_content(self) -> dict[str, Any]:
        """Return its saved form."""
        return {"scores": list(self.scores), "values": list(self.values)}

    @classmethod
    def from_content(cls, content: Reader) -> "RankedTarget":
        """Return what was saved as `content`; raises `ArtefactError` where it is none."""
        scores, values = (content.numbers(name, VALUE, SUPPORT) for name in ("scores", "values"))
        if len(scores) != len(values) or len(scores) < 2 or min(np.diff(scores).min(), np.diff(values).min()) <= 0:
            raise ArtefactError(
                f"{content.path}'scores' and 'values' must be as many numbers each, two or more, rising"
            )
        return cls(tuple(scores), tuple(values))
