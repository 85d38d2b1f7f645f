"""Pre-training: from a table of condensed knowledge to a covariance function."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mkbo_plugins.checkpoint import Checkpoint, problem_key
from mkbo_plugins.core import Exponential, FreeKernel, Linear, Polynomial, SquaredExponential
from mkbo_plugins.core.covariance import FixedCovariance
from mkbo_plugins.core.decision import DecisionFunction
from mkbo_plugins.core.reweighting import ReweightedKernel
from mkbo_plugins.core.subset import space_filling_rows
from mkbo_plugins.errors import FitError, MkboError, MkboWarning, SampleWarning
from mkbo_plugins.labels import balanced_weights
from mkbo_plugins.parameters import Frame
from mkbo_plugins.pretrained import PretrainedCovariance, TrainingRecord
from mkbo_plugins.space import ParameterSpace, as_array, check_frame
from mkbo_plugins.table import Task, TrainingTable, read_table, row_list
from mkbo_plugins.trainers import train_gp, train_svm

KERNELS: dict[str, FreeKernel] = {
    "se": SquaredExponential(),
    "exponential": Exponential(),
    "polynomial": Polynomial(degree=3),
    "linear": Linear(),
}


def pretrain(
    table: Any,
    target: str | None = None,
    space: ParameterSpace | None = None,
    kernel: str | FreeKernel = "se",
    ard: bool = True,
    frame: Frame = "centred",
    task: Task = "regression",
    trainer: Literal["svm", "gp"] = "svm",
    *,
    C: float | Sequence[float] | None = None,
    sigma: float | Sequence[float] | None = None,
    epsilon: float | Sequence[float] | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    missing: Literal["error", "drop"] = "error",
    log_target: bool = False,
    max_rows: int = 500,
    n_jobs: int | None = None,
    progress: bool = True,
    resume: str | os.PathLike[str] | None = None,
) -> PretrainedCovariance:
    """Pre-train a covariance function on a table of condensed knowledge.

    Parameters
    ----------
    table
        DataFrame with a column for each parameter and the target, or a pair of arrays (X, y): X (N, number of
        parameters) in raw units with columns in space order, y (N,); or the result of a scikit-optimize run.
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
        ``"regression"``, or ``"classification"`` for a target of two labels: texts, truth values or numbers. The later
        one in order (True, the larger number, the later text) is 1, the other -1; both classes are given the same
        weight, however many rows each has. C and sigma minimise the hinge loss of held-out rows.
    trainer
        ``"svm"``: dual coefficients of a support vector machine whose C, epsilon and sigma minimise the exact
        leave-one-out error, squared in regression; ``"gp"``: dual vector and mean of the Gaussian process (of labels,
        of the numbers -1 and 1).
    C, sigma, epsilon
        Value or values to try, instead of the default grids: C and epsilon in the target's units (after the
        logarithm if one is taken; for labels C has no unit, and there is no epsilon), sigma in squared frame
        coordinates. For kernels without a sigma, the weights are divided by it.
    groups
        Column name or labels (N,); rows of one group are left out together, as replicates must be.
    sample_weight
        Column name or positive weights (N,) of the rows.
    missing
        What to do with rows that lack a value: ``"error"``, or ``"drop"`` with a warning that lists them.
    log_target
        Train on the logarithm of the target.
    max_rows
        Most rows to train on. Of a longer table, rows that fill the space (each as far as can be from those before it,
        in frame coordinates) are the whole table to weights, leave-one-out and support vectors; a warning names them
        and tells the error on the rows not used. Training time grows with the cube of this number.
    n_jobs
        Parallel workers, as joblib understands it.
    progress
        Show a progress bar where a person can see it.
    resume
        File in which trainer ``"svm"`` keeps coordinate weights and finished grid cells; where an interrupted call
        left one, the same call goes on from there. It may be deleted afterwards.

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
    SampleWarning
        If only some rows were trained on; its ``rows`` names them.

    Notes
    -----
    Source: Shilton et al., arXiv 1802.05370; coordinate weights and trainer ``"gp"`` are extensions of it.
    The leave-one-out error is conditional on coordinate weights, which all rows have shaped.
    """
    template = _template(kernel)
    _check_settings(space, frame, task, trainer, {"ard": ard, "log_target": log_target})
    _check_counts(max_rows, n_jobs)
    if task == "classification" and (epsilon is not None or log_target):
        raise FitError("labels have no tube and no logarithm; leave out epsilon and log_target")
    assert space is not None
    data = read_table(
        table,
        target,
        space,
        task=task,
        log_target=log_target,
        groups=groups,
        sample_weight=sample_weight,
        missing=missing,
    )
    X = np.asarray(space.to_coordinates(data.X, frame))
    used, sample = np.arange(len(X)), data
    if len(X) > max_rows:
        used = space_filling_rows(X, max_rows)
        sample = data.rows(used)
    if task == "classification":
        sample = replace(sample, sample_weight=balanced_weights(sample.y, sample.sample_weight))
    ranges = space.coordinate_ranges(frame)
    grids = {"C": C, "sigma": sigma, "epsilon": epsilon}
    if trainer == "gp":
        given = [name for name, value in (grids | {"resume": resume}).items() if value is not None]
        if given:
            raise FitError(f"trainer='gp' learns its scales from the evidence; leave out {given} or use trainer='svm'")
        trained = train_gp(template, X[used], sample, ranges, ard=ard, progress=progress)
    else:
        checkpoint = None
        if resume is not None:
            checkpoint = Checkpoint(Path(resume), _problem_key(template, ard, X[used], sample, ranges, grids))
        trained = train_svm(
            template,
            X[used],
            sample,
            ranges,
            ard=ard,
            grids=grids,
            n_jobs=n_jobs,
            progress=progress,
            checkpoint=checkpoint,
        )
    fixed = _measure(trained.decision, X[used])
    notes: list[MkboWarning | str] = [*trained.notes]
    if sample.classes is not None:
        notes = [_label_note(sample.y, sample.classes), *notes]
    if len(used) < len(X):
        notes = [_sample_note(trained.decision, X, data, used), *notes]
    for note in notes:
        if isinstance(note, Warning):
            warnings.warn(note, stacklevel=2)
    record = TrainingRecord(
        target=data.target,
        rows=len(used),
        target_mean=float(sample.y.mean()),
        target_spread=float(sample.y.std()),
        task=task,
        trainer=trainer,
        C=trained.C,
        epsilon=trained.epsilon,
        loo_mse=trained.loo_mse,
        notes=tuple(map(str, notes)),
    )
    return PretrainedCovariance(space, frame, fixed, record, bool(log_target))


def _check_counts(max_rows: int, n_jobs: int | None) -> None:
    if isinstance(max_rows, bool) or not isinstance(max_rows, (int, np.integer)) or max_rows < 3:
        raise FitError(f"max_rows must be a whole number of at least 3, got {max_rows!r}")
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0):
        raise FitError(f"n_jobs must be None or a whole number other than 0, got {n_jobs!r}; -1 uses every core")


def _problem_key(
    template: FreeKernel, ard: bool, X: np.ndarray, data: TrainingTable, ranges: np.ndarray, grids: dict[str, Any]
) -> str:
    values = [None if given is None else as_array(given, name) for name, given in grids.items()]
    return problem_key([template, bool(ard), X, data.y, data.groups, data.sample_weight, data.classes, ranges, *values])


def _sample_note(decision: DecisionFunction, X: np.ndarray, data: TrainingTable, used: np.ndarray) -> SampleWarning:
    others = np.setdiff1d(np.arange(len(X)), used)
    predicted, values = np.asarray(decision(X[others])), data.y[others]
    if data.classes is None:
        error = float(np.sqrt(np.mean((predicted - values) ** 2)))
        quality = f"with a root mean squared error of {error:.4g}, their standard deviation being {values.std():.4g}"
    else:
        quality = f"rightly in {np.mean(predicted * values > 0):.0%}"
    return SampleWarning(
        f"of {len(X)} rows, {len(used)} that fill the space were trained on, rows {row_list(data.numbers[used])}; "
        f"leave-one-out errors are theirs; the other {len(others)} are predicted {quality}; to use more, raise "
        "max_rows (--max-rows)",
        rows=tuple(map(int, data.numbers[used])),
    )


def _label_note(y: np.ndarray, classes: tuple[str, str]) -> str:
    counts = int(np.sum(y < 0)), int(np.sum(y > 0))
    return (
        f"label {classes[1]!r} ({counts[1]} rows) counts as 1 and {classes[0]!r} ({counts[0]} rows) as -1; each row is "
        "weighed so that both classes weigh the same"
    )


def _template(kernel: str | FreeKernel) -> FreeKernel:
    if isinstance(kernel, FreeKernel):
        return kernel
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise FitError(f"kernel must be one of {list(KERNELS)} or a free kernel, got {kernel!r}")
    return KERNELS[kernel]


def _check_settings(space: ParameterSpace | None, frame: str, task: str, trainer: str, flags: dict[str, bool]) -> None:
    if not isinstance(space, ParameterSpace):
        raise MkboError(
            f"space must be a ParameterSpace, got {type(space).__name__}; describe one with ParameterSpace.from_dict, "
            "or take it from the table with ParameterSpace.from_table(table, target)"
        )
    check_frame(frame)
    if task not in ("regression", "classification"):
        raise FitError(f"task must be 'regression' or 'classification', got {task!r}")
    if trainer not in ("svm", "gp"):
        raise FitError(f"trainer must be 'svm' or 'gp', got {trainer!r}")
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise FitError(f"{name} must be True or False, got {value!r}")


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
