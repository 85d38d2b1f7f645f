"""A covariance of campaigns with one more of them, or one less, without training on the others again."""

import datetime
import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from mkbo_plugins.core.components.campaigns import Campaigns
from mkbo_plugins.core.training.shared_ard import SharedArd
from mkbo_plugins.core.training.subset import farthest_points_beside
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.campaigns import GRIDS, CampaignRecord, SharedFit, is_period
from mkbo_plugins.covariance.limits import CAMPAIGNS, CHARACTERS
from mkbo_plugins.covariance.pretrained import PretrainedCovariance, only_table
from mkbo_plugins.errors import KernelError, MkboWarning, TableError
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.pretraining.campaigns import assembled, most_landmarks, regression_of
from mkbo_plugins.pretraining.inputs import sources_of
from mkbo_plugins.pretraining.members import campaign_of, named
from mkbo_plugins.pretraining.one_table import Settings, check_counts, check_flags
from mkbo_plugins.tables.table import read_table


def add_campaign(
    cov: Covariance,
    table: Any,
    name: str,
    target: str | None = None,
    *,
    date: str | datetime.date | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    noise: Any = None,
    missing: Literal["error", "drop"] = "error",
    n_jobs: int | None = None,
    progress: bool = True,
) -> PretrainedCovariance:
    """Return a covariance of campaigns with one more of them, without training on the others again.

    The new campaign is regressed with the coordinate weights and the noise that the others were learned with, in the
    span of their settings and, as far as `max_rows` leaves room, of its own. The others keep their coefficients, to the
    last bit. What depends on all is computed anew, in seconds: the mean of their predictions, their second moment and
    its unit, and the machine that re-weights the kernel, which is trained on 100 values of the mean.

    Parameters
    ----------
    cov
        The covariance, made by `pretrain` with `by` or ``combine="pool"``; it is not changed.
    table
        The campaign's rows, as for `pretrain`, with the parameters of `cov`.
    name
        What it is called; no campaign of `cov` is called so.
    target
        Name of its target column; None is the name that `cov` knows. It may be of another unit.
    date
        Its day, as ``"2026-11-03"``, or its first and last one, as ``"2026-11-03/2026-11-20"``; None is not known.
    groups, sample_weight, noise, missing, n_jobs, progress
        As for `pretrain`.

    Raises
    ------
    MkboError
        If `cov` is not of campaigns, or was saved before campaigns could be added; or the name or the table cannot be
        used.

    Warns
    -----
    MkboWarning
        As `pretrain`.

    Notes
    -----
    Beside a covariance trained on all campaigns at once, only weights, noise and the settings that span the predictions
    differ: those of the campaigns that were there first are kept. Where these are few or short, or the new ones vary
    with other parameters, train on all again from time to time. On LCBench, with 16 campaigns of 100 rows, predictions
    of a covariance that began with 2, 4, 8 or 12 of them correlate by .987, .998, 1.000 and 1.000 with those of one
    trained on all (median over nine libraries; .931, .994, .999 and 1.000 at least), Gram matrices of the moment by
    .965, .990, .998 and 1.000, those of the normalised K^E by .958, .971, .983 and .991
    (``python tools/grow_library.py TABLES``).
    """
    library = _Library.of(cov)
    cov, pooled, shared = library
    _check_name(name, cov.campaigns)
    day = _period(date)
    target = cov.record.target if target is None and hasattr(table, "columns") else target
    (source,) = sources_of([table], target, cov.space, *([values] for values in (groups, sample_weight, noise)))
    data = read_table(
        source.table,
        source.target,
        source.space,
        log_target=cov.log_target,
        groups=source.groups,
        sample_weight=source.sample_weight,
        noise=source.noise,
        missing=missing,
    )
    for remark in source.remarks(data):
        warnings.warn(remark, stacklevel=2)
    settings = library.settings(n_jobs, progress=progress)
    campaign = campaign_of(name, data, cov.space, settings, day)
    room = most_landmarks(len(pooled.bias) + 1, shared.max_rows) - len(pooled.points)
    own = campaign.rows.X[farthest_points_beside(pooled.points, campaign.rows.X, room)]
    landmarks = np.concatenate([pooled.points, own])
    fit = regression_of(campaign, SharedArd(pooled.kernel, shared.amplitude, shared.noise, True), landmarks)
    kept = np.pad(pooled.alpha, ((0, 0), (0, len(own))))
    grown = Campaigns(pooled.kernel, landmarks, np.vstack([kept, fit.alpha]), np.append(pooled.bias, fit.bias))
    return library.of_others(grown, (*cov.campaigns, campaign.record(fit, added=True)), settings)


def drop_campaign(
    cov: Covariance, name: str, *, n_jobs: int | None = None, progress: bool = True
) -> PretrainedCovariance:
    """Return a covariance of campaigns without one of them; what `add_campaign` computes anew is so here.

    Parameters
    ----------
    cov
        The covariance, of at least three campaigns; it is not changed.
    name
        The campaign to leave out.
    n_jobs, progress
        As for `pretrain`.

    Raises
    ------
    MkboError
        If `cov` is not of campaigns, or was saved before campaigns could be added, has none of this name, or only two.

    Notes
    -----
    Coordinate weights and noise stay those that the campaign may have had a part in, and so do its settings that span
    predictions. Where nothing of it may be left, train on the others again.
    """
    library = _Library.of(cov)
    cov, pooled, _ = library
    names = [campaign.name for campaign in cov.campaigns]
    if not isinstance(name, str) or name not in names:
        raise TableError(f"no campaign is called {name!r:.60}; there are {named(names)}{did_you_mean(name, names)}")
    if len(names) == 2:
        raise TableError("a covariance of one campaign is that of its table; pre-train on it without by (--by)")
    left = [i for i, one in enumerate(names) if one != name]
    smaller = Campaigns(pooled.kernel, pooled.points, pooled.alpha[left], pooled.bias[left])
    records = tuple(cov.campaigns[i] for i in left)
    return library.of_others(smaller, records, library.settings(n_jobs, progress=progress))


def _check_name(name: Any, campaigns: Sequence[CampaignRecord]) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > CHARACTERS:
        raise TableError(f"name (--name) must be a text of 1 to {CHARACTERS} characters, got {name!r:.60}")
    if name in [campaign.name for campaign in campaigns]:
        raise TableError(
            f"name (--name): a campaign is called {name!r:.60} already; give another name, or leave that one out "
            "first, with drop_campaign (mkbo drop)"
        )
    if len(campaigns) == CAMPAIGNS:
        raise TableError(f"a covariance takes at most {CAMPAIGNS} campaigns; drop one, or train on fewer")


def _period(date: Any) -> str | None:
    if date is None:
        return None
    text = date.isoformat()[:10] if isinstance(date, datetime.date) else date
    if not isinstance(text, str) or not is_period(text):
        raise TableError(
            f"date (--date) must be a day, as 2026-11-03, or the first and the last one, as 2026-11-03/2026-11-20, got "
            f"{date!r:.60}"
        )
    return text


class _Library(NamedTuple):
    """A covariance of campaigns, their predictions, and how they were learned from."""

    cov: PretrainedCovariance
    campaigns: Campaigns
    shared: SharedFit

    @classmethod
    def of(cls, cov: Covariance) -> "_Library":
        cov = only_table(cov)
        if cov.fixed.campaigns is None:
            raise KernelError(
                "this covariance is of one table, and campaigns join others; pre-train on all with by= (--by) or "
                "combine='pool' (--combine pool)"
            )
        if cov.shared is None:
            raise KernelError(
                "this covariance was saved before campaigns could be added, and lacks what they shared; pre-train once "
                "more on all tables, with by= (--by) or combine='pool' (--combine pool)"
            )
        return cls(cov, cov.fixed.campaigns, cov.shared)

    def settings(self, n_jobs: int | None, *, progress: bool) -> Settings:
        """Return how the campaigns were trained on."""
        check_counts(self.shared.max_rows, n_jobs)
        check_flags({"progress": progress})
        return Settings(
            template=self.campaigns.kernel,
            ard=self.shared.ard,
            frame=self.cov.frame,
            task="regression",
            trainer=self.cov.record.trainer,  # type: ignore[arg-type]
            grids={name: getattr(self.shared, name) for name in GRIDS},
            log_target=self.cov.log_target,
            ranked=True,
            max_rows=self.shared.max_rows,
            n_jobs=n_jobs,
            progress=progress,
            resume=None,
        )

    def of_others(
        self, campaigns: Campaigns, records: tuple[CampaignRecord, ...], settings: Settings
    ) -> PretrainedCovariance:
        """Return the covariance of other campaigns, evaluated as this one is."""
        cov, shared = self.cov, self.shared
        fitted = assembled(campaigns, records, shared, cov.record.target, shared.notes, cov.space, settings)
        for note in fitted.notes:
            if isinstance(note, MkboWarning):
                warnings.warn(note, stacklevel=3)
        return fitted.cov.with_evaluator(cov.fixed.choice, cov.fixed.tolerance)
