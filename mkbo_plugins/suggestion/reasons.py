"""Why points are worth trying: the first ones by the tables, later ones by what a model expects of them."""

from collections.abc import Iterator, Sequence

import numpy as np

from mkbo_plugins.core.gp.feasibility import is_discredited
from mkbo_plugins.core.gp.spacing import Spacing, scattered_design
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.suggestion.advice import Reason, Suggestion
from mkbo_plugins.suggestion.candidates import FiniteCandidates, SpaceCandidates
from mkbo_plugins.suggestion.forecast import TableForecast
from mkbo_plugins.tables.trials import Trials

HOPELESS = 0.005
"""Chance below which an experiment is not likely to beat the best so far."""

GOOD = 0.75
"""Share of the candidates that a point must be better than by the table to be called good."""


def first_points(
    tables: TableForecast,
    pool: FiniteCandidates | SpaceCandidates,
    trials: Trials,
    n: int,
    direction: Directions,
    initial: int,
) -> Iterator[Suggestion]:
    """Yield points far from one another and from those tried, good ones first where the table's direction is known.

    There is no model before `initial` outcomes. Where most experiments fail, they scatter, whatever the table says.
    """
    indices, raw = pool.untried(trials.tried, n)
    cov, Z = tables.cov, tables.columns(raw)
    spacing = Spacing(tables.unit(raw), tables.unit(trials.tried), tables.least_distance)
    scatter = is_discredited(len(trials.failed), len(trials.y))
    merit = cov.merit(Z, "unknown" if scatter else direction)
    if scatter:
        picked = scattered_design(spacing, n, len(trials.failed))
    else:
        present = tables.columns(np.concatenate([trials.X, trials.pending]))
        failed = tables.columns(trials.failed)
        picked = cov.first_design(Z, direction, n, present=present, failed=failed, spacing=spacing)
    good = merit > np.quantile(merit, GOOD)
    lacking = (
        f"a model needs {initial} outcomes"
        if len(trials.y) < initial
        else "all outcomes so far are equal, so that no model can learn from them yet"
    )
    if not any(cov.signs(direction)):
        lacking = f"{lacking}, and the table does not choose while its direction is unknown"
    if scatter:
        lacking = f"not chosen by the table, after {len(trials.failed)} failures; {lacking}"
    for i, clearance in zip(picked, spacing.clearances(picked), strict=True):
        why = f"{_place(clearance, spacing.least)}{' and good by the table' if good[i] else ''}: {lacking}"
        yield tables.suggestion(pool, int(indices[i]), raw[i : i + 1], Reason.START, why)


def _place(clearance: float, least: float) -> str:
    """Return in words how far a point is from all others."""
    if clearance >= least:
        return "far from other points" if np.isfinite(clearance) else "a first point"
    if clearance > 0:
        return f"as far from other points as there is room for, {clearance:.2g} in units of ranges"
    return "equal to another point, as it is listed again"


def promise(reason: Reason, chance: float, best: float) -> str:
    """Return in words what a model expects of a point, with the chance that it is better than the best outcome."""
    if chance < HOPELESS:
        return f"nothing left that is likely to beat the best so far, {best:.4g}; you may stop"
    if reason == Reason.EXPLOIT:
        return f"predicted to be better than the best so far, {best:.4g}"
    return f"uncertain enough for a chance of {chance:.0%} to be better than {best:.4g}"


def meeting(chances: Sequence[float]) -> str:
    """Return in words why a point is worth trying before any experiment has met all requirements."""
    shown = " and ".join(f"{chance:.0%}" for chance in chances)
    return f"no experiment so far meets all requirements; a chance of {shown} to do so here"
