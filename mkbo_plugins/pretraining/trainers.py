"""From a checked table to a trained machine."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core import FreeKernel, WeightedPoints
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.training.ard import ArdFit, ard_map
from mkbo_plugins.core.training.selection import Selection, select
from mkbo_plugins.core.training.svr import fit_polished
from mkbo_plugins.errors import FitError, GridEdgeWarning, MkboWarning, SolverWarning
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.pretraining.checkpoint import Checkpoint
from mkbo_plugins.space.space import as_array
from mkbo_plugins.tables.labels import error_rate
from mkbo_plugins.tables.table import TrainingTable

C_GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Default box bounds, in standard deviations of the target, or of labels as they are."""

EPSILON_GRID = (0.0, 0.05, 0.1, 0.3)
"""Default tube half-widths, in standard deviations of the target."""

ARD_SIGMA_GRID: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Default squared length scales, in units of the one found with the coordinate weights."""

ISOTROPIC_SIGMA_GRID = (0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
"""Default squared length scales, in units of the mean squared distance between rows, which grows with dimension."""


def _with_weights(template: FreeKernel, weights: Float[np.ndarray, " d"], sigma: float) -> FreeKernel:
    """Return the kernel with these weights and sigma; kernels without a sigma carry it in their weights."""
    if template.exponent_rate is not None:
        return replace(template, weights=tuple(weights), sigma=sigma)  # type: ignore[call-arg]
    return replace(template, weights=tuple(weights / sigma))


def _scaled(template: FreeKernel, weights: Float[np.ndarray, " d"]) -> tuple[Float[np.ndarray, " d"], float]:
    """Split coordinate weights into relative ones, the largest being 1, and a squared length scale."""
    largest = float(weights.max())
    return weights / largest, getattr(template, "sigma", 1.0) / largest


def _finite_gram(
    template: FreeKernel, X: Float[np.ndarray, "N d"], weights: Float[np.ndarray, " d"], sigma: float
) -> Float[np.ndarray, "N N"]:
    """Return K_2 between the rows, (N, N), if double precision can hold it."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(weights / sigma).all()
        gram = np.asarray(_with_weights(template, weights, sigma).gram(X)) if finite else None
    if gram is None or not np.isfinite(gram).all():
        raise FitError(
            f"the kernel overflows on the table at sigma = {sigma:g}; try larger sigma, or mend rows far outside the "
            "bounds"
        )
    return gram


def ard_fit(
    template: FreeKernel,
    X: Float[np.ndarray, "N d"],
    data: TrainingTable,
    ranges: Float[np.ndarray, " d"],
    *,
    progress: bool,
    **settings: Any,
) -> ArdFit:
    """Return the Gaussian process of a table; parameters as for `train_svm` and `ard_map`.

    Raises
    ------
    FitError
        If double precision does not hold its evidence.
    """
    fit = None
    with (
        progress_bar("evidence of the table", show=progress) as report,
        np.errstate(over="ignore", invalid="ignore"),
        suppress(np.linalg.LinAlgError),
    ):
        fit = ard_map(
            template,
            X,
            data.y,
            ranges,
            sample_weight=noise_weights(data),
            known_noise=data.noise,
            scatter=data.scatter,
            report=report,
            **settings,
        )
    if fit is None or not np.isfinite(fit.alpha).all():
        raise FitError(
            "the kernel overflows on the table, so its evidence cannot be computed; mend rows far outside the bounds, "
            "or use kernel='se'"
        )
    return fit


class Trained(NamedTuple):
    """A trained machine and how it was chosen."""

    decision: DecisionFunction
    C: float | None
    epsilon: float | None
    loo_mse: float
    notes: list[MkboWarning]


def train_gp(
    template: FreeKernel,
    X: Float[np.ndarray, "N d"],
    data: TrainingTable,
    ranges: Float[np.ndarray, " d"],
    *,
    ard: bool,
    progress: bool,
) -> Trained:
    """Return the dual vector and mean of a Gaussian process; parameters as for `train_svm`."""
    fit = ard_fit(template, X, data, ranges, ard=ard, groups=data.groups, progress=progress)
    kernel = _with_weights(template, *_scaled(template, fit.weights))
    error = held_out_error(data, fit.loo_residuals)
    decision = DecisionFunction(kernel, WeightedPoints(X, fit.alpha), fit.bias)
    return Trained(decision, None, None, error, _ard_notes(fit.converged))


def train_svm(
    template: FreeKernel,
    X: Float[np.ndarray, "N d"],
    data: TrainingTable,
    ranges: Float[np.ndarray, " d"],
    *,
    ard: bool,
    grids: dict[str, Any],
    n_jobs: int | None,
    progress: bool,
    checkpoint: Checkpoint | None,
    shared: FreeKernel | None = None,
) -> Trained:
    """Return the support vector machine of least leave-one-out error over the grid.

    Parameters
    ----------
    template
        Kernel whose weights and sigma are replaced.
    X
        Frame coordinates of the rows, (N, d).
    data
        The rows.
    ranges
        Width each coordinate spans inside the bounds, (d,).
    ard, n_jobs, progress
        As for `pretrain`.
    grids
        Values to try by name, None for the default ones.
    checkpoint
        Where weights and finished grid cells are kept, and what it holds already.
    shared
        Trained kernel to use as it is, instead of one with weights and sigma of this table.
    """
    notes: list[MkboWarning] = []
    sigma_grid: Sequence[float]
    if shared is not None:
        template, weights, scale = shared, np.asarray(shared.weights), 1.0
        sigma_grid = (getattr(shared, "sigma", 1.0),)
    elif ard:
        known = None if checkpoint is None else checkpoint.evidence
        if known is None:
            found = ard_fit(template, X, data, ranges, ard=True, progress=progress)
            known = (found.weights, found.converged)
            if checkpoint is not None:
                checkpoint.keep_evidence(*known)
        notes += _ard_notes(known[1])
        weights, scale = _scaled(template, known[0])
        sigma_grid = ARD_SIGMA_GRID
    else:
        weights, scale = np.ones(X.shape[1]), 2 * float(X.var(axis=0).sum())
        sigma_grid = ISOTROPIC_SIGMA_GRID
    labels, box_weights = data.classes is not None, machine_weights(data)
    spread = 1.0 if labels else float(data.y.std())
    with progress_bar("leave-one-out grid", show=progress) as report:
        selection = select(
            lambda sigma: _finite_gram(template, X, weights, sigma),
            data.y,
            C=grid_values(grids["C"], "C", C_GRID, spread),
            epsilon=[0.0] if labels else grid_values(grids["epsilon"], "epsilon", EPSILON_GRID, spread, zero=True),
            sigma=grid_values(None if shared is not None else grids["sigma"], "sigma", sigma_grid, scale),
            sample_weight=box_weights,
            groups=data.groups,
            labels=labels,
            n_jobs=n_jobs,
            report=report,
            known=None if checkpoint is None else checkpoint.outcomes,
            keep=None if checkpoint is None else checkpoint.keep_outcomes,
        )
    kernel = _with_weights(template, weights, selection.sigma)
    gram = np.asarray(kernel.gram(X))
    fit = fit_polished(gram, data.y, selection.C, selection.epsilon, box_weights, labels=labels)
    chosen = fit.alpha != 0
    if not chosen.any():
        raise FitError(
            f"no support vectors: every value of {data.target!r} lies within epsilon = {selection.epsilon:g} of a "
            "constant; try smaller epsilon"
        )
    decision = DecisionFunction(kernel, WeightedPoints(X[chosen], fit.alpha[chosen]), fit.bias)
    notes += _selection_notes(selection)
    if not fit.converged:
        notes.append(SolverWarning("the final support vector fit hit its cap on iterations before its tolerance"))
    epsilon = None if labels else selection.epsilon
    return Trained(decision, selection.C, epsilon, held_out_error(data, selection.loo.residuals), notes)


def noise_weights(data: TrainingTable) -> Float[np.ndarray, " N"] | None:
    """Return what divides the common noise variance of each row, (N,): its weight and number of measurements."""
    if data.counts is None:
        return data.sample_weight
    return data.counts * (1.0 if data.sample_weight is None else data.sample_weight)


def machine_weights(data: TrainingTable) -> Float[np.ndarray, " N"] | None:
    """Return what multiplies the box bound of each row of a support vector machine, (N,), of mean 1; None: nothing.

    A machine's loss is linear in a residual, so that its weight goes with the inverse of the noise's standard
    deviation, as the scale of a Laplace density does, not of its variance.
    """
    weight = data.sample_weight
    if data.counts is not None:
        weight = np.sqrt(data.counts) * (1.0 if weight is None else weight)
    if data.noise is not None:
        weight = 1 / data.noise
    return weight if weight is data.sample_weight or weight is None else weight / weight.mean()


def held_out_error(data: TrainingTable, residuals: Float[np.ndarray, " N"]) -> float:
    """Return the weighted mean squared error of held-out predictions, for labels that of the predicted labels."""
    if data.classes is None:
        return float(np.average(residuals**2, weights=data.sample_weight))
    return 4 * error_rate(data.y, data.y + residuals, data.sample_weight)


def _ard_notes(converged: bool) -> list[MkboWarning]:
    if converged:
        return []
    return [
        SolverWarning(
            "the evidence of the table did not converge; harmless if held-out predictions are good, as where values "
            "have no noise, else check the target for outliers"
        )
    ]


def _selection_notes(selection: Selection) -> list[MkboWarning]:
    notes: list[MkboWarning] = [
        GridEdgeWarning(
            f"the best {name} ({getattr(selection, name):.3g}) is at the edge of its grid; a better one may lie "
            f"outside: often harmless; in Python, {name}=[...] looks further"
        )
        for name in selection.at_edge
    ]
    if selection.not_converged:
        notes.append(
            SolverWarning(
                f"the solver hit its cap on iterations in {len(selection.not_converged)} grid cells, which were left "
                f"out; the first had C = {selection.not_converged[0][0]:.3g}"
            )
        )
    return notes


def grid_values(
    given: float | Sequence[float] | None, name: str, default: Sequence[float], unit: float, *, zero: bool = False
) -> list[float]:
    """Return the values of a setting to try, in order: those given, or default ones in some unit.

    Raises
    ------
    FitError
        If one that is given is no finite number above 0, or at least 0 where `zero` is allowed.
    """
    if given is None:
        return [unit * value for value in default]
    values = np.atleast_1d(as_array(given, name))
    low_enough = (lambda v: v >= 0) if zero else (lambda v: v > 0)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise FitError(f"{name} must be a finite number or a sequence of them, got {given!r:.60}")
    if not low_enough(values).all():
        raise FitError(f"{name} must be {'at least' if zero else 'above'} 0, got {given!r}")
    return sorted({float(value) for value in values})
