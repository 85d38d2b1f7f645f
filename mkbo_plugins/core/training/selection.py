"""Choice of C, epsilon and sigma by exact leave-one-out over a grid."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Shaped
from joblib import Parallel, delayed

from mkbo_plugins.core.training.svr import LeaveOneOut, MachineFit, estimate_leave_one_out, fit_machine, leave_one_out
from mkbo_plugins.errors import FitError

Cell: TypeAlias = tuple[float, float, float]
"""Values of C, epsilon and sigma."""

BATCH = 8
"""Grid cells evaluated between two updates of the error above which a cell is abandoned."""


@dataclass(frozen=True)
class Selection:
    """The grid cell with the smallest leave-one-out error.

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
    gram: Callable[[float], Float[np.ndarray, "N N"]],
    y: Float[np.ndarray, " N"],
    C: Sequence[float],
    epsilon: Sequence[float],
    sigma: Sequence[float],
    *,
    sample_weight: Float[np.ndarray, " N"] | None = None,
    groups: Shaped[np.ndarray, " N"] | None = None,
    labels: bool = False,
    n_jobs: int | None = None,
    report: Callable[[int, int], None] | None = None,
    known: Mapping[Cell, LeaveOneOut] | None = None,
    keep: Callable[[Mapping[Cell, LeaveOneOut]], None] | None = None,
) -> Selection:
    """Return the best cell of the grid; of equal ones the one with the smallest C, then epsilon, then largest sigma.

    One fit on all rows estimates the error of each cell. The exact search then goes through the cells by that estimate
    and abandons one as soon as it is certain to be worse than the best one finished; so the estimate decides how long
    the search takes, not which cell wins.

    Parameters
    ----------
    gram
        Function from sigma to the Gram matrix (N, N).
    y
        Values, (N,).
    C, epsilon, sigma
        Values to try, each in increasing order.
    sample_weight, groups, labels
        As for `leave_one_out`.
    n_jobs
        Parallel workers, as joblib understands it.
    report
        Called with the number of cells done and the number of cells.
    known
        Outcomes of an earlier search that was interrupted.
    keep
        Called with all outcomes so far whenever there are new ones.

    Raises
    ------
    FitError
        If the solver hit its cap on iterations in every cell.
    """
    grams = {value: gram(value) for value in sigma}
    cells = list(itertools.product(C, epsilon, sigma))
    outcomes = {cell: loo for cell, loo in (known or {}).items() if cell in cells}

    def settle(results: Mapping[Cell, LeaveOneOut]) -> float:
        """Take in outcomes and return the error to beat."""
        outcomes.update(results)
        if report is not None:
            report(len(outcomes), len(cells))
        if keep is not None and results:
            keep(outcomes)
        return min((loo.error for loo in outcomes.values() if loo.converged), default=np.inf)

    settle({})
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        open_cells = [cell for cell in cells if cell not in outcomes]
        fits = parallel(delayed(_prospect)(grams[s], y, c, e, sample_weight, labels) for c, e, s in open_cells)
        prospects = dict(zip(open_cells, fits, strict=True))
        early = [cell for cell in open_cells if not prospects[cell].whole.converged]
        best = settle(dict.fromkeys(early, LeaveOneOut(np.inf, np.full(len(y), np.nan), converged=False)))
        ranked = sorted(prospects.keys() - outcomes.keys(), key=lambda cell: (prospects[cell].error, cell))
        # The first cell alone sets the bar for all others.
        for batch in (ranked[:1], *(ranked[i : i + BATCH] for i in range(1, len(ranked), BATCH))):
            results = parallel(
                delayed(leave_one_out)(
                    grams[s],
                    y,
                    c,
                    e,
                    sample_weight=sample_weight,
                    groups=groups,
                    labels=labels,
                    abandon_above=best,
                    whole=prospects[c, e, s].whole,
                )
                for c, e, s in batch
            )
            best = settle(dict(zip(batch, results, strict=True)))
    converged = [cell for cell in cells if outcomes[cell].converged]
    if not converged:
        raise FitError(
            "the support vector solver hit its cap on iterations in every grid cell; try smaller C or larger epsilon"
        )
    winner = min(converged, key=lambda cell: (outcomes[cell].error, cell[0], cell[1], -cell[2]))
    chosen = dict(zip(("C", "epsilon", "sigma"), winner, strict=True))
    grid = {"C": C, "epsilon": epsilon, "sigma": sigma}
    at_edge = tuple(
        name
        for name, value in chosen.items()
        if len(grid[name]) > 1 and value in (grid[name][0], grid[name][-1]) and value > 0
    )
    not_converged = tuple(cell for cell in cells if not outcomes[cell].converged)
    return Selection(**chosen, loo=outcomes[winner], at_edge=at_edge, not_converged=not_converged)


class _Prospect(NamedTuple):
    """The fit of a cell on all rows, and the leave-one-out error it lets expect."""

    whole: MachineFit
    error: float


def _prospect(
    gram: Float[np.ndarray, "N N"],
    y: Float[np.ndarray, " N"],
    C: float,
    epsilon: float,
    sample_weight: Float[np.ndarray, " N"] | None,
    labels: bool,
) -> _Prospect:
    whole = fit_machine(gram, y, C, epsilon, sample_weight, tolerance=1e-4, labels=labels)
    return _Prospect(whole, estimate_leave_one_out(gram, y, C, epsilon, whole, sample_weight, labels=labels))
