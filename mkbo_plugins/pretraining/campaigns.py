"""Training on many earlier campaigns: one machine for what they have in common, and how each differs from it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core import FreeKernel
from mkbo_plugins.core.components.campaigns import Campaigns
from mkbo_plugins.core.training.ard import TableEvidence, mean_and_std
from mkbo_plugins.core.training.landmarks import LandmarkFit
from mkbo_plugins.core.training.scatter import NO_SCATTER
from mkbo_plugins.core.training.shared_ard import SharedArd, shared_ard
from mkbo_plugins.core.training.subset import farthest_point_subset
from mkbo_plugins.covariance.campaigns import CampaignRecord
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.covariance.record import TrainingRecord
from mkbo_plugins.errors import FitError, MkboError, MkboWarning, SolverWarning, TableError
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.pretraining import long_tables
from mkbo_plugins.pretraining.inputs import Source
from mkbo_plugins.pretraining.one_table import Fitted, Rows, Settings, measure, train
from mkbo_plugins.pretraining.trainers import noise_weights
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.table import TrainingTable, check_rows

LANDMARKS = 500
"""Points over which campaigns are described, where nobody says how many."""

MACHINE_ROWS = 100
"""Of these, points that the machine is trained on: the cost of its kernel grows with the square of their number."""

NOTHING_IN_COMMON = 1e-6
"""Range of the mean of predictions, in units of their standard deviation, that is rounding and no knowledge."""

MOST_CAMPAIGNS, MOST_ROWS = 10, 150
"""Campaigns, and rows of each, whose evidence the coordinate weights are learned from."""


CAMPAIGN = "campaign"
"""Column that says which of several tables, pooled to one, a row is of."""


def pooled(tables: Any, by: str | None) -> Any:
    """Return several tables as one, with a column `CAMPAIGN` that numbers them unless `by` names one they have.

    Raises
    ------
    TableError
        If they are no list of DataFrames, or have a column of this name already.
    """
    import pandas as pd

    if not isinstance(tables, list) or not all(isinstance(table, pd.DataFrame) for table in tables):
        raise TableError("combine='pool' (--combine pool) needs a list of DataFrames, one for each campaign")
    if by is not None:
        return pd.concat(tables, ignore_index=True)
    if any(CAMPAIGN in table.columns for table in tables):
        raise TableError(
            f"a table has a column {CAMPAIGN!r} already; name it, by={CAMPAIGN!r} (--by {CAMPAIGN}), or rename it"
        )
    numbered = [table.assign(**{CAMPAIGN: f"table {number}"}) for number, table in enumerate(tables, 1)]
    return pd.concat(numbered, ignore_index=True)


def campaign_labels(sources: Sequence[Source], by: str, task: str, resume: Any) -> list[Any]:
    """Return the campaign of each row of the only table.

    Raises
    ------
    FitError
        If an argument does not go with campaigns.
    TableError
        If there are several tables, or `by` is no column of this one, or one with gaps, a parameter or the target.
    """
    if not isinstance(by, str):
        raise TableError(f"by (--by) must name a column, got {type(by).__name__}")
    if len(sources) > 1:
        raise TableError("by (--by) tells the campaigns of one table; for a table each use combine='pool'")
    if task == "classification" or resume is not None:
        raise FitError("campaigns (by, --by) have numbers as outcomes, and no resume; leave it out")
    (source,) = sources
    columns = list(getattr(source.table, "columns", ()))
    if by not in columns:
        raise TableError(f"by (--by): {by!r} is not a column of the table; it has {columns}{did_you_mean(by, columns)}")
    if by == source.target or by in source.space.names:
        raise TableError(f"by (--by): {by!r} is a parameter or the target; it must tell campaigns apart")
    labels = source.table[by]
    gaps = np.flatnonzero(labels.isna())
    if gaps.size:
        raise TableError(
            f"column {by!r} is empty in {RowNames.of(source.table).at(gaps)}; name the campaign of each row"
        )
    return list(labels)


class Campaign(NamedTuple):
    """A campaign's name, and its rows with outcomes in units of their standard deviation, less their mean.

    Parameters
    ----------
    mean, spread
        What was taken off its outcomes, and what they were divided by.
    """

    name: str
    rows: Rows
    mean: float
    spread: float


def campaigns_of(
    data: TrainingTable, labels: Sequence[Any], by: str, space: ParameterSpace, settings: Settings
) -> list[Campaign]:
    """Return the campaigns of a table in order of first appearance, each with comparable outcomes.

    Parameters
    ----------
    data
        All rows.
    labels
        The campaign of each row of the table that was given.
    by
        What these are called.
    space, settings
        As for `mkbo_plugins.pretraining.one_table.fit_table`.

    Raises
    ------
    TableError
        If a campaign has too few rows, or a constant outcome.
    """
    members: dict[str, list[int]] = {}
    for position, number in enumerate(data.numbers):
        members.setdefault(str(labels[number]), []).append(position)
    found = []
    for name, positions in members.items():
        try:
            check_rows(len(positions))
            rows = Rows.of(data.rows(np.array(positions)), space, settings)
        except MkboError as error:
            raise type(error)(f"{by} {name!r}: {error}; drop its {len(positions)} rows to leave it out") from error
        mean, spread = mean_and_std(rows.data.y, noise_weights(rows.data))
        found.append(Campaign(name, replace(rows, data=comparable(rows.data, mean, spread)), mean, spread))
    return found


def comparable(data: TrainingTable, mean: float, spread: float) -> TrainingTable:
    """Return a table with its outcomes, and what is known of their noise, in units of their standard deviation."""
    scatter = data.scatter._replace(sum_of_squares=data.scatter.sum_of_squares / spread**2)
    noise = None if data.noise is None else data.noise / spread
    return replace(data, y=(data.y - mean) / spread, noise=noise, scatter=scatter)


def fit_campaigns(campaigns: Sequence[Campaign], space: ParameterSpace, settings: Settings) -> Fitted:
    """Return one covariance of several campaigns.

    All share coordinate weights and noise, by the sum of their evidences. The prediction of each is the kernel ridge
    regression of its rows in the span of common landmarks; their mean is what the covariance predicts, and the
    machine that re-weights the kernel is trained on values of this mean.
    """
    shared = _shared(campaigns, space, settings)
    spread = _landmarks(campaigns, space, settings)
    landmarks = spread.trained
    penalty = np.array([shared.noise / np.mean(np.diagonal(shared.kernel.gram(landmarks)))])
    fits: list[LandmarkFit] = []
    with progress_bar("campaigns", show=settings.progress) as report:
        for campaign in campaigns:
            fits.append(
                long_tables.regression(shared.kernel, campaign.rows.X, campaign.rows.data, landmarks, penalties=penalty)
            )
            if report is not None:
                report(len(fits), len(campaigns))
    pooled = Campaigns(shared.kernel, landmarks, np.array([f.alpha for f in fits]), np.array([f.bias for f in fits]))
    predictions = np.asarray(pooled(landmarks))
    chosen = _few(landmarks)
    few, in_common = replace(spread, used=spread.used[chosen]), predictions[chosen].mean(axis=1)
    if not np.ptp(in_common) > NOTHING_IN_COMMON * predictions.std():
        raise FitError(
            "campaigns have nothing in common: the mean of their predictions is constant, as if they contradicted each "
            "other; train those apart that point the other way, and sum them, combine='sum' (--combine sum)"
        )
    outcomes_of_few = replace(spread.data.rows(few.used), y=in_common)
    trained = train(few, outcomes_of_few, settings)
    records = tuple(
        CampaignRecord(c.name, len(c.rows.data.y), c.mean, c.spread, float(np.mean(fit.residuals**2)))
        for c, fit in zip(campaigns, fits, strict=True)
    )
    notes: list[MkboWarning | str] = [*trained.notes]
    if not shared.converged:
        notes.append(SolverWarning("the evidence of the campaigns did not converge; harmless if they predict well"))
    residuals = np.concatenate([fit.residuals for fit in fits])
    outcomes = np.concatenate([campaign.rows.data.y for campaign in campaigns])
    record = TrainingRecord(
        target=campaigns[0].rows.data.target,
        rows=len(outcomes),
        target_mean=float(outcomes.mean()),
        target_spread=float(outcomes.std()),
        task=settings.task,
        trainer=settings.trainer,
        C=trained.C,
        epsilon=trained.epsilon,
        loo_mse=float(np.mean(residuals**2)),
        notes=tuple(map(str, notes)),
    )
    # In this unit the second moment is 1 on the mean, however much campaigns agree.
    fixed = replace(
        measure(trained.decision, few.trained),
        campaigns=pooled,
        decision_mean=float(predictions.mean()),
        decision_spread=float(predictions.std()),
    )
    return Fitted(
        PretrainedCovariance(space, settings.frame, fixed, record, settings.log_target, campaigns=records), notes
    )


def _few(landmarks: Float[np.ndarray, "P d"]) -> Int[np.ndarray, " n"]:
    """Return the numbers of the landmarks that the machine is trained on."""
    return (
        np.arange(len(landmarks)) if len(landmarks) <= MACHINE_ROWS else farthest_point_subset(landmarks, MACHINE_ROWS)
    )


def _landmarks(campaigns: Sequence[Campaign], space: ParameterSpace, settings: Settings) -> Rows:
    """Return the different settings of all campaigns, of which those used span what is learned of each."""
    first = campaigns[0].rows.data
    everything = np.concatenate([campaign.rows.data.X for campaign in campaigns])
    X, where = np.unique(everything, axis=0, return_index=True)
    y = np.concatenate([campaign.rows.data.y for campaign in campaigns])[where]
    data = TrainingTable(X, y, first.target, None, None, where)
    most = LANDMARKS if settings.max_rows is None else settings.max_rows
    frame = np.asarray(space.to_coordinates(X, settings.frame))
    used = np.arange(len(X)) if len(X) <= most else farthest_point_subset(frame, most)
    return Rows(space, data, frame, used)


def _shared(campaigns: Sequence[Campaign], space: ParameterSpace, settings: Settings) -> SharedArd:
    """Return what campaigns share, learned from some rows of some: those with most."""
    most = sorted(campaigns, key=lambda campaign: -len(campaign.rows.X))[:MOST_CAMPAIGNS]
    tables = [_evidence(campaign.rows, settings.template) for campaign in most]
    with progress_bar("evidence of the campaigns", show=settings.progress) as report:
        return shared_ard(tables, space.coordinate_ranges(settings.frame), ard=settings.ard, report=report)


def _evidence(rows: Rows, template: FreeKernel) -> TableEvidence:
    n = len(rows.X)
    used = np.arange(n) if n <= MOST_ROWS else farthest_point_subset(rows.X, MOST_ROWS)
    data = rows.data
    weight = noise_weights(data)
    factor = np.ones(len(used)) if weight is None else 1 / weight[used]
    known = np.zeros(len(used)) if data.noise is None else data.noise[used] ** 2
    scatter = data.scatter if len(used) == n else NO_SCATTER
    return TableEvidence(template, rows.X[used], data.y[used], factor, known, scatter)
