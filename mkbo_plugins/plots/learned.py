"""One picture of what a covariance has learned."""

from matplotlib.figure import Figure

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.pretrained import only_table
from mkbo_plugins.errors import KernelError
from mkbo_plugins.plots.slices import covariance_slices, panel_columns
from mkbo_plugins.plots.style import literal
from mkbo_plugins.plots.weights import interaction_orders, parameter_weights
from mkbo_plugins.report.words import describe


def overview(cov: Covariance) -> Figure:
    """Return a figure of weights by parameter and interaction order above slices of the covariance.

    Slices go through the point where the table's machine predicts most. Weights are left out where length scales are
    too small for features to be enumerated.

    Parameters
    ----------
    cov
        The covariance.
    """
    cov = only_table(cov)
    names = cov.space.names
    columns = panel_columns(len(names))
    rows = -(-len(names) // columns)
    top = 0.3 * len(names) + 1.6
    figure = Figure(figsize=(10, top + 2.6 * rows), layout="constrained")
    upper, lower = figure.subfigures(2, height_ratios=[top, 2.6 * rows])  # type: ignore[misc]
    try:
        left, right = upper.subplots(1, 2, width_ratios=[2, 1])
        parameter_weights(cov, ax=left)
        interaction_orders(cov, ax=right)
    except KernelError as error:
        upper.clear()
        upper.text(0.5, 0.5, str(error), ha="center")
    panels = list(lower.subplots(rows, columns, squeeze=False).ravel())
    for axes in panels[len(names) :]:
        axes.remove()
    covariance_slices(cov, ax=panels[: len(names)])
    facts = dict(describe(cov))
    figure.suptitle(literal(f"{facts['table']}: {facts['fit']}"), fontsize=11)
    return figure
