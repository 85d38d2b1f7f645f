"""Laser-induced graphene: records on polyimide as knowledge, graphene oxide on polyimide as the target.

The target is a lookup pool: candidates are the table's rows. Run by hand::

    python -m mkbo_plugins.experiments.lig_graphene TABLE.csv --out FOLDER

Data: H. Wahab et al., Carbon 167 (2020) 609-619, doi:10.1016/j.carbon.2020.05.087.
"""

from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.record import TRAINERS, Trainer
from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.campaign import Campaign, run_campaign
from mkbo_plugins.experiments.regret import normalised_regret, trials_to
from mkbo_plugins.experiments.store import RunStore, make_folder
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.plots import convergence, save_figure
from mkbo_plugins.report.bootstrap import bootstrap_interval
from mkbo_plugins.tables.inputfiles import read_with_columns

SPACE = ParameterSpace.from_dict(
    {
        "power_mW": (0.0, 5500.0),
        "time_ms": (500.0, 20000.0),
        "gas": ["Argon", "Nitrogen", "Air"],
        "pressure_psi": (0.0, 1000.0),
    }
)
TARGET = "G_D_ratio"
TARGETS = ("GOPI", "GOQ")
SOURCE_ROWS = 163
STARTS = 3
FORMS = (DEFAULT_FORM, "transfer", "moment", "two_layer", "normalised")


def _lookup_campaign(
    cov: PretrainedCovariance, form: str, candidates: np.ndarray, values: np.ndarray, seed: int, trials: int
) -> Campaign:
    start = np.random.default_rng(seed).choice(len(values), size=STARTS, replace=False)
    return run_campaign(cov, form, candidates, lambda i: float(values[i]), [int(i) for i in start], trials, seed)


def _pretrained(folder: Path, rows: pd.DataFrame, trainer: Trainer) -> PretrainedCovariance:
    path = folder / f"pi_{trainer}.mkbo.json"
    if not path.exists():
        pretrain(rows, TARGET, SPACE, trainer=trainer, n_jobs=2).save(path)
    return PretrainedCovariance.load(path)


def summarise(regret: dict[tuple[str, str], np.ndarray]) -> pd.DataFrame:
    """Return one row per model: area under regret, trials to 2 %, and paired comparison with the stock model.

    Parameters
    ----------
    regret
        Normalised regret (seeds, trials) by trainer and form; the stock model under ``("-", "stock")``.
    """
    stock = regret["-", "stock"].mean(axis=1)
    rows = []
    for (trainer, form), curves in regret.items():
        area = curves.mean(axis=1)
        low, high = bootstrap_interval(area - stock)
        reach = trials_to(curves, 0.02)
        rows.append(
            {
                "trainer": trainer,
                "form": form,
                "area": area.mean(),
                "difference": (area - stock).mean(),
                "low": low,
                "high": high,
                "harmed": np.mean(area > stock + 0.01),
                "trials_to_2%_mean": reach.mean(),
                "trials_to_2%_median": np.median(reach),
            }
        )
    return pd.DataFrame(rows)


@plain_errors(GOES_ON)
def main(
    table: Annotated[Path, typer.Argument(help="lig_graphene.csv")],
    out: Annotated[Path, typer.Option(help="Folder for runs and results; a second run continues in it.")],
    seeds: Annotated[int, typer.Option(min=1, help="Paired seeds.")] = 10,
    trials: Annotated[int, typer.Option(min=1, help="Trials after three random starts.")] = 30,
    target: Annotated[str, typer.Option(help="Precursor to optimise: GOPI, or GOQ as the unrelated control.")] = "GOPI",
    n_jobs: Annotated[int, typer.Option(help="Parallel processes.")] = 2,
) -> None:
    """Optimise a precursor with knowledge of polyimide, with every form and both trainers."""
    if target not in TARGETS:
        raise MkboError(f"--target must be one of {list(TARGETS)}, got {target!r}")
    data = read_with_columns(table, ("precursor", *SPACE.names, TARGET))
    source = data[data["precursor"] == "PI"].sample(SOURCE_ROWS, random_state=0).reset_index(drop=True)
    pool = data[data["precursor"] == target]
    candidates, values = SPACE.to_raw(pool), pool[TARGET].to_numpy()
    make_folder(out)
    covariances: dict[str, PretrainedCovariance] = {trainer: _pretrained(out, source, trainer) for trainer in TRAINERS}
    models: list[tuple[str, str]] = [("-", "stock"), *((trainer, form) for trainer in TRAINERS for form in FORMS)]
    covariances["-"] = covariances["gp"]
    store = RunStore(out / f"{target}_{trials}_trials")
    jobs: dict[tuple[Hashable, ...], Callable[[], Campaign]] = {
        (trainer, form, seed): partial(_lookup_campaign, covariances[trainer], form, candidates, values, seed, trials)
        for seed in range(seeds)
        for trainer, form in models
    }
    with progress_bar(f"PI to {target}") as report:
        campaigns = store.complete(jobs, n_jobs=n_jobs, report=report)
    best, worst = float(values.max()), float(values.min())
    regret = {
        (trainer, form): np.array(
            [
                normalised_regret(campaigns[trainer, form, seed].best_so_far[STARTS:], best, worst)
                for seed in range(seeds)
            ]
        )
        for trainer, form in models
    }
    shown = {"BoTorch's own covariance": regret["-", "stock"], "pre-trained on polyimide": regret["gp", DEFAULT_FORM]}
    axes = convergence(shown, "distance to the best record, share of range", start=STARTS + 1)
    save_figure(axes.figure, out / f"{target}.png")
    result = summarise(regret)
    result.to_csv(out / f"{target}.csv", index=False)
    typer.echo(result.round(3).to_string(index=False))


if __name__ == "__main__":
    typer.run(main)
