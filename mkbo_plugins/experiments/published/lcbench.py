"""Earlier campaigns on other data sets as knowledge, on LCBench: one data set left out, some of the others a library.

Normalised regret is of the data set's own best and worst configuration; a campaign's first trials count.
"""

from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from mkbo_plugins import ParameterSpace
from mkbo_plugins.covariance.record import Trainer
from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.benchmark.drawn import LCBENCH, LCBENCH_LOGARITHMIC
from mkbo_plugins.experiments.benchmark.tables import read_columns
from mkbo_plugins.experiments.published.library import ARMS, BY, TARGET, Setting, Task, run
from mkbo_plugins.experiments.record import Campaign
from mkbo_plugins.experiments.regret import normalised_regret
from mkbo_plugins.experiments.store import RunStore

FILE = "lcbench.csv.gz"
LIBRARIES = ((1, 100), (2, 100), (4, 100), (8, 100), (34, 100), (8, 400), (34, 400))
"""Earlier campaigns and rows of each."""
SEEDS, TRIALS = 5, 50
SHOWN = (1, 5, 10, 25, 50)


def library_of(table: pd.DataFrame, target: str, tables: int, rows: int, seed: int) -> pd.DataFrame:
    """Return rows of other data sets, drawn by a seed, with the name of each."""
    datasets = datasets_of(table)
    rng = np.random.default_rng((datasets.index(target), tables, rows, seed))
    chosen = rng.permutation([name for name in datasets if name != target])[:tables]
    parts = []
    for name in chosen:
        own = table.iloc[np.sort(rng.permutation(len(table))[:rows])]
        parts.append(own[list(LCBENCH)].assign(**{BY: name, TARGET: own[name]}))
    return pd.concat(parts, ignore_index=True)


def shuffled(library: pd.DataFrame) -> pd.DataFrame:
    """Return a library that says nothing: outcomes of each campaign are those of other rows, always the same ones."""
    rng = np.random.default_rng(0)
    return library.assign(**{TARGET: library.groupby(BY, sort=False)[TARGET].transform(rng.permutation)})


def datasets_of(table: pd.DataFrame) -> list[str]:
    """Return the names of all data sets."""
    return [name for name in table.columns if name not in LCBENCH]


def task(file: Path, target: str, tables: int, rows: int, seed: int, shuffle: bool) -> Task:
    """Return a data set with a library of others."""
    table = read_columns(file, LCBENCH)
    ends = {name: (float(table[name].min()), float(table[name].max())) for name in LCBENCH}
    space = ParameterSpace.from_dict(
        {name: {"bounds": bounds, "log": name in LCBENCH_LOGARITHMIC} for name, bounds in ends.items()}
    )
    library = library_of(table, target, tables, rows, seed)
    return Task(target, space, shuffled(library) if shuffle else library, table.assign(**{TARGET: table[target]}))


def run_lcbench(
    data: Path,
    out: Path,
    *,
    datasets: tuple[str, ...] = (),
    libraries: tuple[tuple[int, int], ...] = LIBRARIES,
    seeds: int = SEEDS,
    trials: int = TRIALS,
    trainer: Trainer = "gp",
    shuffle: bool = False,
    n_jobs: int = 1,
    report: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Leave data sets out, and return normalised regret over their campaigns for each library and arm.

    Parameters
    ----------
    data, out
        Folders with the table, and for runs; a second run continues in it.
    datasets
        Names of those left out; none means all.
    libraries
        For each, the number of earlier campaigns and of rows of each.
    seeds, trials, trainer
        Of the campaigns.
    shuffle
        Shuffle outcomes: libraries that say nothing.
    n_jobs, report
        As for `RunStore.complete`.

    Raises
    ------
    MkboError
        If there is no such data set.
    """
    file = data / FILE
    table = read_columns(file, LCBENCH)
    known = datasets_of(table)
    unknown = [name for name in datasets if name not in known]
    if unknown:
        raise MkboError(f"LCBench has no data sets {unknown}; it has {known}")
    names = datasets or tuple(known)
    jobs: dict[tuple[Hashable, ...], Callable[[], Campaign]] = {}
    for library in libraries:
        for seed in range(seeds):
            for name in names:
                setting = Setting(task, (file, name, *library, seed, shuffle), trainer, trials, True)
                for number, arm in enumerate(ARMS):
                    key = (name, *library, trainer, trials, "shuffled" if shuffle else "known", seed, number)
                    jobs[key] = partial(run, setting, arm, seed)
    done = RunStore(out / "campaigns").complete(jobs, n_jobs=n_jobs, report=report)
    found = []
    for library in libraries:
        for number, arm in enumerate(ARMS):
            regret = np.array(
                [
                    normalised_regret(campaign.best_so_far, table[key[0]].max(), table[key[0]].min())
                    for key, campaign in done.items()
                    if key[-1] == number and key[1:3] == library
                ]
            )
            shown = {f"@{trial}": regret[:, trial - 1].mean() for trial in SHOWN if trial <= trials}
            found.append({"tables": library[0], "rows": library[1], "arm": arm, **shown, "area": regret.mean()})
    return pd.DataFrame(found)
