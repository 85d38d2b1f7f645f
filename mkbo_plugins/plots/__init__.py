"""Plots for people; they need the extra plot.

Each function draws on the axes it is given as ``ax``, or on a new figure, and returns the axes (or, of several panels,
the figure). Lines, markers and hatches differ as well as colours, so that pictures can be read in grey.
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError(
        "mkbo_plugins.plots needs Matplotlib; install it with: pip install 'mkbo_plugins[plot]'"
    ) from error

from mkbo_plugins.plots.campaign import (
    best_so_far,
    convergence,
    evidence_over_trials,
    outcomes_by_prediction,
    resemblance,
    verdict_odds,
)
from mkbo_plugins.plots.learned import overview
from mkbo_plugins.plots.slices import covariance_slice, covariance_slices, prediction_slice, prior_draws
from mkbo_plugins.plots.style import save_figure, svg_of
from mkbo_plugins.plots.table import held_out_predictions
from mkbo_plugins.plots.weights import interaction_orders, parameter_weights

__all__ = [
    "best_so_far",
    "convergence",
    "covariance_slice",
    "covariance_slices",
    "evidence_over_trials",
    "held_out_predictions",
    "interaction_orders",
    "outcomes_by_prediction",
    "overview",
    "parameter_weights",
    "prediction_slice",
    "prior_draws",
    "resemblance",
    "save_figure",
    "svg_of",
    "verdict_odds",
]
