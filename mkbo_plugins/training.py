"""Pre-training: from a table of condensed knowledge to a covariance function."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mkbo_plugins.core import Exponential, FreeKernel, Linear, Polynomial, SquaredExponential, WeightedPoints
from mkbo_plugins.core.covariance import FixedCovariance
from mkbo_plugins.core.decision import DecisionFunction
from mkbo_plugins.core.evidence import Evidence, fit_evidence
from mkbo_plugins.core.reweighting import ReweightedKernel
from mkbo_plugins.core.selection import Selection, select
from mkbo_plugins.core.svr import fit_svr
from mkbo_plugins.errors import FitError, GridEdgeWarning, MkboError, MkboWarning, SolverWarning, TableWarning
from mkbo_plugins.parameters import Frame
from mkbo_plugins.pretrained import PretrainedCovariance, TrainingRecord
from mkbo_plugins.progress import progress_bar
from mkbo_plugins.space import ParameterSpace, as_array, check_frame
from mkbo_plugins.table import TrainingTable, read_table

KERNELS: dict[str, FreeKernel] = {
    "se": SquaredExponential(),
    "exponential": Exponential(),
    "polynomial": Polynomial(degree=3),
    "linear": Linear(),
}

C_GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Default box bounds, in standard deviations of the target."""

EPSILON_GRID = (0.0, 0.05, 0.1, 0.3)
"""Default tube half-widths, in standard deviations of the target."""

ARD_SIGMA_GRID: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Default squared length scales, in units of the one found with the coordinate weights."""

ISOTROPIC_SIGMA_GRID = (0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
"""Default squared length scales, in units of the mean squared distance between rows, which grows with dimension."""

SLOW_ROWS = 1000
"""Number of rows above which training warns that it, and every use of what it makes, takes long."""


def pretrain(
    table: Any,
    target: str | None = None,
    space: ParameterSpace | None = None,
    kernel: str | FreeKernel = "se",
    ard: bool = True,
    frame: Frame = "centred",
    task: Literal["regression"] = "regression",
    trainer: Literal["svm", "gp"] = "svm",
    *,
    C: float | Sequence[float] | None = None,
    sigma: float | Sequence[float] | None = None,
    epsilon: float | Sequence[float] | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    missing: Literal["error", "drop"] = "error",
    log_target: bool = False,
    n_jobs: int | None = None,
    progress: bool = True,
) -> PretrainedCovariance:
    """Pre-train a covariance function on a table of condensed knowledge.

    Parameters
    ----------
    table
        DataFrame with a column for each parameter and the target, or a pair of arrays (X, y): X (N, number of
        parameters) in raw units with columns in space order, y (N,).
    target
        Name of the target column.
    space
        The table's parameters; `ParameterSpace.from_table` makes one from the columns' extremes.
    kernel
        ``"se"``, ``"exponential"``, ``"polynomial"`` (of degree 3), ``"linear"``, or a free kernel, whose weights
        (and sigma) are replaced.
    ard
        Learn a weight for each coordinate from the table (by the marginal likelihood of a Gaussian process), then a
        common scale; otherwise all weights are equal, as in the paper.
    frame
        ``"centred"`` maps bounds to [-1, 1], ``"unit"`` to [0, 1]. The frame decides what is learned: the
        re-weighted kernel depends on the origin.
    task
        ``"regression"``.
    trainer
        ``"svm"``: dual coefficients of a support vector regression whose C, epsilon and sigma minimise the exact
        leave-one-out squared error; ``"gp"``: dual vector and mean of the Gaussian process.
    C, sigma, epsilon
        Value or values to try, instead of the default grids: C and epsilon in the target's units (after the
        logarithm if one is taken), sigma in squared frame coordinates. For kernels without a sigma, the weights
        are divided by it.
    groups
        Column name or labels (N,); rows of one group are left out together, as replicates must be.
    sample_weight
        Column name or positive weights (N,) of the rows.
    missing
        What to do with rows that lack a value: ``"error"``, or ``"drop"`` with a warning that lists them.
    log_target
        Train on the logarithm of the target.
    n_jobs
        Parallel workers, as joblib understands it.
    progress
        Show a progress bar where a person can see it.

    Returns
    -------
    PretrainedCovariance
        The fitted, frozen covariance.

    Raises
    ------
    MkboError
        A `TableError`, `SpaceError`, `KernelError` or `FitError` that says what is wrong and what to do.

    Warns
    -----
    GridEdgeWarning
        If the best value of a grid is its first or last one.
    TableWarning
        If the table is usable, but rows repeat, lie outside the bounds or were left out.

    Notes
    -----
    Source: Shilton et al., arXiv 1802.05370; coordinate weights and trainer ``"gp"`` are extensions of it.
    The leave-one-out error is conditional on coordinate weights, which all rows have shaped.
    """
    template = _template(kernel)
    _check_settings(space, frame, task, trainer, n_jobs, {"ard": ard, "log_target": log_target})
    assert space is not None
    data = read_table(
        table, target, space, log_target=log_target, groups=groups, sample_weight=sample_weight, missing=missing
    )
    X = np.asarray(space.to_coordinates(data.X, frame))
    if len(X) > SLOW_ROWS:
        warnings.warn(
            f"training on {len(X)} rows takes long, and so does every use of the covariance, whose cost grows with the "
            "square of the support vectors; a sample of a few hundred rows is often as good",
            TableWarning,
            stacklevel=2,
        )
    grids = {"C": C, "sigma": sigma, "epsilon": epsilon}
    if trainer == "gp":
        given = [name for name, values in grids.items() if values is not None]
        if given:
            raise FitError(f"trainer='gp' learns its scales from the evidence; leave out {given} or use trainer='svm'")
        decision, record, notes = _train_gp(template, X, data, space.coordinate_ranges(frame), ard=ard)
    else:
        with progress_bar("leave-one-out grid", show=progress) as report:
            decision, record, notes = _train_svm(
                template, X, data, space.coordinate_ranges(frame), ard=ard, grids=grids, n_jobs=n_jobs, report=report
            )
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return PretrainedCovariance(space, frame, _measure(decision, X), record, bool(log_target))


def _template(kernel: str | FreeKernel) -> FreeKernel:
    if isinstance(kernel, FreeKernel):
        return kernel
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise FitError(f"kernel must be one of {list(KERNELS)} or a free kernel, got {kernel!r}")
    return KERNELS[kernel]


def _check_settings(
    space: ParameterSpace | None, frame: str, task: str, trainer: str, n_jobs: int | None, flags: dict[str, bool]
) -> None:
    if not isinstance(space, ParameterSpace):
        raise MkboError(
            f"space must be a ParameterSpace, got {type(space).__name__}; describe one with ParameterSpace.from_dict, "
            "or take it from the table with ParameterSpace.from_table(table, target)"
        )
    check_frame(frame)
    if task != "regression":
        raise FitError(f"task must be 'regression', got {task!r}")
    if trainer not in ("svm", "gp"):
        raise FitError(f"trainer must be 'svm' or 'gp', got {trainer!r}")
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0):
        raise FitError(f"n_jobs must be None or a whole number other than 0, got {n_jobs!r}; -1 uses every core")
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise FitError(f"{name} must be True or False, got {value!r}")


def _with_weights(template: FreeKernel, weights: np.ndarray, sigma: float) -> FreeKernel:
    """Return the kernel with these weights and sigma; kernels without a sigma carry it in their weights."""
    if template.exponent_rate is not None:
        return replace(template, weights=tuple(weights), sigma=sigma)  # type: ignore[call-arg]
    return replace(template, weights=tuple(weights / sigma))


def _scaled(template: FreeKernel, evidence: Evidence) -> tuple[np.ndarray, float]:
    """Split evidence weights into relative ones, the largest being 1, and a squared length scale."""
    largest = float(evidence.weights.max())
    sigma = getattr(template, "sigma", 1.0) / largest
    return evidence.weights / largest, sigma


def _finite_gram(template: FreeKernel, X: np.ndarray, weights: np.ndarray, sigma: float) -> np.ndarray:
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


def _evidence(
    template: FreeKernel, X: np.ndarray, data: TrainingTable, ranges: np.ndarray, **settings: Any
) -> Evidence:
    evidence = None
    with np.errstate(over="ignore", invalid="ignore"), suppress(np.linalg.LinAlgError):
        evidence = fit_evidence(template, X, data.y, ranges, sample_weight=data.sample_weight, **settings)
    if evidence is None or not np.isfinite(evidence.alpha).all():
        raise FitError(
            "the kernel overflows on the table, so its evidence cannot be computed; mend rows far outside the bounds, "
            "or use kernel='se'"
        )
    return evidence


def _train_gp(
    template: FreeKernel, X: np.ndarray, data: TrainingTable, ranges: np.ndarray, *, ard: bool
) -> tuple[DecisionFunction, TrainingRecord, list[MkboWarning]]:
    evidence = _evidence(template, X, data, ranges, ard=ard, groups=data.groups)
    kernel = _with_weights(template, *_scaled(template, evidence))
    notes = _evidence_notes(evidence)
    error = float(np.average(evidence.loo_residuals**2, weights=data.sample_weight))
    decision = DecisionFunction(kernel, WeightedPoints(X, evidence.alpha), evidence.bias)
    return decision, _record(data, "gp", None, None, error, notes), notes


def _train_svm(
    template: FreeKernel,
    X: np.ndarray,
    data: TrainingTable,
    ranges: np.ndarray,
    *,
    ard: bool,
    grids: dict[str, Any],
    n_jobs: int | None,
    report: Any,
) -> tuple[DecisionFunction, TrainingRecord, list[MkboWarning]]:
    notes: list[MkboWarning] = []
    if ard:
        evidence = _evidence(template, X, data, ranges, ard=True)
        notes += _evidence_notes(evidence)
        weights, scale = _scaled(template, evidence)
        sigma_grid = ARD_SIGMA_GRID
    else:
        weights, scale = np.ones(X.shape[1]), 2 * float(X.var(axis=0).sum())
        sigma_grid = ISOTROPIC_SIGMA_GRID
    spread = float(data.y.std())
    selection = select(
        lambda sigma: _finite_gram(template, X, weights, sigma),
        data.y,
        C=_grid(grids["C"], "C", C_GRID, spread),
        epsilon=_grid(grids["epsilon"], "epsilon", EPSILON_GRID, spread, zero=True),
        sigma=_grid(grids["sigma"], "sigma", sigma_grid, scale),
        sample_weight=data.sample_weight,
        groups=data.groups,
        n_jobs=n_jobs,
        report=report,
    )
    kernel = _with_weights(template, weights, selection.sigma)
    fit = fit_svr(np.asarray(kernel.gram(X)), data.y, selection.C, selection.epsilon, data.sample_weight)
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
    error = selection.loo.mean_squared_error
    return decision, _record(data, "svm", selection.C, selection.epsilon, error, notes), notes


def _evidence_notes(evidence: Evidence) -> list[MkboWarning]:
    if evidence.converged:
        return []
    return [SolverWarning("the evidence of the table did not converge; check its target for outliers")]


def _selection_notes(selection: Selection) -> list[MkboWarning]:
    notes: list[MkboWarning] = [
        GridEdgeWarning(
            f"the best {name} ({getattr(selection, name):.3g}) is at the edge of its grid; a better one may lie "
            f"outside: often harmless, or pass {name}=[...] to pretrain to look further"
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


def _record(
    data: TrainingTable, trainer: str, C: float | None, epsilon: float | None, error: float, notes: list[MkboWarning]
) -> TrainingRecord:
    return TrainingRecord(
        target=data.target,
        rows=len(data.y),
        target_mean=float(data.y.mean()),
        target_spread=float(data.y.std()),
        task="regression",
        trainer=trainer,
        C=C,
        epsilon=epsilon,
        loo_mse=error,
        notes=tuple(map(str, notes)),
    )


def _grid(
    given: float | Sequence[float] | None, name: str, default: Sequence[float], unit: float, *, zero: bool = False
) -> list[float]:
    if given is None:
        return [unit * value for value in default]
    values = np.atleast_1d(as_array(given, name))
    low_enough = (lambda v: v >= 0) if zero else (lambda v: v > 0)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise FitError(f"{name} must be a finite number or a sequence of them, got {given!r:.60}")
    if not low_enough(values).all():
        raise FitError(f"{name} must be {'at least' if zero else 'above'} 0, got {given!r}")
    return sorted({float(value) for value in values})


def _measure(decision: DecisionFunction, X: np.ndarray) -> FixedCovariance:
    """Measure the scales of g and K^E over the table's rows."""
    g = np.asarray(decision(X))
    spread = float(g.std())
    if not np.isfinite(spread) or spread <= 1e-10 * max(1e-300, float(np.abs(g).max())):
        raise FitError(
            "the trained decision function is constant over the table: it carries no knowledge to transfer; "
            "try other C, epsilon or sigma"
        )
    kernel = ReweightedKernel(decision.kernel, (decision.table,))
    with np.errstate(over="ignore", invalid="ignore"):
        mean_diagonal = float(np.mean(kernel(X, X)))
    if not (np.isfinite(mean_diagonal) and mean_diagonal > 0):
        raise FitError(
            f"the re-weighted kernel is {mean_diagonal:g} on the mean over the table, beyond double precision; try "
            "larger sigma or smaller C, or mend rows far outside the bounds"
        )
    return FixedCovariance(decision, mean_diagonal=mean_diagonal, decision_mean=float(g.mean()), decision_spread=spread)
