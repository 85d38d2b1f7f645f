"""Starting points that a method chooses itself, before there is any outcome."""

import numpy as np

from mkbo_plugins.core.gp.pool import nearest_candidates
from mkbo_plugins.core.gp.spacing import Spacing, least_distance
from mkbo_plugins.experiments.benchmark.lookup import Lookup


def from_table(lookup: Lookup, n: int) -> list[int]:
    """Return candidates that the table proposes where its quantity is known to rise with the outcome."""
    spacing = Spacing(lookup.unit, lookup.unit[:0], least_distance(len(lookup.problem.space.names)))
    Z = lookup.parts.pool
    return [int(i) for i in lookup.cov.first_design(Z, "same", n, present=Z[:0], spacing=spacing)]


def space_filling(lookup: Lookup, n: int, seed: int) -> list[int]:
    """Return the candidates nearest to scrambled Sobol points, as hosts begin that know no table."""
    space = lookup.problem.space
    targets = np.asarray(space.to_coordinates(space.sobol(n, seed), "unit"))
    return nearest_candidates(targets, lookup.unit)
