"""Training on many earlier campaigns: one machine for what they have in common, and how each differs from it."""

import warnings
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
from mkbo_plugins.covariance.campaigns import CampaignRecord, SharedFit
from mkbo_plugins.covariance.limits import CAMPAIGNS, CHARACTERS
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.covariance.record import TrainingRecord
from mkbo_plugins.errors import FitError, MkboError, MkboWarning, SampleWarning, SolverWarning, TableError, TableWarning
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.pretraining import long_tables
from mkbo_plugins.pretraining.inputs import Source
from mkbo_plugins.pretraining.one_table import Fitted, Rows, Settings, measure, train
from mkbo_plugins.pretraining.trainers import held_out_error, noise_weights
from mkbo_plugins.space.space import ParameterSpace, check_doubled
from mkbo_plugins.tables.dates import period_of
from mkbo_plugins.tables.exports import completed
from mkbo_plugins.tables.results import as_frame
from mkbo_plugins.tables.table import TrainingTable, check_rows

LANDMARKS = 500
"""Points over which campaigns are described, where nobody says how many."""

MACHINE_ROWS = 100
"""Of these, points that the machine is trained on: the cost of its kernel grows with the square of their number."""

MOST_CAMPAIGNS, MOST_ROWS = 10, 150
"""Campaigns, and rows of each, whose evidence the coordinate weights are learned from."""

MOST_COEFFICIENTS = 160_000
"""Landmarks times campaigns, where nobody says how many landmarks: what a saved file has room for."""

LEAST_NOISE = 1e-6
"""Noise variance, in units of a campaign's variance, below which coefficients would only amplify rounding."""

CANCELLED = 1e-10
"""Spread of the mean of the campaigns' predictions, in units of the largest, that is nothing but rounding."""

SHOWN = 10
"""Campaigns that a message names, of many."""

CAMPAIGN = "campaign"
"""Column that says which of several tables, pooled to one, a row is of."""


def pooled(tables: Any, target: Any, space: Any, by: str | None) -> tuple[Any, Any]:
    """Return several tables as one, with a column `CAMPAIGN` that numbers them unless `by` names one they have.

    The target's name comes with it, as results and studies have one of their own.

    Raises
    ------
    TableError
        If they are no list of tables with one target, or have a column of this name already.
    """
    import pandas as pd

    if not isinstance(tables, list) or not tables or not isinstance(space, ParameterSpace):
        raise TableError("combine='pool' (--combine pool) needs a list of tables, one for each campaign, and one space")
    if target is not None and not isinstance(target, str):
        raise TableError("combine='pool' (--combine pool) needs one target (--target) for all tables; rename columns")
    read = [as_frame(completed(table, space.names), target) for table in tables]
    if not all(isinstance(frame, pd.DataFrame) for frame, _ in read):
        raise TableError(
            "combine='pool' (--combine pool) needs a list of DataFrames, scikit-optimize results or Optuna studies"
        )
    named = list(dict.fromkeys(name for _, name in read))
    if len(named) > 1:
        raise TableError(f"combine='pool' (--combine pool): tables call their target {named}; name one target for all")
    frames = [frame for frame, _ in read]
    if by is None:
        if any(CAMPAIGN in frame.columns for frame in frames):
            raise TableError(
                f"a table has a column {CAMPAIGN!r} already; name it, by={CAMPAIGN!r} (--by {CAMPAIGN}), or rename it"
            )
        frames = [frame.assign(**{CAMPAIGN: f"table {number}"}) for number, frame in enumerate(frames, 1)]
    return pd.concat(frames, ignore_index=True), named[0]


class Members(NamedTuple):
    """Which campaign each row of a table is of.

    Parameters
    ----------
    by
        What campaigns are called.
    labels, days
        The campaign of each row, and its day; None if nobody said when it was.
    names
        What rows are called.
    """

    by: str
    labels: list[Any]
    days: list[Any] | None
    names: RowNames


def members_of(sources: Sequence[Source], by: str | None, dates: str | None, task: str, resume: Any) -> Members | None:
    """Return the campaign of each row of the only table; None where nobody told campaigns apart.

    Raises
    ------
    FitError
        If an argument does not go with campaigns.
    TableError
        If there are dates alone or several tables, `by` or `dates` is no column, a parameter or the target, or `by` has
        gaps.
    """
    if by is None:
        if dates is not None:
            raise TableError("dates (--dates) are of campaigns, which by (--by) names; leave them out")
        return None
    if len(sources) > 1:
        raise TableError("by (--by) tells the campaigns of one table; for a table each use combine='pool'")
    if task == "classification" or resume is not None:
        raise FitError("campaigns (by, --by) have numbers as outcomes, and no resume; leave it out")
    (source,) = sources
    labels = _column(source, by, "by (--by)", "tell campaigns apart")
    if isinstance(source.groups, str) and source.groups == by:
        raise TableError(
            f"groups (--groups) is {by!r}, too: other campaigns do not predict one that is left out; leave groups out"
        )
    names, gaps = RowNames.of(source.table), np.flatnonzero(labels.isna())
    if gaps.size:
        raise TableError(f"column {by!r} is empty in {names.at(gaps)}; name the campaign of each row")
    days = None if dates is None else list(_column(source, dates, "dates (--dates)", "hold the day of each row"))
    return Members(by, list(labels), days, names)


def _column(source: Source, name: Any, argument: str, purpose: str) -> Any:
    if not isinstance(name, str):
        raise TableError(f"{argument} must name a column, got {type(name).__name__}")
    columns = list(getattr(source.table, "columns", ()))
    check_doubled(columns, [name])
    if name not in columns:
        close = did_you_mean(name, columns)
        raise TableError(f"{argument}: {name!r} is not a column of the table; it has {columns}{close}")
    if (isinstance(source.target, str) and name == source.target) or name in source.space.names:
        raise TableError(f"{argument}: {name!r} is a parameter or the target; it must {purpose}")
    return source.table[name]


class Campaign(NamedTuple):
    """A campaign's name, and its rows with outcomes in units of their standard deviation, less their mean.

    Parameters
    ----------
    mean, spread
        What was taken off its outcomes, and what they were divided by.
    date
        When it was, as in `mkbo_plugins.covariance.campaigns.CampaignRecord`.
    """

    name: str
    rows: Rows
    mean: float
    spread: float
    date: str | None = None

    def record(self, fit: LandmarkFit, *, added: bool = False) -> CampaignRecord:
        """Return what it was and how well a regression predicts its rows."""
        data = self.rows.data
        error = held_out_error(data, fit.residuals)
        return CampaignRecord(self.name, len(data.y), self.mean, self.spread, error, self.date, added)


def campaigns_of(data: TrainingTable, told: Members, space: ParameterSpace, settings: Settings) -> list[Campaign]:
    """Return the campaigns of a table in order of first appearance, each with comparable outcomes.

    Parameters
    ----------
    data
        All rows.
    told
        Which campaign each row of the table is of that was given.
    space, settings
        As for `mkbo_plugins.pretraining.one_table.fit_table`.

    Raises
    ------
    TableError
        If two campaigns are called alike, there are too many, or some have too few rows or a constant outcome.

    Warns
    -----
    TableWarning
        If no row is left of a campaign, or there is only one, so that its date is left out.
    """
    by, labels = told.by, told.labels
    members: dict[str, list[int]] = {}
    for position, number in enumerate(data.numbers):
        members.setdefault(str(labels[number]), []).append(position)
    _check_names(labels, list(members), by)
    found, refused = [], {}
    for name, positions in members.items():
        try:
            check_rows(len(positions))
            date = _date(told, data.numbers[positions])
            found.append(campaign_of(name, data.rows(np.array(positions)), space, settings, date))
        except MkboError as error:
            refused[name] = error
    if refused:
        name, first = next(iter(refused.items()))
        others = f"; {_named(list(refused)[1:])} cannot be used either" if len(refused) > 1 else ""
        raise type(first)(f"{by} {name!r}: {first}{others}; drop their rows to leave them out") from first
    if told.days is not None and len(found) == 1:
        warnings.warn("dates (--dates) are left out: the only campaign is as its table", TableWarning, stacklevel=3)
    return found


def _date(told: Members, numbers: Int[np.ndarray, " n"]) -> str | None:
    if told.days is None:
        return None
    return period_of([told.days[i] for i in numbers], "dates (--dates)", told.names.only(numbers))


def campaign_of(
    name: str, data: TrainingTable, space: ParameterSpace, settings: Settings, date: str | None
) -> Campaign:
    """Return a table as a campaign with comparable outcomes."""
    rows = Rows.of(data, space, settings)
    mean, spread = mean_and_std(rows.data.y, rows.data.sample_weight)
    return Campaign(name, replace(rows, data=comparable(rows.data, mean, spread)), mean, spread, date)


def _check_names(labels: Sequence[Any], present: Sequence[str], by: str) -> None:
    first: dict[str, Any] = {}
    for label in labels:
        if first.setdefault(str(label), label) != label:
            raise TableError(
                f"by (--by): column {by!r} holds {first[str(label)]!r} and {label!r}, which are written alike; rename "
                "one, or make them one value"
            )
    faulty = [name for name in first if not name.strip() or len(name) > CHARACTERS]
    if faulty:
        raise TableError(
            f"by (--by): column {by!r} holds {faulty[0]!r:.40}; a campaign is called by 1 to {CHARACTERS} characters"
        )
    if len(present) > CAMPAIGNS:
        raise TableError(
            f"by (--by): column {by!r} tells {len(present)} campaigns apart, and a covariance takes at most "
            f"{CAMPAIGNS}; name a column of fewer values, or drop rows"
        )
    lost = [name for name in first if name not in present]
    if lost:
        warnings.warn(
            f"no row of {by} {_named(lost)} has all values, so that it is left out", TableWarning, stacklevel=4
        )


def _named(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN])) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


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
        settings.max_rows,
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
    cov = PretrainedCovariance(space, settings.frame, fixed, record, settings.log_target, (), records, shared)
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
            f"settings occur more than once in {_named(repeated)}; each setting's mean is trained on, weighed by the "
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
