"""A campaign as commands are told of it: a table of experiments, and options that say what is wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.cli.options import DirectionName
from mkbo_plugins.core.forms import of_table
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.errors import SpaceError, TableError
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.space import ParameterSpace, check_columns
from mkbo_plugins.tables.constraints import warn_broken
from mkbo_plugins.tables.inputfiles import read_table_file
from mkbo_plugins.tables.requirements import Required, Requirement, check_named, noise_of_trials
from mkbo_plugins.tables.spacefiles import read_space_file
from mkbo_plugins.tables.table import warn_outside
from mkbo_plugins.tables.trials import Trials, check_not_mistaken, outcome_column

if TYPE_CHECKING:
    import pandas as pd

    from mkbo_plugins.botorch.suggest import Advice

OWN_COLUMNS = ("predicted", "uncertainty", "chance", "reason", "why")


@dataclass(frozen=True, eq=False)
class Campaign:
    """What a command was told of a campaign.

    Parameters
    ----------
    cov
        The covariance.
    trials, outcome
        What was tried so far, in raw units of `searched`, and the name of its outcome.
    given, searched
        The space that a file describes, if one does, and the one that is searched.
    fixed
        Parameters that stay constant, by name.
    pool
        The table to choose from, if there is one.
    extra
        Columns of the trials beside parameters and outcome that count.
    requirements, required
        What further outcomes must keep to, as said and with their values.
    noise
        Known standard deviations of outcomes.
    minimise, direction, form
        As for `mkbo_plugins.botorch.suggest.suggest`.
    """

    cov: Covariance
    trials: Trials
    outcome: str
    given: ParameterSpace | None
    searched: ParameterSpace
    fixed: dict[str, Any]
    pool: "pd.DataFrame | None"
    extra: list[str]
    requirements: list[Requirement]
    required: list[Required]
    noise: Float[np.ndarray, " n"] | None
    minimise: bool
    direction: Directions
    form: str

    def advise(self, n: int, seed: int) -> "Advice":
        """Return the next experiments, as `mkbo_plugins.botorch.suggest.suggest` chooses them."""
        from mkbo_plugins.botorch.suggest import suggest

        return suggest(
            self.cov,
            self.trials,
            n,
            space=self.given,
            fixed=self.fixed,
            candidates=None if self.pool is None else self.searched.to_raw(self.pool),
            minimise=self.minimise,
            form=self.form,
            direction=self.direction,
            noise=self.noise,
            required=self.required,
            seed=seed,
        )


def read_campaign(
    cov: Covariance,
    done: Path | None,
    space: Path | None,
    candidates: Path | None,
    *,
    target: str | None,
    noise: str | None,
    require: Sequence[str] | None,
    fix: Sequence[str] | None,
    minimise: bool,
    direction: Sequence[DirectionName] | None,
    form: str,
) -> Campaign:
    """Read what options of `mkbo suggest` say of a campaign.

    Raises
    ------
    MkboError
        If a file or an option cannot be used.

    Warns
    -----
    TableWarning
        If candidates or trials lie outside the bounds of the space, or break its constraints.
    """
    fixed = _fixed(cov, fix or [])
    given = None if space is None else read_space_file(space)
    searched = given or cov.space.without(fixed)
    pool = None if candidates is None else read_table_file(candidates, searched)
    if pool is not None:
        _check_fixed(pool, fixed, cov)
        points = searched.to_raw(pool)
        warn_outside(points, searched, RowNames.of(pool))
        warn_broken(points, searched, RowNames.of(pool))
    requirements = _requirements(require or [], done)
    extra = [name for _, name in _named(requirements, noise)]
    table = None if done is None else read_table_file(done, searched)
    if table is not None:
        for option, name in _named(requirements, noise):
            check_named(table, option, name)
    trials, outcome = _trials(table, target, cov, searched, pool, fixed, [*extra, *meets_columns(requirements)])
    return Campaign(
        cov,
        trials,
        outcome,
        given,
        searched,
        fixed,
        pool,
        extra,
        requirements,
        [] if table is None else [Required.from_table(r, table, outcome, searched) for r in requirements],
        None if noise is None else _noise(table, outcome, noise),
        minimise,
        _direction(direction or [DirectionName.unknown]),
        form,
    )


def meets_columns(requirements: list[Requirement]) -> list[str]:
    """Return the columns of the chances that requirements are met."""
    return [f"chance of {requirement}" for requirement in requirements]


def table_columns(tables: int) -> list[str]:
    """Return the columns of what each of some tables predicts."""
    return [of_table("table_says", i, tables) for i in range(tables)]


def _direction(words: Sequence[DirectionName]) -> Directions:
    return words[0].value if len(words) == 1 else [word.value for word in words]


def _requirements(texts: Sequence[str], done: Path | None) -> list[Requirement]:
    requirements = [Requirement.parse(text) for text in texts]
    if requirements and done is None:
        raise TableError("--require needs the table of --done with the outcomes that are required; leave it out before")
    for i, one in enumerate(requirements):
        if any((one.outcome, one.at_least) == (other.outcome, other.at_least) for other in requirements[:i]):
            raise TableError(f"--require bounds {one.outcome!r} twice from the same side; keep one")
    return requirements


def _named(requirements: list[Requirement], noise: str | None) -> list[tuple[str, str]]:
    """Return the columns that options name, each with its option."""
    named = [(f"--require {str(one)!r}", one.outcome) for one in requirements]
    return named if noise is None else [*named, ("--noise", noise)]


def _noise(table: "pd.DataFrame | None", outcome: str, noise: str) -> Any:
    if table is None:
        raise TableError("--noise names a column of the table of --done; leave it out before the first experiment")
    return noise_of_trials(table, outcome, noise)


def _fixed(cov: Covariance, entries: Sequence[str]) -> dict[str, Any]:
    """Return values by name from texts NAME=VALUE, each read as its parameter's kind asks."""
    fixed: dict[str, Any] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals:
            raise SpaceError(f"--fix takes NAME=VALUE, got {entry!r}")
        if name not in cov.space.names:
            raise SpaceError(f"--fix names {name!r}, which is not pre-trained{did_you_mean(name, cov.space.names)}")
        if name in fixed:
            raise SpaceError(f"--fix gives {name!r} twice; keep one")
        levels = {str(level): level for level in getattr(cov.space[name], "levels", ())}
        try:
            texts = any(isinstance(level, str) for level in levels.values())
            fixed[name] = levels[text] if text in levels else text if texts else float(text)
        except ValueError:
            expected = f"one of {list(levels)}" if levels else "a number"
            raise SpaceError(f"--fix {name}: expected {expected}, got {text!r}") from None
    return fixed


def _check_fixed(table: "pd.DataFrame", fixed: dict[str, Any], cov: Covariance) -> None:
    """Raise a `TableError` if a table has rows in which a fixed parameter has another value."""
    for name, value in fixed.items():
        if name not in table:
            continue
        given = table[name]
        faulty = np.flatnonzero(given.notna() & (given != value))
        if len(faulty):
            names = RowNames.of(table)
            raise TableError(
                f"--fix {name}={value} does not hold in {names.at(faulty)}, where column {name!r} has other values; "
                f"leave these rows out, or describe {name!r} in the target's --space instead of fixing it"
            )


def _trials(
    table: "pd.DataFrame | None",
    target: str | None,
    cov: Covariance,
    space: ParameterSpace,
    pool: "pd.DataFrame | None",
    fixed: dict[str, Any],
    further: list[str],
) -> tuple[Trials, str]:
    """Return the trials and the name of their outcome, which is none of the further columns."""
    if table is None:
        return Trials.none(space), target or cov.targets[0]
    _check_fixed(table, fixed, cov)
    if target is None:
        labels = [] if pool is None else [str(name) for name in pool.columns]
        constant = [name for name in cov.space.names if name not in space.names]
        ignored = [*OWN_COLUMNS, *table_columns(cov.tables), *constant, *further]
        columns = [*map(str, table.columns)]
        check_columns(columns, space.names)
        target = outcome_column(columns, space.names, cov.targets, ignored, labels)
        unused = [name for name in columns if name not in {target, *space.names, *ignored, *labels}]
        check_not_mistaken(table, target, unused)
    return Trials.from_table(table, target, space), target
