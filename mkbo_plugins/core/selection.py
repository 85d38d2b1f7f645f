"""Choice of C, epsilon and sigma by exact leave-one-out over a grid."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from joblib import Parallel, delayed

from mkbo_plugins.core.svr import LeaveOneOut, leave_one_out_svr
from mkbo_plugins.errors import FitError

Cell: TypeAlias = tuple[float, float, float]
"""Values of C, epsilon and sigma."""

BATCH = 8
"""Grid cells evaluated between two updates of the error above which a cell is abandoned."""


@dataclass(frozen=True)
class Selection:
    """The grid cell with the smallest leave-one-out mean squared error.

    Parameters
    ----------
    C, epsilon, sigma
        Its values.
    loo
        Its leave-one-out outcome.
    at_edge
        Names of the settings whose best value is the first or last of several tried; an epsilon of 0 does not count,
        since nothing lies beyond it.
    not_converged
        Cells left out because a solver hit its cap on iterations.
    """

    C: float
    epsilon: float
    sigma: float
    loo: LeaveOneOut
    at_edge: tuple[str, ...]
    not_converged: tuple[Cell, ...]


def select(
    gram: Callable[[float], np.ndarray],
    y: np.ndarray,
    C: Sequence[float],
    epsilon: Sequence[float],
    sigma: Sequence[float],
    *,
    sample_weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    n_jobs: int | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Selection:
    """Return the best cell of the grid; of equal ones the one with the smallest C, then epsilon, then largest sigma.

    A cell is abandoned as soon as it is certain to be worse than the best one finished, which cannot change the
    winner.

    Parameters
    ----------
    gram
        Function from sigma to the Gram matrix (N, N).
    y
        Values, (N,).
    C, epsilon, sigma
        Values to try, each in increasing order.
    sample_weight, groups
        As for `leave_one_out_svr`.
    n_jobs
        Parallel workers, as joblib understands it.
    report
        Called with the number of cells done and the number of cells.

    Raises
    ------
    FitError
        If the solver hit its cap on iterations in every cell.
    """
    grams = {value: gram(value) for value in sigma}
    cells = _middle_first(C, epsilon, sigma)
    outcomes: dict[Cell, LeaveOneOut] = {}
    best = np.inf
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        for start in range(0, len(cells), BATCH):
            batch = cells[start : start + BATCH]
            results = parallel(
                delayed(leave_one_out_svr)(
                    grams[s], y, c, e, sample_weight=sample_weight, groups=groups, abandon_above=best
                )
                for c, e, s in batch
            )
            outcomes.update(zip(batch, results, strict=True))
            best = min(best, *(r.mean_squared_error for r in results if r.converged), np.inf)
            if report is not None:
                report(len(outcomes), len(cells))
    converged = [cell for cell in cells if outcomes[cell].converged]
    if not converged:
        raise FitError(
            "the support vector solver hit its cap on iterations in every grid cell; try smaller C or larger epsilon"
        )
    winner = min(converged, key=lambda cell: (outcomes[cell].mean_squared_error, cell[0], cell[1], -cell[2]))
    chosen = dict(zip(("C", "epsilon", "sigma"), winner, strict=True))
    grid = {"C": C, "epsilon": epsilon, "sigma": sigma}
    at_edge = tuple(
        name
        for name, value in chosen.items()
        if len(grid[name]) > 1 and value in (grid[name][0], grid[name][-1]) and value > 0
    )
    not_converged = tuple(cell for cell in cells if not outcomes[cell].converged)
    return Selection(**chosen, loo=outcomes[winner], at_edge=at_edge, not_converged=not_converged)


def _middle_first(C: Sequence[float], epsilon: Sequence[float], sigma: Sequence[float]) -> list[Cell]:
    """Return all cells, those in the middle of the grid first, since they tend to set a low bar early."""

    def off_centre(cell: Cell) -> float:
        axes = zip(cell, (C, epsilon, sigma), strict=True)
        return sum(abs((list(axis).index(value) + 0.5) / len(axis) - 0.5) for value, axis in axes)

    return sorted(itertools.product(C, epsilon, sigma), key=lambda cell: (off_centre(cell), cell))
