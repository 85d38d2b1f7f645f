"""Trials that Optuna's samplers need, with and without knowledge of earlier studies, and with a pre-trained covariance.

Knowledge is what earlier studies tried: 64 classifiers of few digits, or twenty configurations of XGBoost on each of
nine other data sets. TPE gets it as enqueued trials, the pre-trained sampler as a table. Classifiers of digits are
really trained; the error of an XGBoost configuration is a regression's, on 5,000 that were. Run by hand::

    python -m mkbo_plugins.experiments.optuna_studies --out FOLDER [--data FOLDER]
"""

import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import optuna
import pandas as pd
import typer
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.stats import norm
from sklearn.ensemble import ExtraTreesRegressor

from mkbo_plugins import PretrainedCovariance, pretrain
from mkbo_plugins.experiments import digits
from mkbo_plugins.experiments.benchmark.tables import read_columns
from mkbo_plugins.experiments.campaign import Campaign
from mkbo_plugins.experiments.regret import trials_to
from mkbo_plugins.experiments.store import RunStore, make_folder
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.optuna import PretrainedSampler, parameter_space

RUNS, SUBSET, OF_EACH, ENQUEUED = 64, 250, 20, 5
FILE = "salinas_xgboost.csv.gz"
XGBOOST = ("australian", "heart", "madelon", "spambase")
PLAIN = "GPSampler"
SAMPLERS = (PLAIN, "TPESampler", "TPESampler, best enqueued", "PretrainedSampler")
TARGET = "value"


@dataclass(frozen=True, eq=False)
class Task:
    """Something to minimise, and a table of earlier trials.

    Parameters
    ----------
    distributions
        The parameters.
    value
        Function from their values to what is to be small.
    table
        Earlier trials with a column `TARGET`, which is small where they were good.
    """

    distributions: Mapping[str, BaseDistribution]
    value: Callable[[dict[str, Any]], float]
    table: pd.DataFrame


@lru_cache
def digits_task() -> Task:
    """Return the task of tuning a classifier of all digits, with classifiers of few as knowledge."""
    table = digits.tuning_table(RUNS, SUBSET, seed=1)
    return Task(
        {
            "C": FloatDistribution(1e-2, 1e4, log=True),
            "gamma": FloatDistribution(1e-6, 1e1, log=True),
            "components": IntDistribution(2, 60),
            "scaling": CategoricalDistribution(["raw", "standard"]),
        },
        lambda setting: -digits.score(setting),
        table.assign(**{TARGET: -table[digits.TARGET]}),
    )


@lru_cache
def xgboost_task(path: Path, name: str) -> Task:
    """Return the task of tuning XGBoost on a data set, with what was tried on all others as knowledge.

    Errors of a data set are taken by their ranks, as normal scores.
    """
    rows = read_columns(path)
    columns = [column for column in rows.columns if column.startswith("hp_")]
    here = rows[rows["task"] == name]
    model = ExtraTreesRegressor(100, min_samples_leaf=2, random_state=0).fit(
        here[columns].to_numpy(), here["metric_error"]
    )
    parts = []
    for other, group in rows[rows["task"] != name].groupby("task", sort=True):
        part = group.sample(OF_EACH, random_state=len(str(other)))
        ranks = (part["metric_error"].rank() - 0.5) / len(part)
        parts.append(part[[*columns, "task"]].assign(**{TARGET: norm.ppf(ranks)}))
    ends = {column: (float(rows[column].min()), float(rows[column].max())) for column in columns}
    return Task(
        {
            column: IntDistribution(int(low), int(high)) if column.endswith("_index") else FloatDistribution(low, high)
            for column, (low, high) in ends.items()
        },
        lambda setting: float(model.predict([[setting[column] for column in columns]])[0]),
        pd.concat(parts),
    )


def _task(name: str, path: Path | None) -> Task:
    return digits_task() if path is None else xgboost_task(path, name)


def _best(task: Task) -> list[dict[str, Any]]:
    """Return the settings of the best earlier trials, of several data sets the best of each."""
    table = task.table.sort_values(TARGET, kind="stable")
    table = table.drop_duplicates("task") if "task" in table else table
    return table[list(task.distributions)].head(ENQUEUED).to_dict("records")  # type: ignore[return-value]


def _pretrained(folder: Path, name: str, task: Task) -> PretrainedCovariance:
    path = folder / f"{name}.mkbo.json"
    if not path.exists():
        pretrain(task.table, TARGET, parameter_space(task.distributions), trainer="gp", progress=False).save(path)
    return PretrainedCovariance.load(path)


def _sampler(folder: Path, name: str, task: Task, sampler: str, seed: int) -> optuna.samplers.BaseSampler:
    if sampler == PLAIN:
        return optuna.samplers.GPSampler(seed=seed)
    if sampler != SAMPLERS[-1]:
        return optuna.samplers.TPESampler(seed=seed)
    cov = _pretrained(folder, name, task)
    return PretrainedSampler(cov, direction="same", distributions=task.distributions, seed=seed)


def _run(folder: Path, name: str, path: Path | None, sampler: str, seed: int, trials: int) -> Campaign:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    task = _task(name, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # GPSampler says that it may change
        made = _sampler(folder, name, task, sampler, seed)
    study = optuna.create_study(sampler=made)
    for setting in _best(task)[:trials] if "enqueued" in sampler else []:
        study.enqueue_trial(setting)
    for _ in range(trials):
        trial = study.ask(dict(task.distributions))
        study.tell(trial, task.value(trial.params))
    # Settings are no entries of a list, so they are numbered; larger values are better in a campaign.
    return Campaign(tuple(range(trials)), tuple(-float(trial.values[0]) for trial in study.trials))


def summarise(best: Mapping[tuple[str, str], np.ndarray]) -> pd.DataFrame:
    """Return one row per task and sampler: trials to the plain sampler's median final value, and values on the way.

    Parameters
    ----------
    best
        Smallest value so far, (seeds, trials), by task and sampler.
    """
    rows = []
    for (task, sampler), values in best.items():
        goal = float(np.median(best[task, PLAIN][:, -1]))
        plain, needed = (trials_to(of - goal, 0.0) for of in (best[task, PLAIN], values))
        shown = [trial for trial in (5, 10, 20, 30) if trial <= values.shape[1]]
        rows.append(
            {
                "task": task,
                "sampler": sampler,
                "trials": needed.mean(),
                "median": float(np.median(needed)),
                "share_of_plain": needed.mean() / plain.mean(),
                "reached": float(np.mean(needed <= values.shape[1])),
                **{f"value_{trial}": values[:, trial - 1].mean() for trial in shown},
            }
        )
    return pd.DataFrame(rows)


@plain_errors(GOES_ON)
def main(
    out: Annotated[Path, typer.Option(help="Folder for runs and results; a second run continues in it.")],
    data: Annotated[Path | None, typer.Option(help=f"Folder with {FILE}; without it, digits alone.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds.")] = 20,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each study.")] = 30,
    n_jobs: Annotated[int, typer.Option(help="Parallel processes.")] = 1,
) -> None:
    """Tune with Optuna's own samplers and the pre-trained one."""
    make_folder(out)
    files: dict[str, Path | None] = {"digits": None} | ({} if data is None else dict.fromkeys(XGBOOST, data / FILE))
    jobs: dict[tuple[Hashable, ...], Callable[[], Campaign]] = {
        (name, sampler, trials, seed): partial(_run, out, name, path, sampler, seed, trials)
        for seed in range(seeds)
        for name, path in files.items()
        for sampler in SAMPLERS
    }
    with progress_bar("studies") as report:
        campaigns = RunStore(out / "studies").complete(jobs, n_jobs=n_jobs, report=report)
    best = {
        (name, sampler): np.array([-campaigns[name, sampler, trials, seed].best_so_far for seed in range(seeds)])
        for name in files
        for sampler in SAMPLERS
    }
    result = summarise(best)
    result.to_csv(out / "results.csv", index=False)
    typer.echo(result.round(3).to_string(index=False))


if __name__ == "__main__":
    typer.run(main)
