"""First experiments before a target has any data, from many points that fill the space."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int

from mkbo_plugins.core.gp.spacing import Spacing, least_distance
from mkbo_plugins.errors import KernelError, SpaceWarning
from mkbo_plugins.space.parameters import Frame
from mkbo_plugins.space.space import ParameterSpace


def starting_points(
    space: ParameterSpace, frame: Frame, n: int, seed: int, choose: Callable[..., Int[np.ndarray, " n"]] | None
) -> list[dict[str, Any]]:
    """Return n different points of a space, as names and values in raw units.

    Parameters
    ----------
    space, frame
        The space and its frame.
    n
        Number of points.
    seed
        Seed of the candidates.
    choose
        What chooses among candidates, as `Covariance.first_design`; None means the first of them, which fill the space.

    Raises
    ------
    KernelError
        If `n` is not a whole number of at least 1, or fewer different points were found.

    Warns
    -----
    SpaceWarning
        If the space has no room for so many points at the distance that `choose` is to keep.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise KernelError(f"n must be a whole number of at least 1, got {n!r}")
    raw = space.sobol(max(1024, 8 * n), seed)
    raw = raw[np.sort(np.unique(raw, axis=0, return_index=True)[1])]
    if len(raw) < n:
        raise KernelError(f"n = {n} asks for more points than the {len(raw)} different ones found; ask for fewer")
    if choose is None:
        return space.from_raw(raw[:n])
    Z, unit = (np.asarray(space.to_coordinates(raw, name)) for name in (frame, "unit"))
    spacing = Spacing(unit, unit[:0], least_distance(len(space.names)))
    picked = choose(Z, n=n, present=Z[:0], spacing=spacing)
    clearances = spacing.clearances(picked)
    if clearances.min() < spacing.least:
        warnings.warn(
            f"the space has no room for {n} points at a distance of {spacing.least:.2g} in units of ranges; the "
            f"nearest two are {clearances.min():.2g} apart. Ask for fewer, or take them as they are",
            SpaceWarning,
            stacklevel=3,
        )
    return space.from_raw(raw[picked])
