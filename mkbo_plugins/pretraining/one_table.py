"""Training on the rows of one table that was read and checked."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core import FreeKernel
from mkbo_plugins.core.components.components import PretrainedComponents
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel
from mkbo_plugins.core.training.ard import mean_and_std
from mkbo_plugins.core.training.subset import farthest_point_subset
from mkbo_plugins.covariance.limits import SUPPORT
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.covariance.ranked import RankedTarget
from mkbo_plugins.covariance.record import Trainer, TrainingRecord
from mkbo_plugins.errors import FitError, MkboWarning, SampleWarning
from mkbo_plugins.pretraining import long_tables
from mkbo_plugins.pretraining.checkpoint import Checkpoint, problem_key
from mkbo_plugins.pretraining.trainers import Trained, ard_fit, grid_values, held_out_error, train_gp, train_svm
from mkbo_plugins.space.parameters import Frame
from mkbo_plugins.space.space import ParameterSpace, as_array
from mkbo_plugins.tables.labels import balanced_weights
from mkbo_plugins.tables.ranking import by_rank
from mkbo_plugins.tables.replicates import joined_replicates, replicates_note
from mkbo_plugins.tables.table import Task, TrainingTable

MOST_AT_ONCE = 10_000
"""Rows that are predicted at a time, as memory grows with their number times that of support vectors."""


MOST_JOBS = 10_000
"""Parallel workers that may be asked for."""


@dataclass(frozen=True)
class Settings:
    """How tables are trained on; parameters as for `pretrain`: `template` is its kernel, `ranked` its `rank_target`."""

    template: FreeKernel
    ard: bool
    frame: Frame
    task: Task
    trainer: Trainer
    grids: dict[str, Any]
    log_target: bool
    ranked: bool
    max_rows: int | None
    n_jobs: int | None
    progress: bool
    resume: str | os.PathLike[str] | None

    @property
    def values_to_try(self) -> dict[str, tuple[float, ...] | None]:
        """The grids as plain numbers, None where they are the default ones; raises `FitError` as training does."""
        return {
            name: None if given is None else tuple(grid_values(given, name, (), 1.0, zero=name == "epsilon"))
            for name, given in self.grids.items()
        }


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table, and those of them that are trained on.

    Parameters
    ----------
    space
        The table's parameters.
    data
        The table.
    X
        Frame coordinates of all its rows, (N, d).
    used
        Numbers of those trained on, (n,).
    note
        What became of replicates, None where there are none.
    ranked
        Scores and values of the target, None unless the rows have scores.
    """

    space: ParameterSpace
    data: TrainingTable
    X: Float[np.ndarray, "N d"]
    used: Int[np.ndarray, " n"]
    note: str | None = None
    ranked: RankedTarget | None = None

    @classmethod
    def of(cls, data: TrainingTable, space: ParameterSpace, settings: Settings) -> "Rows":
        """Return the rows to train on, one for each setting; of too many, those that fill the space are used."""
        scored = by_rank(data) if settings.ranked else data
        ranked = RankedTarget.of(scored.y, data.y) if settings.ranked else None
        joined = joined_replicates(scored)
        note = None if joined is scored else replicates_note(joined, len(data.y))
        if note is not None and ranked is not None and joined.counts is not None:
            note = f"{note}, in normal scores"
        X = np.asarray(space.to_coordinates(joined.X, settings.frame))
        most = long_tables.STAND_INS if settings.max_rows is None else settings.max_rows
        used = np.arange(len(X)) if len(X) <= most else farthest_point_subset(X, most)
        return cls(space, joined, X, used, note, ranked)

    @property
    def unit(self) -> str:
        """What messages say behind an error of predictions."""
        return "" if self.ranked is None else " (in normal scores)"

    @property
    def trained(self) -> Float[np.ndarray, "n d"]:
        """Frame coordinates of the rows trained on, (n, d)."""
        return self.X[self.used]


def check_counts(max_rows: int | None, n_jobs: int | None) -> None:
    """Raise a `FitError` unless `max_rows` and `n_jobs` are as `pretrain` takes them."""
    whole = isinstance(max_rows, (int, np.integer)) and not isinstance(max_rows, bool)
    if max_rows is not None and not (whole and 3 <= max_rows <= SUPPORT):
        raise FitError(f"max_rows (--max-rows) must be a whole number from 3 to {SUPPORT}, got {max_rows!r}")
    counted = isinstance(n_jobs, int) and not isinstance(n_jobs, bool) and 0 < abs(n_jobs) <= MOST_JOBS
    if n_jobs is not None and not counted:
        raise FitError(
            f"n_jobs (--jobs) must be None or a whole number other than 0, at most {MOST_JOBS} in size, got "
            f"{n_jobs!r:.60}; -1 uses every core"
        )


def check_flags(flags: dict[str, Any]) -> None:
    """Raise a `FitError` unless settings by name are true or false."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise FitError(f"{name} must be True or False, got {value!r:.60}")


class Fitted(NamedTuple):
    """A covariance, and what deserves a look."""

    cov: PretrainedCovariance
    notes: list[MkboWarning | str]


def fit_table(rows: Rows, settings: Settings, shared: FreeKernel | None = None) -> Fitted:
    """Return the covariance pre-trained on rows, with the kernel `shared` if there is one."""
    sample = rows.data if len(rows.used) == len(rows.X) else rows.data.rows(rows.used)
    recorded, in_full = sample, len(rows.used) == len(rows.X)
    if settings.task == "classification":
        sample = replace(sample, sample_weight=balanced_weights(sample.y, sample.sample_weight))
    if in_full or settings.max_rows is not None or settings.task == "classification":
        trained = train(rows, sample, settings, shared)
        of_sample = None if in_full else _sample_note(trained.decision, rows)
    else:
        recorded, trained = rows.data, _train_stand_ins(rows, sample, settings, shared)
        of_sample = _stand_ins_note(rows, trained.loo_mse)
    target_mean, target_spread = mean_and_std(recorded.y, recorded.sample_weight)
    notes: list[MkboWarning | str] = [*trained.notes]
    if sample.classes is not None:
        notes = [_label_note(sample.y, sample.classes), *notes]
    if rows.note is not None:
        notes = [rows.note, *notes]
    if of_sample is not None:
        notes = [of_sample, *notes]
    record = TrainingRecord(
        target=sample.target,
        rows=len(recorded.y),
        target_mean=target_mean,
        target_spread=target_spread,
        task=settings.task,
        trainer=settings.trainer,
        C=trained.C,
        epsilon=trained.epsilon,
        loo_mse=trained.loo_mse,
        notes=tuple(map(str, notes)),
        classes=sample.classes,
    )
    fixed = measure(trained.decision, rows.trained)
    cov = PretrainedCovariance(rows.space, settings.frame, fixed, record, settings.log_target, ranked=rows.ranked)
    return Fitted(cov, notes)


def train(rows: Rows, sample: TrainingTable, settings: Settings, shared: FreeKernel | None = None) -> Trained:
    """Return the machine trained on a sample of rows, by the trainer that the settings name."""
    X, ranges = rows.trained, rows.space.coordinate_ranges(settings.frame)
    template, ard = settings.template, settings.ard
    if settings.trainer == "gp":
        return train_gp(template, X, sample, ranges, ard=ard, progress=settings.progress)
    checkpoint = None
    if settings.resume is not None:
        key = _problem_key(template, ard, X, sample, ranges, settings.grids)
        checkpoint = Checkpoint(Path(settings.resume), key, X.shape)
    return train_svm(
        template,
        X,
        sample,
        ranges,
        ard=ard,
        grids=settings.grids,
        n_jobs=settings.n_jobs,
        progress=settings.progress,
        checkpoint=checkpoint,
        shared=shared,
    )


def _train_stand_ins(rows: Rows, sample: TrainingTable, settings: Settings, shared: FreeKernel | None) -> Trained:
    """Train on rows with the values of a regression on all, by coordinate weights that the sample itself has."""
    ranges = rows.space.coordinate_ranges(settings.frame)
    fit = ard_fit(settings.template, rows.trained, sample, ranges, ard=settings.ard, progress=settings.progress)
    kernel = replace(settings.template, weights=tuple(fit.weights))
    fit_of_all = long_tables.regression(kernel, rows.X, rows.data, rows.trained)
    trained = train(rows, long_tables.stand_ins(sample, fit_of_all), settings, shared)
    # The values that the machine was trained on know those of rows held out.
    residuals = long_tables.regression(trained.decision.kernel, rows.X, rows.data, rows.trained).residuals
    return trained._replace(loo_mse=held_out_error(rows.data, residuals))


def chained(
    earlier: Sequence[PretrainedCovariance], last: PretrainedCovariance, X: Float[np.ndarray, "N d"]
) -> PretrainedCovariance:
    """Return a covariance whose kernel further tables re-weight too (Theorem 3 applied to its own result).

    Parameters
    ----------
    earlier
        Covariances of these tables, with the free kernel of `last`.
    last
        The covariance whose decision function is kept.
    X
        Frame coordinates of the rows of its table, (n, d), over which the kernel is measured.
    """
    fixed = measure(last.fixed.decision, X, tuple(cov.fixed.decision.table for cov in earlier))
    return replace(last, fixed=fixed, earlier=tuple(cov.record for cov in earlier))


def _problem_key(
    template: FreeKernel,
    ard: bool,
    X: Float[np.ndarray, "N d"],
    data: TrainingTable,
    ranges: Float[np.ndarray, " d"],
    grids: dict[str, Any],
) -> str:
    values = [None if given is None else as_array(given, name) for name, given in grids.items()]
    parts = [template, bool(ard), X, data.y, data.groups, data.sample_weight, data.classes, ranges, *values]
    # Only where they are given, so that files of other tables go on as ever.
    further = [] if data.counts is None else [data.counts, data.scatter]
    further += [] if data.noise is None else [data.noise]
    return problem_key([*parts, *further])


def _stand_ins_note(rows: Rows, error: float) -> SampleWarning:
    what = "rows" if rows.data.counts is None else "settings"
    return SampleWarning(
        f"{len(rows.used)} of {len(rows.X)} {what} that fill the space stand for all: each has the value of a "
        f"regression on all {what}, which predicts those held out with a root mean squared error of "
        f"{np.sqrt(error):.4g}{rows.unit}, their "
        f"standard deviation being {rows.data.y.std():.4g}; max_rows (--max-rows) trains on so many {what} alone",
        rows=tuple(map(int, rows.data.numbers[rows.used])),
    )


def _sample_note(decision: DecisionFunction, rows: Rows) -> SampleWarning:
    X, data, used = rows.X, rows.data, rows.used
    others = np.setdiff1d(np.arange(len(X)), used)
    blocks = np.array_split(others, 1 + len(others) // MOST_AT_ONCE)
    predicted, values = np.concatenate([np.asarray(decision(X[block])) for block in blocks]), data.y[others]
    if data.classes is None:
        error, spread = float(np.sqrt(np.mean((predicted - values) ** 2))), values.std()
        quality = (
            f"with a root mean squared error of {error:.4g}{rows.unit}, their standard deviation being {spread:.4g}"
        )
    else:
        quality = f"rightly in {np.mean(predicted * values > 0):.0%}"
    what = "rows" if data.counts is None else "settings"
    return SampleWarning(
        f"of {len(X)} {what}, {len(used)} that fill the space were trained on; leave-one-out errors are theirs; the "
        f"other {len(others)} are predicted {quality}; to use more, raise max_rows (--max-rows)",
        rows=tuple(map(int, data.numbers[used])),
    )


def _label_note(y: Float[np.ndarray, " N"], classes: tuple[str, str]) -> str:
    counts = int(np.sum(y < 0)), int(np.sum(y > 0))
    return (
        f"label {classes[1]!r} ({counts[1]} rows) counts as 1 and {classes[0]!r} ({counts[0]} rows) as -1; each row is "
        "weighed so that both classes weigh the same"
    )


def measure(
    decision: DecisionFunction, X: Float[np.ndarray, "N d"], earlier: tuple[WeightedPoints, ...] = ()
) -> PretrainedComponents:
    """Measure the scales of g and K^E over the table's rows; `earlier` as for `PretrainedComponents`."""
    g = np.asarray(decision(X))
    spread = float(g.std())
    if not np.isfinite(spread) or spread <= 1e-10 * max(1e-300, float(np.abs(g).max())):
        raise FitError(
            "the trained decision function is constant over the table: it carries no knowledge to transfer; "
            "try other C, epsilon or sigma"
        )
    kernel = ReweightedKernel(decision.kernel, (*earlier, decision.table))
    with np.errstate(over="ignore", invalid="ignore"):
        mean_diagonal = kernel.mean_diagonal(X)
    if not (np.isfinite(mean_diagonal) and mean_diagonal > 0):
        raise FitError(
            f"the re-weighted kernel is {mean_diagonal:g} on the mean over the table, beyond double precision; try "
            "larger sigma or smaller C, or mend rows far outside the bounds"
        )
    return PretrainedComponents(decision, mean_diagonal, float(g.mean()), spread, earlier)
