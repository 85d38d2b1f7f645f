"""Plots of campaigns: how fast the outcome improves, and what it says about the table."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Num
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.bayes_factor import AGAINST_TABLE, FEWEST, FOR_TABLE, STOCK, Verdict
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import TableError
from mkbo_plugins.plots.style import STYLES, finish, literal, panel, shorten
from mkbo_plugins.report.bootstrap import bootstrap_interval

SHOWN_CAMPAIGNS = 12
"""Earlier campaigns that are drawn, of many."""

LONGEST_NAME = 30
"""Characters of a campaign's name that are drawn."""


def convergence(
    curves: Mapping[str, Num[np.ndarray, "runs trials"]],
    ylabel: str,
    *,
    ax: Any = None,
    log: bool = False,
    start: int = 1,
) -> Any:
    """Plot mean outcome over trials with a 95 % interval of the mean, by resampling runs.

    Parameters
    ----------
    curves
        Best outcome so far by model name, each (runs, trials).
    ylabel
        Name and unit of the outcome.
    ax
        Axes to draw on; None makes a figure.
    log
        Draw the outcome on a logarithmic scale.
    start
        Number of the first trial.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.
    """
    ax = panel(ax)
    for (name, values), (colour, line, marker) in zip(curves.items(), cycle(STYLES), strict=False):
        data = np.asarray(values)
        trials = np.arange(start, start + data.shape[1])
        ax.fill_between(trials, *bootstrap_interval(data), color=colour, alpha=0.15, linewidth=0)
        ax.plot(trials, data.mean(axis=0), color=colour, linestyle=line, marker=marker, markersize=4, label=name)
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.legend(frameon=False)
    return finish(ax, "trial", ylabel)


def evidence_over_trials(cov: Covariance, X: Any, y: Any, *, form: str = DEFAULT_FORM, ax: Any = None) -> Any:
    """Plot the odds that the outcomes up to each trial give models with the table over the stock model.

    A second line has the odds of the form in use.

    Parameters
    ----------
    cov
        The covariance.
    X, y
        Points tried, in order, and their outcomes, as for `Covariance.verdict`.
    form
        Name of the form in use; none is drawn for the stock model.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on; odds are in powers of ten, and the band is where they decide nothing.

    Raises
    ------
    MkboError
        If there are fewer than three outcomes, or others do not fit `Covariance.verdict`.
    """
    raw, values = cov.space.to_raw(X), np.asarray(y, dtype=float)
    counts = [n for n in range(FEWEST, len(raw) + 1) if np.ptp(values[:n]) > 0]
    if not counts:
        raise TableError(f"evidence needs at least {FEWEST} outcomes that are not all equal, got {len(raw)}")
    return verdict_odds([cov.verdict(raw[:n], values[:n], form) for n in counts], ax=ax)


def verdict_odds(verdicts: Sequence[Verdict], *, ax: Any = None) -> Any:
    """Plot the odds of verdicts on the table, one at least, over the outcomes that they rest on.

    Axes, lines and band are those of `evidence_over_trials`.

    Parameters
    ----------
    verdicts
        The verdicts, all of the same form in use.
    ax
        Axes to draw on; None makes a figure.
    """
    lines = {"with the table": [each.log_ratio for each in verdicts]}
    form = verdicts[0].form
    if form != STOCK:
        lines[f"form {form!r}"] = [each.form_log_ratio for each in verdicts]
    counts = [each.values for each in verdicts]
    ax = panel(ax)
    ax.axhspan(AGAINST_TABLE / np.log(10), FOR_TABLE / np.log(10), color="0.9", linewidth=0, label="undecided")
    ax.axhline(0, color="0.5", linewidth=0.8)
    for (label, ratios), (colour, line, marker) in zip(lines.items(), STYLES[1:], strict=False):
        odds = np.divide(ratios, np.log(10))
        ax.plot(counts, odds, color=colour, linestyle=line, marker=marker, markersize=4, label=label)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True)
    ax.yaxis.set_major_formatter(lambda exponent, _: f"$10^{{{exponent:g}}}$")
    ax.legend(frameon=False)
    return finish(ax, "trial", "odds for the table")


def best_so_far(
    y: Float[np.ndarray, " n"],
    ylabel: str,
    *,
    minimise: bool = False,
    allowed: Bool[np.ndarray, " n"] | None = None,
    ax: Any = None,
) -> Any:
    """Plot the outcomes of a campaign in the order of its trials, and the best one up to each.

    Parameters
    ----------
    y
        Outcomes, (n,).
    ylabel
        Name and unit of the outcome.
    minimise
        Whether small outcomes are good.
    allowed
        Which outcomes, (n,), count as best: those that meet all requirements; None means all.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on; outcomes that do not count are crosses.
    """
    counts = np.ones(len(y), dtype=bool) if allowed is None else allowed
    best = (np.fmin if minimise else np.fmax).accumulate(np.where(counts, y, np.nan))
    trials = np.arange(1, len(y) + 1)
    ax = panel(ax, 6.0, 3.2)
    (colour, line, _), (other, _, marker) = STYLES[:2]
    ax.plot(trials[counts], y[counts], marker, color=other, markersize=5, label="outcome")
    if not counts.all():
        ax.plot(trials[~counts], y[~counts], "x", color=STYLES[2][0], markersize=6, label="requirement not met")
    ax.step(trials, best, where="post", color=colour, linestyle=line, linewidth=1.2, label="best so far")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False)
    return finish(ax, "trial", ylabel)


def outcomes_by_prediction(
    predicted: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], xlabel: str, ylabel: str, *, ax: Any = None
) -> Any:
    """Plot the outcomes of a campaign over what was predicted of them.

    Parameters
    ----------
    predicted, y
        Predictions and outcomes, (n,).
    xlabel, ylabel
        What they are.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.
    """
    ax = panel(ax, 4.4, 3.4)
    colour, _, marker = STYLES[1]
    ax.plot(predicted, y, marker, color=colour, markersize=5, alpha=0.7, markeredgewidth=0)
    return finish(ax, xlabel, ylabel)


def resemblance(most_like: Sequence[tuple[str, float]], *, ax: Any = None) -> Any:
    """Plot how well the predictions of earlier campaigns rank the outcomes of a new one, the best twelve of many.

    Parameters
    ----------
    most_like
        Names of campaigns with rank correlations, best first, as `PretrainedCovariance.most_like` gives them.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on; bars to the left are of campaigns in which good and bad are exchanged.

    Raises
    ------
    TableError
        If there is no campaign.
    """
    if not most_like:
        raise TableError("there is no campaign to draw; pass what PretrainedCovariance.most_like gives")
    shown = most_like[:SHOWN_CAMPAIGNS]
    heights, values = np.arange(len(shown))[::-1], [value for _, value in shown]
    ax = panel(ax, 6.0, 0.32 * len(shown) + 1.0)
    bars = ax.barh(heights, values, height=0.6, color=STYLES[1][0])
    ax.bar_label(bars, fmt="%.2f", padding=3)
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.set_yticks(heights, [literal(shorten(name, LONGEST_NAME)) for name, _ in shown])
    ax.set_xlim(min(values) - 0.2 if min(values) < 0 else 0.0, 1.12)  # room for the numbers
    return finish(ax, "rank correlation of outcomes and predictions", "")
