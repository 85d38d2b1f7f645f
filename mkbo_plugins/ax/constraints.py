"""Whether an experiment of Ax keeps the constraints of a table's space."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from ax.core.parameter import RangeParameter
from ax.core.search_space import SearchSpace

from mkbo_plugins.ax.encoding import encodings, source, target_names
from mkbo_plugins.core.region.polytope import Polytope
from mkbo_plugins.space.constraints import coefficient_rows
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.constraints import warn_of_lost

REMEDY = (
    "add it as parameter_constraints of the experiment; for a sum that is constant, make one part a derived parameter "
    "of the others, and say by a parameter constraint that it stays within its bounds"
)


def warn_of_lost_in_experiment(
    space: ParameterSpace, target: SearchSpace, rename: Mapping[str, str], fixed: Mapping[str, Any], *, stacklevel: int
) -> None:
    """Warn of constraints of a table's space that an experiment does not keep, whatever they are written as there.

    Parameters
    ----------
    space, target, rename, fixed
        As for `mkbo_plugins.ax.encoding.target_names`.
    stacklevel
        As for `warnings.warn`, 2 being the caller of this function's caller.
    """
    if not space.constraints:
        return
    found = encodings(space, target, target_names(space, target, rename, fixed), fixed)
    ranges = [p for p in target.parameters.values() if isinstance(p, RangeParameter)]
    names = [p.name for p in ranges]
    # A constraint may name choices of numbers too, which are none of the columns here.
    rows = [c for c in target.parameter_constraints if set(c.constraint_dict) <= set(names)]
    region = Polytope(
        np.array([p.lower for p in ranges], dtype=float),
        np.array([p.upper for p in ranges], dtype=float),
        coefficient_rows([c.constraint_dict for c in rows], names),
        np.full(len(rows), -np.inf),
        np.array([c.bound for c in rows], dtype=float),
        np.zeros(len(names), dtype=bool),
    )
    sources = {name: source(encoding, space[name]) for name, encoding in found.items()}
    warn_of_lost(space, sources, names, region, "the experiment", REMEDY, stacklevel=stacklevel + 1)
