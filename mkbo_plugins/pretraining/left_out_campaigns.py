"""What a library of campaigns would have saved on its own members: each left out in turn, the others known."""

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from joblib import Parallel, delayed
from scipy.stats import t as student

from mkbo_plugins.core.forms import DEFAULT_FORM, get_form
from mkbo_plugins.core.gp.pool import Pool, PoolParts, first_good, nearest_candidates, trials_until
from mkbo_plugins.core.gp.spacing import Spacing, least_distance
from mkbo_plugins.covariance.directions import Direction
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.covariance.target import for_levels
from mkbo_plugins.errors import FitError, MkboError, MkboWarning, TableError
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.pretraining.inputs import sources_of
from mkbo_plugins.pretraining.members import CAMPAIGN, members_of, pooled
from mkbo_plugins.pretraining.one_table import check_counts, check_flags
from mkbo_plugins.pretraining.training import pretrain
from mkbo_plugins.space.levels import levels_by_name
from mkbo_plugins.space.named import NamedColumns
from mkbo_plugins.space.parameters import Categorical, Numeric, Parameter
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.replicates import joined_replicates
from mkbo_plugins.tables.table import TrainingTable, check_rows, read_table

STARTS = 4
"""First trials, before there is a model."""

SEEDS = 5
"""Runs without the library, of which the mean counts, as their first trials are drawn."""

GOOD = 0.05
"""Share of the rows, the best, one of which is looked for."""

MOST_ROWS = 1_000
"""Rows of a campaign that can be tried; of a longer one so many are drawn."""

FEWEST = 5
"""Campaigns below which nothing is said of campaigns to come."""


@dataclass(frozen=True)
class LeftOut:
    """Trials to one of the best rows of a campaign; one more than were allowed where none was found.

    Parameters
    ----------
    name
        What the campaign is called.
    rows, good
        Rows that could be tried, and how many of them are among the best.
    by_chance
        Expected number in random order.
    stock
        Mean number with the stock covariance.
    first_trials
        Number in the order in which the other campaigns propose first trials, whatever the outcomes are.
    library
        Number with the covariance of the other campaigns.
    """

    name: str
    rows: int
    good: int
    by_chance: float
    stock: float
    first_trials: int
    library: int


@dataclass(frozen=True)
class LeftOutCampaigns:
    """What a library would have saved on each of its campaigns, had it known the others alone.

    Parameters
    ----------
    campaigns
        The campaigns.
    trials
        Trials that were allowed.
    """

    campaigns: tuple[LeftOut, ...]
    trials: int

    @cached_property
    def saved(self) -> Float[np.ndarray, " M"]:
        """Trials that the library saves beside the stock covariance, of each campaign, (M,)."""
        return np.array([one.stock - one.library for one in self.campaigns])

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % interval of the mean of what is saved, over campaigns like these."""
        n = len(self.saved)
        if n < 2:
            return -np.inf, np.inf
        half = float(student.ppf(0.975, n - 1) * self.saved.std(ddof=1) / np.sqrt(n))
        return float(self.saved.mean()) - half, float(self.saved.mean()) + half

    @property
    def conclusion(self) -> str:
        """What this says of a campaign to come, as a sentence."""
        n, (low, high) = len(self.campaigns), self.interval
        stock, library = (np.mean([getattr(one, arm) for one in self.campaigns]) for arm in ("stock", "library"))
        text = (
            f"to one of the best {GOOD:.0%} of a campaign's own rows, the library of the others takes {library:.1f} "
            f"trials on the mean over {n} campaigns, the stock covariance {stock:.1f}"
        )
        if n < FEWEST:
            return f"{text}: {n} campaigns are too few to say what the next one would save; {FEWEST} are the least"
        text += f"; {self.saved.mean():.1f} saved, 95 % interval {low:.1f} to {high:.1f}"
        if low > 0:
            return f"{text}: the library saves trials on campaigns like these"
        if high < 0:
            return f"{text}: the library costs trials on campaigns like these"
        return f"{text}: campaigns differ too much to say whether the library would save trials on the next one"


def leave_one_campaign_out(
    table: Any,
    target: str | None,
    space: ParameterSpace,
    *,
    by: str | None = None,
    minimise: bool = False,
    narrow: bool = True,
    trials: int = 30,
    form: str = DEFAULT_FORM,
    n_jobs: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> LeftOutCampaigns:
    """Say beforehand what a library of campaigns saves: on each of its own, had only the others been known.

    For each campaign in turn, a covariance is pre-trained on the others, and a campaign is simulated in which each row
    of the one left out can be tried once. It ends with one of the best 5 % of these rows. Nothing of the one left out
    enters the covariance: weights and noise that campaigns share are learned without it, and with `narrow` bounds and
    levels are those of the others' rows. Its settings are known, as candidates are, its outcomes one by one.

    Parameters
    ----------
    table, target, space, by
        As for `pretrain`; a list of tables has one campaign each.
    minimise
        Whether small outcomes are good.
    narrow
        Whether `space` was taken from the rows of all campaigns, so that its bounds and levels must be taken from those
        of the others each time. False where it was described by itself.
    trials
        Trials after which a simulated campaign ends.
    form
        Name of the covariance model, whose direction is known.
    n_jobs, progress
        As for `pretrain`; a worker has one campaign at a time.
    **settings
        Further arguments of `pretrain`, those of rows as names of columns.

    Returns
    -------
    LeftOutCampaigns
        Trials of each campaign, with the library, with the stock covariance, in the order of the library's first trials
        and by chance; `LeftOutCampaigns.conclusion` says what follows, and whether campaigns are too few for that.

    Raises
    ------
    MkboError
        If an argument cannot be used, or campaigns without one of them cannot be trained on; the message names it.

    Notes
    -----
    Rows that were recorded are a pool that somebody chose: where a search went to good settings early, many rows are
    good, and little can be saved on them. Of a campaign of few rows the best 5 % are a single one. The interval takes
    campaigns for independent draws; those left out one by one share the others, so that it is a little too narrow. Of
    repeated settings the mean counts, and with ``log_target`` the logarithm. Models have noisy expected improvement and
    the most likely hyperparameters, as the hosts' own.
    """
    _check(minimise, narrow, progress, trials, n_jobs)
    get_form(form)
    if isinstance(table, list):
        (table, target), by = pooled(table, target, space, by), CAMPAIGN if by is None else by
    per_row = {name: settings.get(name) for name in ("groups", "sample_weight", "noise")}
    arrays = [name for name, values in per_row.items() if values is not None and not isinstance(values, str)]
    if arrays:
        raise TableError(f"{arrays[0]} must name a column here, so that rows are left out with their campaign")
    (source,) = sources_of([table], target, space, *([values] for values in per_row.values()))
    told = members_of([source], by, None, settings.get("task", "regression"), settings.get("resume"))
    if told is None:
        raise TableError("by (--by) must name the column that says which campaign a row is of")
    reading: dict[str, Any] = {name: settings[name] for name in ("log_target", "missing") if name in settings}
    data = read_table(source.table, source.target, space, **(reading | per_row))
    labels = np.array([str(label) for label in told.labels])
    names = list(dict.fromkeys(labels[data.numbers].tolist()))
    if len(names) < 2:
        raise TableError(f"column {by!r} names a single campaign; leaving it out leaves none to learn from")
    frame = source.table[[*space.names, data.target, told.by, *(name for name in per_row.values() if name)]]
    jobs = []
    for name in names:
        left_out = labels[data.numbers] == name
        known = _narrowed(space, data.X[~left_out]) if narrow else space
        others = frame.iloc[data.numbers[~left_out]]
        jobs.append((name, others, data.target, known, settings | {"by": by}, left_out))
    simulation = _Simulation(data, space, minimise, trials, form)
    found = []
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    with (
        progress_bar("campaigns left out", show=progress) as report,
        closing(parallel(delayed(_of_one)(simulation, *job) for job in jobs)) as results,
    ):
        for one in results:
            found.append(one)
            if report is not None:
                report(len(found), len(jobs))
    return LeftOutCampaigns(tuple(found), trials)


def _check(minimise: Any, narrow: Any, progress: Any, trials: Any, n_jobs: Any) -> None:
    check_flags({"minimise": minimise, "narrow": narrow, "progress": progress})
    check_counts(None, n_jobs)
    if isinstance(trials, bool) or not isinstance(trials, (int, np.integer)) or trials <= STARTS:
        raise FitError(f"trials must be a whole number above {STARTS}, the first trials, got {trials!r:.60}")


def _narrowed(space: ParameterSpace, X: Float[np.ndarray, "N columns"]) -> ParameterSpace:
    """Return a space with the bounds and levels of raw values, (N, number of parameters); what is constant is left."""
    parameters: list[Parameter] = []
    for parameter, values in zip(space.parameters, X.T, strict=True):
        if np.ptp(values) == 0:
            continue
        if isinstance(parameter, Numeric):
            ends = float(values.min()), float(values.max())
            parameters.append(Numeric(parameter.name, *ends, parameter.log, parameter.integer))
        elif isinstance(parameter, Categorical):
            present = np.unique(values).astype(int)
            parameters.append(parameter.only([parameter.levels[i] for i in present]))
        else:  # levels in order are said by a person
            parameters.append(parameter)
    kept = {parameter.name for parameter in parameters}
    return ParameterSpace(tuple(parameters), tuple(c for c in space.constraints if set(c.names) <= kept))


@dataclass(frozen=True, eq=False)
class _Simulation:
    """Rows of all campaigns, in raw units of a space, and how a campaign over some of them goes."""

    data: TrainingTable
    space: ParameterSpace
    minimise: bool
    trials: int
    form: str


def _of_one(
    simulation: _Simulation,
    name: str,
    others: Any,
    target: str,
    known: ParameterSpace,
    settings: dict[str, Any],
    left_out: Sequence[bool],
) -> LeftOut:
    """Return how the campaign called `name` goes with a covariance of the others."""
    try:
        check_rows(int(np.sum(left_out)))
        own = joined_replicates(simulation.data.rows(np.flatnonzero(left_out)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MkboWarning)
            cov = pretrain(others, target, known, n_jobs=1, progress=False, **settings)
    except MkboError as error:
        raise type(error)(f"without campaign {name!r}: {error}") from error
    return simulated(cov, own, name, simulation)


def simulated(cov: PretrainedCovariance, own: TrainingTable, name: str, simulation: _Simulation) -> LeftOut:
    """Return the trials of a campaign over rows with a covariance, without it and in its first order."""
    X, y = own.X, -own.y if simulation.minimise else own.y
    if len(y) > MOST_ROWS:
        drawn = np.sort(np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False))
        X, y = X[drawn], y[drawn]
    good = y >= np.sort(y)[-max(1, int(GOOD * len(y)))]
    space, most, form = simulation.space, simulation.trials, simulation.form
    cov = for_levels(cov, levels_by_name(space, None))
    Z = np.asarray(NamedColumns.of(cov.space, cov.frame, None, space, None)(X))
    unit = np.asarray(space.to_coordinates(X, "unit"))
    direction: Direction = "opposite" if simulation.minimise else "same"
    spacing = Spacing(unit, unit[:0], least_distance(len(space.names)))
    first = cov.first_design(Z, direction, min(most, len(y)), present=Z[:0], spacing=spacing)
    pool = Pool(PoolParts(cov.fixed, Z), unit)
    mean = None if form == "stock" else np.asarray(cov.directed_mean(direction)(Z))
    stock = [trials_until(pool, "stock", y, good, _spread_starts(space, unit, seed), most) for seed in range(SEEDS)]
    return LeftOut(
        name,
        rows=len(y),
        good=int(good.sum()),
        by_chance=expected_by_chance(len(y), int(good.sum()), most),
        stock=float(np.mean(stock)),
        first_trials=first_good(good[first], most),
        library=trials_until(pool, form, y, good, first[:STARTS].tolist(), most, mean),
    )


def _spread_starts(space: ParameterSpace, unit: Float[np.ndarray, "M k"], seed: int) -> list[int]:
    points = np.asarray(space.to_coordinates(space.sobol(min(STARTS, len(unit)), seed), "unit"))
    return nearest_candidates(points, unit)


def expected_by_chance(rows: int, good: int, most: int) -> float:
    """Return the expected number of trials in random order until one is good; `most` and one count where none is."""
    left = rows - good - np.arange(min(most, rows))
    none_yet = np.cumprod(np.maximum(left, 0) / (rows - np.arange(len(left))))
    return float(1 + none_yet.sum())
