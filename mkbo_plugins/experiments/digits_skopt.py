"""Tuning a support vector classifier of digits with `gp_minimize`, with and without knowledge of other data.

Knowledge is a table of classifiers trained on another data set, or on few of the digits; every classifier is really
trained. Run by hand::

    python -m mkbo_plugins.experiments.digits_skopt --out FOLDER
"""

from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from skopt import gp_minimize
from skopt.space import Real, Space

from mkbo_plugins import PretrainedCovariance, pretrain
from mkbo_plugins.experiments.campaign import Campaign
from mkbo_plugins.experiments.digits import images, log_error
from mkbo_plugins.experiments.regret import trials_to
from mkbo_plugins.experiments.store import RunStore, make_folder
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.report.bootstrap import bootstrap_interval
from mkbo_plugins.skopt import parameter_space, pretrained_regressor

TARGET = "log10_error"
RUNS, SUBSET, STARTS = 64, 250, 3
KNOWLEDGE = ("breast_cancer", "digits_250")
PLAIN = "skopt"


def dimensions() -> list[Real]:
    """Return fresh dimensions, as the host changes those it gets."""
    return [Real(1e-3, 1e5, prior="log-uniform", name="C"), Real(1e-6, 1e2, prior="log-uniform", name="gamma")]


def _data(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "breast_cancer":
        return load_breast_cancer(return_X_y=True)
    return images(SUBSET if name == "digits_250" else None)


def _error(setting: list[float], name: str = "digits") -> float:
    """Return log10 of the cross-validated error of a classifier with C and gamma, trained on a data set."""
    return log_error(make_pipeline(StandardScaler(), SVC(C=setting[0], gamma=setting[1])), *_data(name))


def _pretrained(folder: Path, name: str, n_jobs: int) -> PretrainedCovariance:
    path = folder / f"{name}.mkbo.json"
    if not path.exists():
        space = parameter_space(dimensions())
        settings = space.sobol(RUNS, seed=1)
        errors = Parallel(n_jobs=n_jobs)(delayed(_error)(list(setting), name) for setting in settings)
        pretrain((settings, np.array(errors)), TARGET, space, n_jobs=n_jobs).save(path)
    return PretrainedCovariance.load(path)


def _tune(cov: PretrainedCovariance | None, seed: int, trials: int) -> Campaign:
    start = Space(dimensions()).rvs(STARTS, random_state=seed)
    model = None if cov is None else pretrained_regressor(cov, dimensions(), random_state=seed)
    result = gp_minimize(
        _error,
        dimensions(),
        base_estimator=model,
        x0=start,
        n_initial_points=0,
        n_calls=STARTS + trials,
        random_state=seed,
    )
    # Settings are no entries of a list, so they are numbered; larger values are better in a campaign.
    return Campaign(tuple(range(STARTS + trials)), tuple(float(-value) for value in result.func_vals))


def summarise(errors: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return one row per model: lowest error by trial, paired differences, and trials to the plain model's final error.

    Parameters
    ----------
    errors
        Lowest error so far in percent, (seeds, trials), by model; the plain one under ``"skopt"``.
    """
    plain = errors[PLAIN]
    goal = plain[:, -1].mean()
    rows = []
    for name, found in errors.items():
        area, stock_area = np.log10(found).mean(axis=1), np.log10(plain).mean(axis=1)
        low, high = bootstrap_interval(area - stock_area)
        shown = [trial for trial in (1, 3, 5, 10, 20) if STARTS + trial <= found.shape[1]]
        reach = trials_to(found - goal, 0.0)
        rows.append(
            {
                "model": name,
                **{f"error_{trial}": found[:, STARTS + trial - 1].mean() for trial in shown},
                "log10_difference": (area - stock_area).mean(),
                "low": low,
                "high": high,
                "harmed": float(np.mean(area > stock_area + 0.01)),
                "trials_to_plain_final_median": float(np.median(reach)),
            }
        )
    return pd.DataFrame(rows)


@plain_errors(GOES_ON)
def main(
    out: Annotated[Path, typer.Option(help="Folder for runs and results; a second run continues in it.")],
    seeds: Annotated[int, typer.Option(min=1, help="Paired seeds.")] = 10,
    trials: Annotated[int, typer.Option(min=1, help="Trials after three random starts.")] = 20,
    n_jobs: Annotated[int, typer.Option(help="Parallel processes.")] = 2,
) -> None:
    """Tune on all digits with plain scikit-optimize and with both kinds of knowledge."""
    make_folder(out)
    covariances: dict[str, PretrainedCovariance | None] = {PLAIN: None}
    covariances |= {name: _pretrained(out, name, n_jobs) for name in KNOWLEDGE}
    jobs: dict[tuple[Hashable, ...], Callable[[], Campaign]] = {
        (name, trials, seed): partial(_tune, cov, seed, trials)
        for seed in range(seeds)
        for name, cov in covariances.items()
    }
    with progress_bar("tuning on digits") as report:
        campaigns = RunStore(out / "campaigns").complete(jobs, n_jobs=n_jobs, report=report)
    errors = {
        name: np.array([100 * 10 ** -campaigns[name, trials, seed].best_so_far for seed in range(seeds)])
        for name in covariances
    }
    result = summarise(errors)
    result.to_csv(out / "results.csv", index=False)
    typer.echo(result.round(3).to_string(index=False))


if __name__ == "__main__":
    typer.run(main)
