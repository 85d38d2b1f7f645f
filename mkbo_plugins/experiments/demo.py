"""The demonstration behind ``mkbo demo``: tune a classifier with and without knowledge of cheap earlier runs."""

import json
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import cpu_count
from rich.table import Table

from mkbo_plugins import PretrainedCovariance, pretrain
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.errors import ArtefactError, TableError
from mkbo_plugins.experiments.campaign import Campaign, run_campaign
from mkbo_plugins.experiments.digits import SPACE, TARGET, score, tuning_table
from mkbo_plugins.experiments.store import RunStore, make_folder
from mkbo_plugins.files import write_atomically
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.plots import convergence, save_figure

RUNS, SUBSET, CANDIDATES, STARTS = 64, 200, 1000, 3
FORMS = {"stock": "BoTorch's own covariance", DEFAULT_FORM: "pre-trained covariance"}


def run_demo(console: Terminal, out: Path, *, seeds: int, trials: int) -> None:
    """Make the table, pre-train, run paired campaigns, and print and save what came out.

    Parameters
    ----------
    console
        Where to print.
    out
        Folder for the table, the covariance, the finished campaigns, the results and the picture. Whatever is there
        already is used, so an interrupted demonstration continues.
    seeds
        Number of paired campaigns.
    trials
        Trials after the starting points.
    """
    make_folder(out)
    cov = _knowledge(console, out)
    candidates = SPACE.sobol(CANDIDATES, seed=7)
    jobs: dict[tuple[Hashable, ...], Callable[[], Campaign]] = {
        (form, trials, cov.fingerprint[:12], seed): partial(_tune, cov, form, candidates, seed, trials)
        for seed in range(seeds)
        for form in FORMS
    }
    console.print(
        f"Tuning on all images: {seeds} pairs of campaigns, {STARTS} random starting points and {trials} trials each",
    )
    store = RunStore(out / "campaigns")
    found = sum(store.get(key) is not None for key in jobs)
    if found:
        console.print(f"{found} of {len(jobs)} campaigns were finished before")
    with progress_bar("campaigns") as report:
        campaigns = store.complete(jobs, n_jobs=min(len(jobs), cpu_count()), report=report)
    errors = {
        form: np.array([100 * 10**-c.best_so_far for key, c in campaigns.items() if key[0] == form]) for form in FORMS
    }
    _print_results(console, errors)
    _save_results(out, errors)
    console.print(f"Table, covariance, results and picture are in {out.resolve()}", soft_wrap=True)


def _tune(cov: PretrainedCovariance, form: str, candidates: np.ndarray, seed: int, trials: int) -> Campaign:
    start = np.random.default_rng(seed).choice(len(candidates), STARTS, replace=False)
    settings = SPACE.from_raw(candidates)
    return run_campaign(cov, form, candidates, lambda i: score(settings[i]), [int(i) for i in start], trials, seed)


def _knowledge(console: Terminal, out: Path) -> PretrainedCovariance:
    table_file, cov_file = out / "knowledge.csv", out / "digits.mkbo.json"
    if not table_file.exists():
        console.print(f"Condensed knowledge: {RUNS} classifiers trained on {SUBSET} images")
        table = tuning_table(RUNS, SUBSET, seed=1, n_jobs=cpu_count())
        write_atomically(table_file, table.to_csv(index=False).encode())
    if not cov_file.exists():
        console.print("Pre-training the covariance")
        pretrain(_read_knowledge(table_file), TARGET, SPACE, n_jobs=cpu_count()).save(cov_file)
    try:
        cov = PretrainedCovariance.load(cov_file)
    except ArtefactError as error:
        raise ArtefactError(f"{error}; or delete it, and the demonstration trains it again") from error
    console.print(
        f"Held-out predictions explain {cov.record.explained:.0%} of the table's variance; see: mkbo show {cov_file}",
        soft_wrap=True,
    )
    return cov


def _read_knowledge(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (ValueError, UnicodeDecodeError) as error:
        raise TableError(f"{path} is damaged ({error}); delete it, and the demonstration makes it again") from error


def _print_results(console: Terminal, errors: dict[str, np.ndarray]) -> None:
    count = next(iter(errors.values())).shape[1]
    shown = sorted({STARTS, STARTS + 1, STARTS + 2, STARTS + 4, STARTS + 8, count} & set(range(1, count + 1)))
    table = Table(title="Lowest error so far on all images, %: mean over campaigns")
    table.add_column("after trial")
    for form in errors:
        table.add_column(FORMS[form], justify="right")
    for trial in shown:
        table.add_row(str(trial), *(f"{values[:, trial - 1].mean():.2f}" for values in errors.values()))
    console.print(table)
    final = errors["stock"][:, -1].mean()
    reached = np.flatnonzero(errors[DEFAULT_FORM].mean(axis=0) <= final)
    console.print(
        f"The pre-trained model needed {reached[0] + 1} trials, {STARTS} starting points included, for the mean error "
        f"that the stock model had after {count}."
        if reached.size
        else f"The pre-trained model did not reach the stock model's mean error within {count} trials.",
    )


def _save_results(out: Path, errors: dict[str, np.ndarray]) -> None:
    rows = [
        {"model": form, "campaign": run, "trial": trial + 1, "lowest_error_pct": value}
        for form, values in errors.items()
        for (run, trial), value in np.ndenumerate(values)
    ]
    write_atomically(out / "results.csv", pd.DataFrame(rows).to_csv(index=False).encode())
    axes = convergence({FORMS[f]: v for f, v in errors.items()}, "lowest error so far on all images, %", log=True)
    axes.axvspan(0.5, STARTS + 0.5, color="0.93", zorder=0)
    axes.set_xlim(0.5, next(iter(errors.values())).shape[1] + 0.5)
    save_figure(axes.figure, out / "convergence.png")
    summary = {form: values.mean(axis=0).tolist() for form, values in errors.items()}
    write_atomically(out / "summary.json", json.dumps(summary, indent=1).encode())
