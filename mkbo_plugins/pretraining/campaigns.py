"""Training on many earlier campaigns: one machine for what they have in common, and how each differs from it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core import FreeKernel
from mkbo_plugins.core.components.campaigns import Campaigns
from mkbo_plugins.core.training.ard import TableEvidence
from mkbo_plugins.core.training.landmarks import LandmarkFit
from mkbo_plugins.core.training.scatter import NO_SCATTER
from mkbo_plugins.core.training.shared_ard import SharedArd, shared_ard
from mkbo_plugins.core.training.subset import farthest_point_subset
from mkbo_plugins.covariance.campaigns import CampaignRecord, SharedFit
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.covariance.record import TrainingRecord
from mkbo_plugins.errors import FitError, MkboWarning, SampleWarning, SolverWarning
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.pretraining import long_tables
from mkbo_plugins.pretraining.members import Campaign, named
from mkbo_plugins.pretraining.one_table import Fitted, Rows, Settings, measure, train
from mkbo_plugins.pretraining.trainers import noise_weights
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.table import TrainingTable

LANDMARKS = 500
"""Points over which campaigns are described, where nobody says how many."""

MACHINE_ROWS = 100
"""Of these, points that the machine is trained on: the cost of its kernel grows with the square of their number."""

MOST_CAMPAIGNS, MOST_ROWS = 10, 150
"""Campaigns, and rows of each, whose evidence the coordinate weights are learned from."""

MOST_COEFFICIENTS = 160_000
"""Landmarks times campaigns, where nobody says how many landmarks: what a saved file has room for."""

LEAST_NOISE = 1e-5
"""Noise variance, in units of a campaign's variance, below which coefficients would only amplify rounding."""

CANCELLED = 1e-10
"""Spread of the mean of the campaigns' predictions, in units of the largest, that is nothing but rounding."""


def fit_campaigns(campaigns: Sequence[Campaign], space: ParameterSpace, settings: Settings) -> Fitted:
    """Return one covariance of several campaigns.

    All share coordinate weights and noise, by the sum of their evidences. The prediction of each is the kernel ridge
    regression of its rows in the span of common landmarks; their mean is what the covariance predicts, and the
    machine that re-weights the kernel is trained on values of this mean.

    Raises
    ------
    FitError
        If double precision does not hold the kernel, or campaigns have nothing in common.
    """
    shared = _shared(campaigns, space, settings)
    span = _Span.of(campaigns, space, settings)
    fits: list[LandmarkFit] = []
    with progress_bar("campaigns", show=settings.progress) as report:
        for campaign in campaigns:
            fits.append(regression_of(campaign, shared, span.landmarks))
            if report is not None:
                report(len(fits), len(campaigns))
    pooled = Campaigns(
        shared.kernel, span.landmarks, np.array([f.alpha for f in fits]), np.array([f.bias for f in fits])
    )
    records = tuple(campaign.record(fit) for campaign, fit in zip(campaigns, fits, strict=True))
    notes = _notes(campaigns, span, 1 - _error_of(records))
    if not shared.converged:
        notes.append(SolverWarning("the evidence of the campaigns did not converge; harmless if they predict well"))
    kept = SharedFit(
        shared.amplitude,
        shared.noise,
        bool(settings.ard),
        None if settings.max_rows is None else int(settings.max_rows),
        **settings.values_to_try,
        notes=tuple(map(str, notes)),
    )
    return assembled(pooled, records, kept, campaigns[0].rows.data.target, notes, space, settings)


def assembled(
    pooled: Campaigns,
    records: tuple[CampaignRecord, ...],
    shared: SharedFit,
    target: str,
    notes: Sequence[MkboWarning | str],
    space: ParameterSpace,
    settings: Settings,
) -> Fitted:
    """Return the covariance of the predictions of campaigns: what depends on all of them is computed here.

    That is the mean and the second moment of the predictions, their unit, and the machine trained on values of the
    mean, which re-weights the kernel.

    Parameters
    ----------
    pooled, records, shared
        The predictions, what the campaigns were, and how they were learned from.
    target
        Name of the target.
    notes
        What deserves a look in the predictions.
    space, settings
        As for `mkbo_plugins.pretraining.one_table.fit_table`.

    Raises
    ------
    FitError
        If campaigns have nothing in common.
    """
    predictions = np.asarray(pooled(pooled.points))
    g = predictions.mean(axis=1)
    if np.ptp(g) <= CANCELLED * np.abs(predictions).max():
        raise FitError(
            "the campaigns' predictions cancel in the mean, so that they have nothing in common to transfer; pre-train "
            "on each by itself, or leave by (--by) out"
        )
    few = np.arange(len(g)) if len(g) <= MACHINE_ROWS else farthest_point_subset(pooled.points, MACHINE_ROWS)
    X, numbers = pooled.points[few], np.arange(len(few))
    # Training asks for frame coordinates alone, which stand in for raw values.
    sample = TrainingTable(X, g[few], target, None, None, numbers)
    trained = train(Rows(space, sample, X, numbers), sample, settings)
    notes = [*notes, *_machine_notes(len(g)), *trained.notes]
    record = TrainingRecord(
        target=target,
        rows=sum(record.rows for record in records),
        target_mean=0.0,
        target_spread=1.0,
        task=settings.task,
        trainer=settings.trainer,
        C=trained.C,
        epsilon=trained.epsilon,
        loo_mse=_error_of(records),
        notes=tuple(map(str, notes)),
    )
    # In this unit the second moment is 1 on the mean, however much campaigns agree.
    fixed = replace(
        measure(trained.decision, X),
        campaigns=pooled,
        decision_mean=float(predictions.mean()),
        decision_spread=float(predictions.std()),
    )
    cov = PretrainedCovariance(
        space, settings.frame, fixed, record, settings.log_target, campaigns=records, shared=shared
    )
    return Fitted(cov, notes)


def _error_of(records: Sequence[CampaignRecord]) -> float:
    return float(np.average([record.loo_mse for record in records], weights=[record.rows for record in records]))


def most_landmarks(campaigns: int, max_rows: int | None) -> int:
    """Return how many settings span what is learned of so many campaigns; `max_rows` as for `pretrain`."""
    return min(LANDMARKS, MOST_COEFFICIENTS // campaigns) if max_rows is None else max_rows


class _Span(NamedTuple):
    """The settings whose kernel functions span what is learned of each campaign, of all that campaigns have.

    Parameters
    ----------
    landmarks
        Frame coordinates, (m, d).
    numbers
        Numbers of their rows in the table given, (m,).
    settings
        Number of different settings of all campaigns.
    """

    landmarks: Float[np.ndarray, "m d"]
    numbers: Int[np.ndarray, " m"]
    settings: int

    @classmethod
    def of(cls, campaigns: Sequence[Campaign], space: ParameterSpace, settings: Settings) -> "_Span":
        tables = [campaign.rows.data for campaign in campaigns]
        X, where = np.unique(np.concatenate([table.X for table in tables]), axis=0, return_index=True)
        numbers = np.concatenate([table.numbers for table in tables])[where]
        frame = np.asarray(space.to_coordinates(X, settings.frame))
        most = most_landmarks(len(campaigns), settings.max_rows)
        used = np.arange(len(X)) if len(X) <= most else farthest_point_subset(frame, most)
        return cls(frame[used], numbers[used], len(X))


def regression_of(campaign: Campaign, shared: SharedArd, landmarks: Float[np.ndarray, "m d"]) -> LandmarkFit:
    """Return what a campaign predicts, by the noise that all share and what is known of its own."""
    data = campaign.rows.data
    factor, known = _noise(data)
    variances = (max(shared.noise, LEAST_NOISE) * factor + known) / shared.amplitude
    try:
        return long_tables.regression(shared.kernel, campaign.rows.X, data, landmarks, variances)
    except FitError as error:
        raise FitError(f"campaign {campaign.name!r}: {error}") from error


def _noise(data: TrainingTable) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Return the noise variance of each row in units of the common one, and the known one on top of it, (N,) each."""
    weight, zeros = noise_weights(data), np.zeros(len(data.y))
    return 1 / (zeros + 1 if weight is None else weight), zeros if data.noise is None else data.noise**2


def _shared(campaigns: Sequence[Campaign], space: ParameterSpace, settings: Settings) -> SharedArd:
    """Return what campaigns share, learned from some rows of some: those with most."""
    most = sorted(campaigns, key=lambda campaign: -len(campaign.rows.X))[:MOST_CAMPAIGNS]
    tables = [_evidence(campaign.rows, settings.template) for campaign in most]
    with progress_bar("evidence of the campaigns", show=settings.progress) as report:
        return shared_ard(tables, space.coordinate_ranges(settings.frame), ard=settings.ard, report=report)


def _evidence(rows: Rows, template: FreeKernel) -> TableEvidence:
    n = len(rows.X)
    used = np.arange(n) if n <= MOST_ROWS else farthest_point_subset(rows.X, MOST_ROWS)
    factor, known = _noise(rows.data)
    scatter = rows.data.scatter if len(used) == n else NO_SCATTER
    return TableEvidence(template, rows.X[used], rows.data.y[used], factor[used], known[used], scatter)


def _notes(campaigns: Sequence[Campaign], span: _Span, explained: float) -> list[MkboWarning | str]:
    """Return which rows stand for others, and what became of replicates."""
    notes: list[MkboWarning | str] = []
    if len(span.landmarks) < span.settings:
        notes.append(
            SampleWarning(
                f"{len(span.landmarks)} of {span.settings} settings that fill the space span what is learned of the "
                f"rows of all campaigns, which explains {explained:.0%} of the variance of those held out; max_rows "
                "(--max-rows) says how many",
                rows=tuple(map(int, span.numbers)),
            )
        )
    longest = sorted(len(campaign.rows.X) for campaign in campaigns)[-MOST_CAMPAIGNS:]
    if len(campaigns) > MOST_CAMPAIGNS or longest[-1] > MOST_ROWS:
        notes.append(
            f"coordinate weights are learned from {len(longest)} of {len(campaigns)} campaigns, those of most rows, "
            f"and at most {MOST_ROWS} rows of each that fill the space"
        )
    repeated = [campaign.name for campaign in campaigns if campaign.rows.note is not None]
    if repeated:
        notes.append(
            f"settings occur more than once in {named(repeated)}; each setting's mean is trained on, weighed by the "
            "number of its rows, or their known noise; copies count as one"
        )
    return notes


def _machine_notes(settings: int) -> list[str]:
    """Return what the machine is trained on, where that is not all settings."""
    if settings <= MACHINE_ROWS:
        return []
    return [
        f"the machine that re-weights the kernel is trained on the mean of the campaigns' predictions at "
        f"{MACHINE_ROWS} of {settings} settings"
    ]
