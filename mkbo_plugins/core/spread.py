"""The scale of outcomes that double precision can hold with its squares."""

import numpy as np
from jaxtyping import Float

from mkbo_plugins.errors import TableError

SPREAD_LIMITS = (1e-100, 1e100)
"""Least and greatest spread of outcomes: squares of it and of its dual coefficients are safe in double precision."""


def check_spread(y: Float[np.ndarray, " N"], what: str) -> None:
    """Raise a `TableError` unless outcomes, (N,), called `what`, are all equal or differ on a scale that can be used.

    Raises
    ------
    TableError
        If the greatest and the least differ by less or more than `SPREAD_LIMITS`.
    """
    if not len(y) or not np.isfinite(y).all():  # which hosts refuse
        return
    with np.errstate(over="ignore"):
        spread = float(np.ptp(y))
    if spread and not SPREAD_LIMITS[0] <= spread <= SPREAD_LIMITS[1]:
        raise TableError(f"{what} spreads over {spread:g}, too much or too little; use other units")
