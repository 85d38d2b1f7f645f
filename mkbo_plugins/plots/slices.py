"""Plots along one parameter through a chosen point: of the covariance, stock beside pre-trained, and of predictions."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from mkbo_plugins.core.forms import DEFAULT_FORM, FORMS
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.priors import prior_mode
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.pretrained import only_table
from mkbo_plugins.errors import KernelError, SpaceError
from mkbo_plugins.plots.style import STYLES, finish, literal, panel, shorten
from mkbo_plugins.report.words import describe_prediction
from mkbo_plugins.space.parameters import Numeric, Parameter

LABELS = {"stock": "stock", DEFAULT_FORM: "pre-trained"}
_POINTS = 161
_LEVEL = 20
"""Characters of a level's name that are drawn."""
_BESIDE = 28
"""Characters of all levels from which on their names are turned."""


def covariance_slice(
    cov: Covariance,
    parameter: str,
    centre: Mapping[str, Any] | None = None,
    *,
    forms: Sequence[str] = ("stock", DEFAULT_FORM),
    ax: Any = None,
) -> Any:
    """Plot the correlation of the outcome at a point with the outcome where one parameter has other values.

    Scales are those that models begin with before there is data.

    Parameters
    ----------
    cov
        The covariance.
    parameter
        Name of the parameter to vary.
    centre
        The point, by names and values in raw units; None is where the table's machine predicts most.
    forms
        Covariance models, as `pretrained_gp` names them.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Raises
    ------
    MkboError
        If the parameter, the point or a form is not known.
    """
    raw, middle = _slice(cov, parameter, centre)
    everything = np.concatenate([middle, raw])
    ax = panel(ax, 4.4, 3.0)
    chosen = cov.space[parameter]
    for form, style in zip(forms, cycle(STYLES), strict=False):
        covariance = _prior(cov, form, everything)
        scale = np.sqrt(np.diag(covariance))
        _draw(ax, chosen, (covariance / np.outer(scale, scale))[0, 1:], style, LABELS.get(form, form))
    _mark(ax, chosen, cov, middle)
    ax.set_ylim(top=1.05)
    ax.legend(frameon=False, fontsize=9)
    return finish(ax, parameter, "correlation")


def covariance_slices(
    cov: Covariance,
    centre: Mapping[str, Any] | None = None,
    *,
    forms: Sequence[str] = ("stock", DEFAULT_FORM),
    ax: Sequence[Any] | None = None,
) -> Figure:
    """Plot `covariance_slice` for every parameter, and return the figure.

    Parameters
    ----------
    cov, centre, forms
        As for `covariance_slice`.
    ax
        Axes to draw on, one for each parameter; None makes a figure.
    """
    names = cov.space.names
    panels = _grid(len(names)) if ax is None else list(ax)
    if len(panels) != len(names):
        raise SpaceError(f"ax must be {len(names)} axes, one for each of {list(names)}, got {len(panels)}")
    for name, axes in zip(names, panels, strict=True):
        covariance_slice(cov, name, centre, forms=forms, ax=axes)
    for axes in panels[1:]:
        axes.get_legend().remove()
    return panels[0].figure


def prediction_slice(
    cov: Covariance, parameter: str, centre: Mapping[str, Any] | None = None, *, ax: Any = None
) -> Any:
    """Plot what the table's machine predicts where one parameter varies and the others stay as at a point.

    Parameters
    ----------
    cov
        The covariance.
    parameter, centre
        As for `covariance_slice`.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on, in units of `PretrainedCovariance.predict`.

    Raises
    ------
    MkboError
        If the parameter or the point is not known, or there are several tables.
    """
    cov = only_table(cov)
    raw, middle = _slice(cov, parameter, centre)
    ax = panel(ax, 4.4, 3.0)
    chosen = cov.space[parameter]
    predicted = cov.predict_at_coordinates(np.asarray(cov.space.to_coordinates(raw, cov.frame)))
    _draw(ax, chosen, predicted, STYLES[1], None)
    _mark(ax, chosen, cov, middle)
    return finish(ax, parameter, describe_prediction(cov))


def prior_draws(
    cov: Covariance,
    parameter: str,
    centre: Mapping[str, Any] | None = None,
    *,
    forms: Sequence[str] = ("stock", DEFAULT_FORM),
    draws: int = 6,
    seed: int = 0,
    ax: Sequence[Any] | None = None,
) -> Figure:
    """Plot functions drawn from each prior along one parameter, side by side, and return the figure.

    Parameters
    ----------
    cov, parameter, centre, forms
        As for `covariance_slice`.
    draws
        Number of functions.
    seed
        Seed of the draws; every prior is given the same random numbers.
    ax
        Axes to draw on, one for each form; None makes a figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure drawn on; outcomes are in standard deviations.
    """
    raw, _ = _slice(cov, parameter, centre)
    if ax is None:
        size = (3.6 * len(forms), 3.2)
        ax = list(Figure(figsize=size, layout="constrained").subplots(1, len(forms), sharey=True, squeeze=False)[0])
    if len(ax) != len(forms):
        raise KernelError(f"ax must be {len(forms)} axes, one for each of {list(forms)}, got {len(ax)}")
    normal = np.random.default_rng(seed).normal(size=(len(raw), draws))
    chosen = cov.space[parameter]
    for form, axes in zip(forms, ax, strict=True):
        # Eigenvalues of a smooth covariance fall below rounding, where a Cholesky factor does not exist.
        values, vectors = np.linalg.eigh(_prior(cov, form, raw))
        functions = vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * normal)
        for i, function in enumerate(functions.T):
            _draw(axes, chosen, function, STYLES[i % len(STYLES)], None)
        axes.set_title(LABELS.get(form, form), fontsize=10)
        finish(axes, parameter, "")
    ax[0].set_ylabel("outcome, standard deviations")
    return ax[0].figure


def _slice(
    cov: Covariance, parameter: str, centre: Mapping[str, Any] | None
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "1 d"]]:
    """Return raw points (n, d) along a parameter, and the raw point (1, d) they go through."""
    chosen = cov.space[parameter]
    if centre is None:
        centre = cov.starting_points(1, direction="same")[0]
    middle = cov.space.to_raw(centre)
    raw = np.repeat(middle, len(chosen.indexed_levels) or _POINTS, axis=0)
    raw[:, cov.space.names.index(parameter)] = _values(chosen)
    return raw, middle


def _values(parameter: Parameter) -> Float[np.ndarray, " n"]:
    """Return raw numbers across the range of a parameter, (n,)."""
    if parameter.indexed_levels:
        return np.arange(float(len(parameter.indexed_levels)))
    low, high = parameter.ends  # type: ignore[attr-defined]
    values = np.linspace(low, high, _POINTS)
    return np.exp(values) if getattr(parameter, "log", False) else values


def _prior(cov: Covariance, form: str, raw: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    """Return the covariance of a form with its usual scales between raw points, (n, n)."""
    if form not in FORMS:
        raise KernelError(f"form must be one of {list(FORMS)}, got {form!r}")
    unit = np.asarray(cov.space.to_coordinates(raw, "unit"))
    model = FormModel(cov.fixed, form, unit.shape[1])
    if not model.form.uses_stock:
        model, unit = FormModel(cov.fixed, form, 0), unit[:, :0]
    scales = len(model.form.hyperparameters)
    theta = [prior.log_mean for prior in model.priors[:scales]]
    theta += [math.log(prior_mode(prior)) for prior in model.priors[scales:]]
    points = Points(np.asarray(cov.space.to_coordinates(raw, cov.frame)), unit)
    return np.asarray(model.value(model.pairs(points), np.array(theta)))


def _draw(
    ax: Any, parameter: Parameter, values: Float[np.ndarray, " n"], style: tuple[str, str, str], label: str | None
) -> None:
    """Draw values over the parameter's own numbers, or over the names of its levels."""
    colour, line, marker = style
    if parameter.indexed_levels:
        levels = [literal(shorten(str(level), _LEVEL)) for level in parameter.indexed_levels]
        ax.plot(range(len(levels)), values, marker, color=colour, markersize=6, label=label)
        crowded = {"rotation": 90, "fontsize": min(8.0, 160 / len(levels))} if sum(map(len, levels)) > _BESIDE else {}
        ax.set_xticks(range(len(levels)), levels, **crowded)
        ax.set_xlim(-0.5, len(levels) - 0.5)
        return
    ax.plot(_values(parameter), values, color=colour, linestyle=line, linewidth=1.6, label=label)
    if isinstance(parameter, Numeric) and parameter.log:
        ax.set_xscale("log")


def _mark(ax: Any, parameter: Parameter, cov: Covariance, middle: np.ndarray) -> None:
    ax.axvline(middle[0, cov.space.names.index(parameter.name)], color="0.6", linewidth=0.8, linestyle=":")


def panel_columns(count: int) -> int:
    """Return how many of a number of panels go side by side."""
    return min(count, 4 if count in (4, 7, 8) else 3)


def _grid(count: int) -> list[Any]:
    columns = panel_columns(count)
    rows = -(-count // columns)
    figure = Figure(figsize=(3.2 * columns, 2.7 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in panels[count:]:
        axes.remove()
    return panels[:count]
