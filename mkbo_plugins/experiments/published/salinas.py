"""Hyperparameter tuning with all evaluations of other tasks known, beside published results.

The tables and the results beside them are of D. Salinas, H. Shen, V. Perrone, "A quantile-based approach for
hyperparameter transfer learning", ICML 2020. One task is left out; its evaluated configurations are the candidates. A
regret is (best so far - least) / (largest - least) of the task's errors, and the gain that of random search less it, in
units of that of random search, which is known exactly.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
from jaxtyping import Float
from pandas.api.types import is_numeric_dtype

from mkbo_plugins import ParameterSpace
from mkbo_plugins.covariance.record import Trainer
from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.benchmark.tables import read_columns
from mkbo_plugins.experiments.published.library import ARMS, BY, STOCK, TARGET, Setting, Task, run
from mkbo_plugins.experiments.record import Campaign
from mkbo_plugins.experiments.store import RunStore

PUBLISHED = "salinas_published.csv.gz"
RANDOM = "random search"
SEEDS = 30


@dataclass(frozen=True)
class Family:
    """A family of tasks.

    Parameters
    ----------
    file
        File of its evaluations.
    metric
        Column of the error, which spans powers of ten if `logarithm`.
    published
        What it is called in the published results.
    trials
        Trials of each campaign there.
    left_out
        Tasks without published results, left out as they were there.
    levels
        Whether parameters that are numbers name levels, too.
    """

    file: str
    metric: str
    published: str
    trials: int
    logarithm: bool = False
    left_out: tuple[str, ...] = ()
    levels: bool = False


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "deepar": Family("salinas_deepar.csv.gz", "metric_CRPS", "DeepAR", 100, True, ("wiki-rolling",)),
        "xgboost": Family("salinas_xgboost.csv.gz", "metric_error", "XGBoost", 100, left_out=("skin_nonskin",)),
        "nas102": Family("salinas_nas102.csv.gz", "metric_error", "nas_bench102", 70, levels=True),
        "fcnet": Family("salinas_fcnet.csv.gz", "metric_loss", "FCNET", 100, True),
    }
)
"""Those whose tables are known here, by name."""


def evaluations(data: Path, family: str) -> pd.DataFrame:
    """Return the evaluations of a family, with an outcome that is the larger, the better."""
    chosen = FAMILIES[family]
    table = read_columns(data / chosen.file)
    table = table[~table[BY].isin(chosen.left_out)]
    error = table[chosen.metric]
    table = table.assign(**{TARGET: -np.log(error) if chosen.logarithm else -error})
    if chosen.levels:
        table = table.astype(dict.fromkeys(parameters_of(table), str))
    return table


def parameters_of(table: pd.DataFrame) -> list[str]:
    """Return the names of the parameters."""
    return [name for name in table.columns if name.startswith("hp_")]


def task(data: Path, family: str, name: str) -> Task:
    """Return a task with all others as its library."""
    table = evaluations(data, family)
    names = parameters_of(table)
    spec = {
        column: sorted(table[column].unique())
        if not is_numeric_dtype(table[column])
        else (float(table[column].min()), float(table[column].max()))
        for column in names
    }
    own = table[BY] == name
    return Task(name, ParameterSpace.from_dict(spec), table.loc[~own, [*names, BY, TARGET]], table[own])


def expected_minimum(values: Float[np.ndarray, " n"], trials: int) -> Float[np.ndarray, " k"]:
    """Return the mean of the least value of 1, 2, ..., k values drawn with replacement, (k,)."""
    ranked, n = np.sort(values), len(values)
    above = (n - np.arange(n + 1)) / n
    at_least = above[None, :] ** np.arange(1, trials + 1)[:, None]
    return (at_least[:, :-1] - at_least[:, 1:]) @ ranked


def run_salinas(
    data: Path,
    out: Path,
    *,
    families: tuple[str, ...] = (),
    seeds: int = SEEDS,
    trials: int | None = None,
    trainer: Trainer = "gp",
    n_jobs: int = 1,
    report: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Leave each task of families out, and return gains over random search beside published ones.

    Campaigns repeat no candidate. With the library's first trials, nothing about them is random, and one seed is all.

    Parameters
    ----------
    data, out
        Folders with the tables, and for runs; a second run continues in it.
    families
        Names in `FAMILIES`; none means those whose tables are in the folder.
    seeds
        Seeds of the stock model's first trials.
    trials
        Trials instead of the published number, at most that.
    trainer
        Of the libraries.
    n_jobs, report
        As for `RunStore.complete`.

    Returns
    -------
    DataFrame
        Family, method, gain, rank of the mean regret among all methods on the mean over tasks, and regret after the
        first and the last trial.

    Raises
    ------
    MkboError
        If there is no such family, or no table.
    """
    unknown = [name for name in families if name not in FAMILIES]
    if unknown:
        raise MkboError(f"there are no families {unknown}; there are {list(FAMILIES)}")
    chosen = families or tuple(name for name, family in FAMILIES.items() if (data / family.file).exists())
    if not chosen:
        raise MkboError(f"{data} has no tables of {list(FAMILIES)}; one would be {next(iter(FAMILIES.values())).file}")
    tables = {family: evaluations(data, family) for family in chosen}
    lengths = {family: min(trials or FAMILIES[family].trials, FAMILIES[family].trials) for family in chosen}
    jobs: dict[tuple[Hashable, ...], Callable[[], Campaign]] = {}
    for family in chosen:
        for name in tables[family][BY].unique():
            setting = Setting(task, (data, family, name), trainer, lengths[family], False)
            for number, arm in enumerate(ARMS):
                for seed in range(seeds if arm == STOCK else 1):
                    jobs[family, name, trainer, lengths[family], seed, number] = partial(run, setting, arm, seed)
    done = RunStore(out / "campaigns").complete(jobs, n_jobs=n_jobs, report=report)
    published = read_columns(data / PUBLISHED)
    found = []
    for family in chosen:
        ours = {key[1:]: campaign for key, campaign in done.items() if key[0] == family}
        theirs = published[published["blackbox"] == FAMILIES[family].published]
        found.append(_compared(family, tables[family], ours, theirs, lengths[family]))
    return pd.concat(found, ignore_index=True)


def _compared(
    family: str,
    table: pd.DataFrame,
    ours: Mapping[tuple[Hashable, ...], Campaign],
    theirs: pd.DataFrame,
    trials: int,
) -> pd.DataFrame:
    gains, regrets = {}, {}
    for name, rows in table.groupby(BY):
        error = rows[FAMILIES[family].metric].to_numpy(float)
        least, extent = error.min(), np.ptp(error)
        best = {
            arm: np.mean([np.minimum.accumulate(error[list(c.indices)]) for k, c in ours.items() if _is(k, name, i)], 0)
            for i, arm in enumerate(ARMS)
        }
        for method, runs in theirs[theirs[BY] == name].groupby("optimizer"):
            best[str(method)] = runs.groupby("iteration")["best"].mean().to_numpy()[:trials]
        best[RANDOM] = expected_minimum(error, trials)
        regret = {method: (values - least) / extent for method, values in best.items()}
        regrets[name] = regret
        gains[name] = {method: np.mean(1 - values / regret[RANDOM]) for method, values in regret.items()}
    gain = pd.DataFrame(gains).T
    area = pd.DataFrame({name: {m: r.mean() for m, r in regret.items()} for name, regret in regrets.items()}).T
    first, last = (
        pd.DataFrame({name: {m: r[at] for m, r in regret.items()} for name, regret in regrets.items()}).T.mean()
        for at in (0, -1)
    )
    result = pd.DataFrame(
        {"gain": gain.mean(), "rank": area.rank(axis=1).mean(), "first": first, "last": last}
    ).sort_values("gain", ascending=False)
    return result.rename_axis("method").reset_index().assign(family=family)[["family", "method", *result.columns]]


def _is(key: tuple[Hashable, ...], name: Hashable, arm: int) -> bool:
    return key[0] == name and key[-1] == arm
