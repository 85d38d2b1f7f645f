"""Campaigns on one task with those on others as a library, on a finite pool of what was evaluated."""

import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import pandas as pd

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.covariance.record import Trainer
from mkbo_plugins.errors import MkboWarning
from mkbo_plugins.experiments.benchmark.campaign import ACQUISITIONS, run_lookup
from mkbo_plugins.experiments.benchmark.first_trials import from_table, space_filling
from mkbo_plugins.experiments.benchmark.lookup import Lookup
from mkbo_plugins.experiments.benchmark.models import MODELS
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.experiments.record import Campaign

BY, TARGET, STARTS = "task", "outcome", 4
STOCK, WITHOUT_TABLE = "stock", "stock, first trials of the library"
ARMS = {
    STOCK: "stock",
    WITHOUT_TABLE: "stock",
    "default form": "similarity_link",
    "default form, direction known": "similarity_link_directed",
    "moment, direction known": "moment_directed",
}
"""Arms with the covariance model of each."""


@dataclass(frozen=True, eq=False)
class Task:
    """A task that is left out, and what is known of others.

    Parameters
    ----------
    name
        Its name.
    space
        The parameters.
    library
        Rows of other tasks, with columns `BY` and `TARGET`.
    own
        Its candidates, with a column `TARGET`, the larger the better.
    """

    name: str
    space: ParameterSpace
    library: pd.DataFrame
    own: pd.DataFrame

    def lookup(self, trainer: Trainer) -> Lookup:
        """Return the task seen through a covariance of the library."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MkboWarning)
            cov = pretrain(self.library, TARGET, self.space, by=BY, trainer=trainer, n_jobs=1, progress=False)
        points, outcome = self.space.to_raw(self.own[list(self.space.names)]), self.own[TARGET].to_numpy(float)
        return Lookup(Problem(self.name, cov.space, points[:3], outcome[:3], points, outcome, outcome), cov, None)


class Setting(NamedTuple):
    """What campaigns with one library have in common.

    Parameters
    ----------
    make, arguments
        Function that makes the task, and what it is called with.
    trainer
        How the library is trained on.
    trials
        Trials, the first ones among them.
    repeats
        Whether a candidate may be tried again.
    """

    make: Callable[..., Task]
    arguments: tuple[Hashable, ...]
    trainer: Trainer
    trials: int
    repeats: bool


def run(setting: Setting, arm: str, seed: int) -> Campaign:
    """Run one campaign of an arm."""
    lookup = _lookup(setting.make, setting.arguments, setting.trainer)
    starts = space_filling(lookup, STARTS, seed) if arm == STOCK else from_table(lookup, STARTS)
    trials, acquisition = setting.trials - STARTS, ACQUISITIONS["nei"]
    record = run_lookup(lookup, MODELS[ARMS[arm]], seed, trials, acquisition, repeats=setting.repeats, starts=starts)
    return Campaign(record.indices, record.values)


@lru_cache(maxsize=1)
def _lookup(make: Callable[..., Task], arguments: tuple[Hashable, ...], trainer: Trainer) -> Lookup:
    """Return what all arms need of a task, until the next one is asked for."""
    return make(*arguments).lookup(trainer)
