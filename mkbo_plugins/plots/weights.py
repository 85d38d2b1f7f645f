"""Plots of how the covariance spreads its prior variance over parameters and their interactions."""

from typing import Any

import numpy as np

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import KernelError
from mkbo_plugins.plots.style import STYLES, finish, literal, panel
from mkbo_plugins.report.sensitivity import prediction_sensitivity, prior_shares

_LABEL = "share of prior variance"


def parameter_weights(cov: Covariance, *, ax: Any = None) -> Any:
    """Plot the share of prior variance that involves each parameter, alone and together with others.

    A diamond marks the share of the table's prediction that varies with the parameter. Variation with several
    parameters counts for each of them, so shares add up to more than one.

    Parameters
    ----------
    cov
        The covariance.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Raises
    ------
    KernelError
        If length scales are too small for features to be enumerated.
    """
    shares = _shares(cov)
    names = cov.space.names
    alone = np.array([shares.get(frozenset([name]), 0.0) for name in names])
    total = np.array([sum(share for involved, share in shares.items() if name in involved) for name in names])
    ax = panel(ax, 6.0, 0.45 * len(names) + 1.2)
    heights = np.arange(len(names))[::-1]
    ax.barh(heights, alone, height=0.6, color=STYLES[1][0], label="by itself")
    together = total - alone
    ax.barh(heights, together, 0.6, alone, color="white", edgecolor=STYLES[2][0], hatch="////", label="with others")
    predicted = prediction_sensitivity(cov)
    ax.plot([predicted[name].total for name in names], heights, "D", color="black", label="of the prediction")
    ax.set_yticks(heights, [literal(name) for name in names])
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.legend(frameon=False)
    return finish(ax, _LABEL, "")


def interaction_orders(cov: Covariance, *, ax: Any = None) -> Any:
    """Plot the share of prior variance of single parameters, pairs, triples and so on.

    Parameters, returns and errors are those of `parameter_weights`.
    """
    shares = _shares(cov)
    orders = np.arange(1, len(cov.space.names) + 1)
    heights = [sum(share for involved, share in shares.items() if len(involved) == order) for order in orders]
    ax = panel(ax, 4.0, 3.0)
    bars = ax.bar(orders, heights, width=0.6, color=STYLES[1][0])
    ax.bar_label(bars, labels=[f"{height:.0%}" for height in heights], padding=2)
    ax.set_xticks(orders)
    ax.set_ylim(0, 1.1 * max(heights))
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    return finish(ax, "parameters that vary together", _LABEL)


def _shares(cov: Covariance) -> dict[frozenset[str], float]:
    shares, _ = prior_shares(cov)
    if not shares:
        raise KernelError("length scales are too small for features to be enumerated; look at slices instead")
    return shares
