"""Which campaign each row of a table is of, and the rows of each, with comparable outcomes."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from mkbo_plugins.core.training.ard import mean_and_std
from mkbo_plugins.core.training.landmarks import LandmarkFit
from mkbo_plugins.covariance.campaigns import CampaignRecord
from mkbo_plugins.covariance.limits import CAMPAIGNS, CHARACTERS
from mkbo_plugins.errors import FitError, MkboError, TableError, TableWarning
from mkbo_plugins.messages.hints import did_you_mean, listed
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.pretraining.inputs import Source
from mkbo_plugins.pretraining.one_table import Rows, Settings
from mkbo_plugins.pretraining.trainers import held_out_error
from mkbo_plugins.space.space import ParameterSpace, check_doubled
from mkbo_plugins.tables.dates import period_of
from mkbo_plugins.tables.exports import completed
from mkbo_plugins.tables.results import as_frame, is_study
from mkbo_plugins.tables.table import TrainingTable, check_rows

SHOWN = 10
"""Campaigns that a message names, of many."""

CAMPAIGN = "campaign"
"""Column that says which of several tables, pooled to one, a row is of."""


def pooled(tables: Any, target: Any, space: Any, by: str | None) -> tuple[Any, Any]:
    """Return several tables as one, with a column `CAMPAIGN` that numbers them unless `by` names one they have.

    Studies of Optuna are called by their names there, if these differ. The target's name comes with the table, as
    results and studies have one of their own.

    Raises
    ------
    SpaceError
        If a table has a column twice.
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
    targets = list(dict.fromkeys(name for _, name in read))
    if len(targets) > 1:
        raise TableError(
            f"combine='pool' (--combine pool): tables call their target {targets}; name one target for all"
        )
    frames = [frame for frame, _ in read]
    for frame in frames:
        check_doubled(list(frame.columns), frame.columns)
    if by is None:
        if any(CAMPAIGN in frame.columns for frame in frames):
            raise TableError(
                f"a table has a column {CAMPAIGN!r} already; name it, by={CAMPAIGN!r} (--by {CAMPAIGN}), or rename it"
            )
        numbered = [f"table {number}" for number, _ in enumerate(tables, 1)]
        studies = [t.study_name if is_study(t) else name for t, name in zip(tables, numbered, strict=True)]
        names = studies if len(set(studies)) == len(studies) else numbered
        frames = [frame.assign(**{CAMPAIGN: name}) for frame, name in zip(frames, names, strict=True)]
    return pd.concat(frames, ignore_index=True), targets[0]


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
        raise TableError(f"{argument}: {name!r} is not a column of the table; it has {listed(columns)}{close}")
    if (isinstance(source.target, str) and name == source.target) or name in source.space.names:
        raise TableError(f"{argument}: {name!r} is a parameter or the target; it must {purpose}")
    return source.table[name]


class Campaign(NamedTuple):
    """A campaign's name, and its rows with outcomes that can be compared with those of others.

    Parameters
    ----------
    mean, spread
        Mean and standard deviation of its own outcomes.
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
        others = f"; {named(list(refused)[1:])} cannot be used either" if len(refused) > 1 else ""
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
    """Return a table as a campaign with comparable outcomes: normal scores of their ranks."""
    rows = Rows.of(data, space, replace(settings, ranked=True))
    moments = mean_and_std(data.y, data.sample_weight)
    return Campaign(name, replace(rows, data=standardised(rows.data)), *moments, date)


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
            f"no row of {by} {named(lost)} has all values, so that it is left out", TableWarning, stacklevel=4
        )


def named(names: Sequence[str]) -> str:
    """Return names for a message, the first of many."""
    return ", ".join(map(repr, names[:SHOWN])) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def standardised(data: TrainingTable) -> TrainingTable:
    """Return a table with its outcomes, and what is known of their noise, in units of their standard deviation."""
    mean, spread = mean_and_std(data.y, data.sample_weight)
    scatter = data.scatter._replace(sum_of_squares=data.scatter.sum_of_squares / spread**2)
    noise = None if data.noise is None else data.noise / spread
    return replace(data, y=(data.y - mean) / spread, noise=noise, scatter=scatter)
