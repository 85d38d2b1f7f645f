"""Levels of an experiment that a table lacks."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ax.core.search_space import SearchSpace

from mkbo_plugins.ax.encoding import concerning, levels, target_names
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.target import for_levels
from mkbo_plugins.space.parameters import FurtherLevels

C = TypeVar("C", bound=Covariance)


def experiment_levels(
    cov: Covariance, target: SearchSpace, rename: Mapping[str, str], fixed: Mapping[str, Any]
) -> dict[str, FurtherLevels]:
    """Return the levels of choices and constants of an experiment by their names in a covariance.

    Parameters
    ----------
    cov
        The covariance, one of several perhaps.
    target, rename, fixed
        As for `target_names`.
    """
    own = concerning(cov.space, target, rename, fixed)
    return levels(target, target_names(cov.space, target, *own), own[1])


def for_experiment(cov: C, target: SearchSpace, rename: Mapping[str, str], fixed: Mapping[str, Any]) -> C:
    """Return a covariance that knows all levels of an experiment; arguments as for `experiment_levels`."""
    return for_levels(cov, experiment_levels(cov, target, rename, fixed))
