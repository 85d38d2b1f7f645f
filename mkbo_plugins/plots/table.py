"""Plot of what the table says of itself."""

from typing import Any

import numpy as np

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.pretrained import only_table
from mkbo_plugins.plots.style import STYLES, finish, literal, panel
from mkbo_plugins.pretraining.held_out import held_out


def held_out_predictions(cov: Covariance, table: Any, *, ax: Any = None, **arguments: Any) -> Any:
    """Plot leave-one-out predictions against the values of the table; the closer to the line, the more it knows.

    Parameters
    ----------
    cov
        The covariance.
    table, **arguments
        The table it was trained on, with ``groups``, ``sample_weight`` and ``missing`` as for `pretrain`.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Raises
    ------
    TableError
        If the table is not the one that the covariance was trained on.
    """
    found = held_out(cov, table, **arguments)
    cov = only_table(cov)
    ax = panel(ax, 4.4, 4.2)
    colour, _, marker = STYLES[1]
    ax.plot(found.values, found.predicted, marker, color=colour, markersize=4, alpha=0.6, markeredgewidth=0)
    name = cov.record.target
    if found.classes is not None:
        ax.axhline(0, color="0.5", linewidth=0.8, linestyle="--")
        ax.set_xticks([-1, 1], [literal(name) for name in found.classes])
        ax.set_xlim(-1.6, 1.6)
        return finish(ax, name, f"held-out decision; above 0: {found.classes[1]}")
    ends = [
        float(min(found.values.min(), found.predicted.min())),
        float(max(found.values.max(), found.predicted.max())),
    ]
    ax.plot(ends, ends, color="black", linewidth=0.8, linestyle="--")
    if cov.log_target:
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_title(f"{cov.record.explained:.0%} of the variance explained, {np.size(found.values)} rows", fontsize=10)
    return finish(ax, f"{name}, value", f"{name}, predicted from the other rows")
