"""A covariance as a target needs it: with the levels that the target has and the table lacks."""

import warnings
from collections.abc import Mapping
from typing import TypeVar

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import TableWarning
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.levels import new_levels
from mkbo_plugins.space.parameters import FurtherLevels

C = TypeVar("C", bound=Covariance)


def for_levels(cov: C, levels: Mapping[str, FurtherLevels]) -> C:
    """Return a covariance that knows all levels of a target, by parameter; itself, if there are no new ones."""
    return cov.with_levels(new_levels(cov.space, levels))


def for_target(cov: C, levels: Mapping[str, FurtherLevels], *, stacklevel: int = 2) -> C:
    """Return the same, after a warning; see `warn_of_new_levels`."""
    warn_of_new_levels(cov, levels, stacklevel=stacklevel + 1)
    return for_levels(cov, levels)


def warn_of_new_levels(cov: Covariance, levels: Mapping[str, FurtherLevels], *, stacklevel: int = 2) -> None:
    """Warn of levels of a target that the table lacks, which may be known ones in another spelling.

    Parameters
    ----------
    cov
        The covariance.
    levels
        Levels of the target by parameter.
    stacklevel
        As for `warnings.warn`, 2 being the caller of this function's caller.

    Warns
    -----
    TableWarning
        For each parameter with such levels; of those with descriptors, only if a number lies beyond the range that it
        has in the table's space.
    """
    for name, new in new_levels(cov.space, levels).items():
        parameter = cov.space[name]
        if isinstance(parameter, Described):
            beyond = parameter.widened(new).beyond(tuple(new))
            if beyond is not None:
                warnings.warn(
                    f"parameter {name!r}: {beyond} in the table's space, so that what the table says of it is an "
                    "extrapolation. Is the unit the same? Else put all levels into the space before training",
                    TableWarning,
                    stacklevel=stacklevel + 1,
                )
            continue
        known = list(parameter.indexed_levels)
        hint = next((hint for level in new if (hint := did_you_mean(level, known))), "")
        warnings.warn(
            f"parameter {name!r}: the table has nothing on {list(new)}, only on {known}{hint}. What is new counts as "
            "unlike every known level, and the table predicts for it what its levels have in common",
            TableWarning,
            stacklevel=stacklevel + 1,
        )
