"""Earlier campaigns on other data sets as knowledge, on LCBench: one data set left out, some of the others a library.

Run by hand: ``python -m mkbo_plugins.experiments.lcbench --data TABLES --out FOLDER --tables 8 --rows 100``.
Normalised regret is of the data set's own best and worst configuration; a campaign's first trials count.
"""

import tempfile
import warnings
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.covariance.record import Trainer
from mkbo_plugins.errors import MkboWarning
from mkbo_plugins.experiments.benchmark.campaign import ACQUISITIONS, run_lookup
from mkbo_plugins.experiments.benchmark.drawn import LCBENCH, LCBENCH_LOGARITHMIC
from mkbo_plugins.experiments.benchmark.first_trials import from_table, space_filling
from mkbo_plugins.experiments.benchmark.lookup import Lookup
from mkbo_plugins.experiments.benchmark.models import MODELS
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.experiments.benchmark.tables import read_columns
from mkbo_plugins.experiments.record import Campaign
from mkbo_plugins.experiments.regret import normalised_regret
from mkbo_plugins.experiments.store import RunStore, make_folder
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.progress import progress_bar

FILE = "lcbench.csv.gz"
BY, TARGET, STARTS = "dataset", "accuracy", 4
STOCK, WITHOUT_TABLE = "stock", "stock, first trials of the library"
ARMS = {
    STOCK: "stock",
    WITHOUT_TABLE: "stock",
    "default form": "similarity_link",
    "default form, direction known": "similarity_link_directed",
    "moment, direction known": "moment_directed",
}
"""Arms with the covariance model of each."""


def library_of(table: pd.DataFrame, target: str, tables: int, rows: int, seed: int) -> pd.DataFrame:
    """Return rows of other data sets, drawn by a seed, with the name of each."""
    datasets = [name for name in table.columns if name not in LCBENCH]
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


def space_of(table: pd.DataFrame) -> ParameterSpace:
    """Return the parameters of LCBench."""
    ends = {name: (float(table[name].min()), float(table[name].max())) for name in LCBENCH}
    return ParameterSpace.from_dict(
        {name: {"bounds": bounds, "log": name in LCBENCH_LOGARITHMIC} for name, bounds in ends.items()}
    )


def run(
    file: Path,
    target: str,
    tables: int,
    rows: int,
    seed: int,
    arm: str,
    trials: int,
    trainer: Trainer,
    *,
    shuffle: bool,
) -> Campaign:
    """Run one campaign on a data set with a library of others."""
    lookup = _known(file, target, tables, rows, seed, trainer, shuffle=shuffle).lookup
    starts = space_filling(lookup, STARTS, seed) if arm == STOCK else from_table(lookup, STARTS)
    acquisition, model = ACQUISITIONS["nei"], MODELS[ARMS[arm]]
    record = run_lookup(lookup, model, seed, trials - STARTS, acquisition, repeats=True, starts=starts)
    return Campaign(record.indices, record.values)


class Known(NamedTuple):
    """A data set through a covariance of others, and the folder with matrices between all of its configurations."""

    lookup: Lookup
    folder: tempfile.TemporaryDirectory[str]


@lru_cache(maxsize=1)
def _known(file: Path, target: str, tables: int, rows: int, seed: int, trainer: Trainer, *, shuffle: bool) -> Known:
    """Return what all arms need of a data set, until the next one is asked for."""
    table = read_columns(file, LCBENCH)
    library = library_of(table, target, tables, rows, seed)
    library = shuffled(library) if shuffle else library
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MkboWarning)
        cov = pretrain(library, TARGET, space_of(table), by=BY, trainer=trainer, n_jobs=1, progress=False)
    points, outcome = table[list(LCBENCH)].to_numpy(float), table[target].to_numpy(float)
    folder = tempfile.TemporaryDirectory()
    problem = Problem(target, cov.space, points[:3], outcome[:3], points, outcome, outcome)
    return Known(Lookup(problem, cov, Path(folder.name)), folder)


@plain_errors(GOES_ON)
def main(
    data: Annotated[Path, typer.Option(help=f"Folder with {FILE}.")],
    out: Annotated[Path, typer.Option(help="Folder for runs and results; a second run continues in it.")],
    tables: Annotated[int, typer.Option(min=1, max=34, help="Earlier campaigns.")] = 8,
    rows: Annotated[int, typer.Option(min=3, max=2000, help="Rows of each.")] = 100,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds.")] = 5,
    trials: Annotated[int, typer.Option(min=5, help="Trials of each campaign.")] = 50,
    trainer: Annotated[Trainer, typer.Option(help="gp or svm.")] = "gp",
    every: Annotated[int, typer.Option(min=1, help="Only every so many data sets.")] = 1,
    shuffle: Annotated[bool, typer.Option("--shuffled", help="Shuffle outcomes: a library that says nothing.")] = False,
    n_jobs: Annotated[int, typer.Option(help="Parallel processes.")] = 1,
) -> None:
    """Leave one data set of LCBench out, and print normalised regret over its campaigns."""
    make_folder(out)
    table = read_columns(data / FILE, LCBENCH)
    datasets = [name for name in table.columns if name not in LCBENCH][::every]
    jobs: dict[tuple[Hashable, ...], Callable[[], Campaign]] = {
        (name, tables, rows, trainer, trials, "shuffled" if shuffle else "known", seed, number): partial(
            run, data / FILE, name, tables, rows, seed, arm, trials, trainer, shuffle=shuffle
        )
        for seed in range(seeds)
        for name in datasets
        for number, arm in enumerate(ARMS)
    }
    with progress_bar("campaigns") as report:
        done = RunStore(out / "campaigns").complete(jobs, n_jobs=n_jobs, report=report)
    found = []
    ends = {name: (table[name].max(), table[name].min()) for name in datasets}
    for number, arm in enumerate(ARMS):
        of_arm = [(str(key[0]), campaign.best_so_far) for key, campaign in done.items() if key[-1] == number]
        regret = np.array([normalised_regret(best, *ends[name]) for name, best in of_arm])
        shown = {f"@{trial}": regret[:, trial - 1].mean() for trial in (1, 5, 10, 25, 50) if trial <= trials}
        found.append({"arm": arm, **shown, "area": regret.mean()})
    result = pd.DataFrame(found)
    result.to_csv(out / f"results_{tables}_{rows}_{trainer}{'_shuffled' if shuffle else ''}.csv", index=False)
    typer.echo(f"{tables} tables of {rows} rows, {len(datasets)} data sets, {seeds} seeds")
    typer.echo(result.round(4).to_string(index=False))


if __name__ == "__main__":
    typer.run(main)
