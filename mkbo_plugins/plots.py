"""Plots for people; they need the extra plot."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mkbo_plugins.experiments.regret import bootstrap_interval

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
except ImportError as error:
    raise ImportError(
        "mkbo_plugins.plots needs Matplotlib; install it with: pip install 'mkbo_plugins[plot]'"
    ) from error

_STYLES = (("black", "--", "o"), ("#0072B2", "-", "s"), ("#D55E00", "-.", "^"), ("#009E73", ":", "D"))
"""Colour, line and marker by curve: told apart in grey and by colour-blind people."""


def convergence(
    curves: Mapping[str, np.ndarray], ylabel: str, *, ax: Any = None, log: bool = False, start: int = 1
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
    if ax is None:
        ax = Figure(figsize=(6, 3.8), layout="constrained").subplots()
    for (name, values), (colour, line, marker) in zip(curves.items(), _STYLES, strict=False):
        data = np.asarray(values)
        trials = np.arange(start, start + data.shape[1])
        ax.fill_between(trials, *bootstrap_interval(data), color=colour, alpha=0.15, linewidth=0)
        ax.plot(trials, data.mean(axis=0), color=colour, linestyle=line, marker=marker, markersize=4, label=name)
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("trial")
    ax.set_ylabel(ylabel)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
