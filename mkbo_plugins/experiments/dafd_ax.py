"""Droplet generators through Ax: devices of one orifice are the table, those of another the target.

The table knows droplet diameters of devices with an orifice of 100 um; wanted are 150 um from devices with an orifice
of 150 um, that is the least squared miss. Ax's own models, Ax's own transfer learning (``Generators.BOTL``, given the
same table) and the pre-trained covariance drive the same client. Only the devices of the table can be made, so that of
the untried rows the one is tried that the client's own fitted model and acquisition function value most; what the
client suggests between them is timed and dropped. Run by hand::

    python -m mkbo_plugins.experiments.dafd_ax TABLE.csv --out FOLDER

Data: A. Lashkaripour et al., Nat. Commun. 12 (2021) 25, doi:10.1038/s41467-020-20284-z.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from ax.adapter.torch import TorchAdapter
from ax.adapter.transfer_learning.adapter import transfer_learning_generator_specs_constructor
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.auxiliary import AuxiliaryExperimentPurpose
from ax.core.auxiliary_source import AuxiliarySource
from ax.core.observation import ObservationFeatures
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.ax import use_pretrained
from mkbo_plugins.experiments.record import Campaign
from mkbo_plugins.experiments.regret import trials_to
from mkbo_plugins.experiments.store import RunStore, make_folder
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.report.bootstrap import bootstrap_interval
from mkbo_plugins.tables.inputfiles import read_with_columns

SPACE = ParameterSpace.from_dict(
    {
        "aspect_ratio": (1.0, 3.0),
        "expansion_ratio": (2.0, 6.0),
        "normalized_orifice_length": (1.0, 3.0),
        "normalized_water_inlet": (2.0, 4.0),
        "normalized_oil_inlet": (2.0, 4.0),
        "flow_rate_ratio": (2.0, 22.0),
        "capillary_number": (0.03, 1.1, "log"),
    }
)
SIZE = "droplet_um"
MISS = "squared_miss"
WANTED_UM = 150.0
SOURCE_ROWS = 163
STARTS = 3
METHODS = ("ax", "pretrained", "botl")


@dataclass(frozen=True)
class TimedCampaign(Campaign):
    """A campaign with the time of each suggestion.

    Parameters
    ----------
    seconds
        Wall time of each suggestion after the starting points.
    """

    seconds: tuple[float, ...] = ()


def make_client(name: str, metric: str) -> Client:
    """Return a client over `SPACE` that wants a metric small."""
    client = Client()
    client.configure_experiment(
        [
            RangeParameterConfig(p.name, (p.lower, p.upper), "float", scaling="log" if p.log else None)  # type: ignore[attr-defined]
            for p in SPACE.parameters
        ],
        name=name,
    )
    client.configure_optimization(f"-{metric}")
    return client


def _attach(client: Client, point: Mapping[str, Any], metric: str, value: float) -> None:
    client.complete_trial(client.attach_trial(dict(point)), {metric: value})


def _merit(client: Client, points: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the acquisition function at points by the model that made the client's last suggestion."""
    adapter = client._generation_strategy.current_node._fitted_adapter
    assert isinstance(adapter, TorchAdapter)
    return adapter.evaluate_acquisition_function([ObservationFeatures(parameters=dict(point)) for point in points])


def _use_transfer_learning(client: Client, source: pd.DataFrame) -> None:
    table = make_client("table", SIZE)
    for point, size in zip(SPACE.from_raw(SPACE.to_raw(source)), source[SIZE], strict=True):
        _attach(table, point, SIZE, float(size))
    client._experiment.add_auxiliary_experiment(
        AuxiliaryExperimentPurpose.TRANSFERABLE_EXPERIMENT,
        AuxiliarySource(table._experiment, transfer_metric_config={MISS: {SIZE}}),
    )
    specs, _ = transfer_learning_generator_specs_constructor(use_model_selection=False)
    client.set_generation_strategy(GenerationStrategy(nodes=[GenerationNode(name="BOTL", generator_specs=specs)]))


def run(
    method: str, source: pd.DataFrame, cov: PretrainedCovariance, target: pd.DataFrame, seed: int, trials: int
) -> TimedCampaign:
    """Minimise the squared miss over the rows of `target`; values are its negative.

    Parameters
    ----------
    method
        One of `METHODS`.
    source, cov
        The table, and the covariance pre-trained on it.
    target
        Rows to choose among.
    seed
        Seed of the starting rows and of suggestions.
    trials
        Number of trials after the starting rows.
    """
    import torch

    torch.manual_seed(seed)
    raw = SPACE.to_raw(target)
    points = SPACE.from_raw(raw)
    miss = (target[SIZE].to_numpy() - WANTED_UM) ** 2
    client = make_client("target", MISS)
    indices = [int(i) for i in np.random.default_rng(seed).choice(len(miss), STARTS, replace=False)]
    for index in indices:
        _attach(client, points[index], MISS, float(miss[index]))
    if method == "pretrained":
        use_pretrained(client, cov, initial_trials=STARTS, seed=seed)
    elif method == "botl":
        _use_transfer_learning(client, source)
    else:
        client.configure_generation_strategy(initialization_budget=STARTS, initialize_with_center=False)
    seconds = []
    for _ in range(trials):
        began = time.perf_counter()
        (suggested,) = client.get_next_trials(1)
        seconds.append(time.perf_counter() - began)
        client.mark_trial_failed(suggested)
        untried = np.setdiff1d(np.arange(len(miss)), indices)
        chosen = int(untried[np.argmax(_merit(client, [points[i] for i in untried]))])
        _attach(client, points[chosen], MISS, float(miss[chosen]))
        indices.append(chosen)
    return TimedCampaign(tuple(indices), tuple(-float(miss[i]) for i in indices), tuple(seconds))


def summarise(misses: Mapping[str, np.ndarray], seconds: Mapping[str, np.ndarray], best: float) -> pd.DataFrame:
    """Return one row per method: log10 of the least miss, trials to the best rows, and the comparison with Ax's own.

    Parameters
    ----------
    misses
        Least miss so far by method, in um, (seeds, trials).
    seconds
        Seconds by suggestion, (seeds, trials).
    best
        Miss of the last of the best 1 % of rows, in um.
    """
    logs = {method: np.log10(np.maximum(curves, 1e-2)) for method, curves in misses.items()}
    rows = []
    for method, curves in logs.items():
        difference = curves.mean(axis=1) - logs["ax"].mean(axis=1)
        low, high = bootstrap_interval(difference)
        reach = trials_to(misses[method], best)
        rows.append(
            {
                "method": method,
                **{
                    f"miss_um_at_{n}": np.median(misses[method][:, n - 1])
                    for n in (5, 10, 20, 30)
                    if n <= curves.shape[1]
                },
                "log10_miss_area": curves.mean(),
                "difference": difference.mean(),
                "low": low,
                "high": high,
                "trials_to_best_1%_mean": reach.mean(),
                "reached": np.mean(reach <= curves.shape[1]),
                "seconds_per_suggestion": np.median(seconds[method]),
            }
        )
    return pd.DataFrame(rows)


@plain_errors(GOES_ON)
def main(
    table: Annotated[Path, typer.Argument(help="dafd_droplets.csv")],
    out: Annotated[Path, typer.Option(help="Folder for runs and results; a second run continues in it.")],
    seeds: Annotated[int, typer.Option(min=1, help="Paired seeds.")] = 10,
    trials: Annotated[int, typer.Option(min=1, help="Trials after three random starts.")] = 30,
    n_jobs: Annotated[int, typer.Option(help="Parallel processes.")] = 1,
) -> None:
    """Look for droplets of 150 um with Ax's own models, its own transfer learning, and the pre-trained covariance."""
    data = read_with_columns(table, (*SPACE.names, SIZE, "orifice_um")).drop_duplicates([*SPACE.names, "orifice_um"])
    source = data[data["orifice_um"] == 100].sample(SOURCE_ROWS, random_state=0).reset_index(drop=True)
    target = data[data["orifice_um"] == 150].reset_index(drop=True)
    make_folder(out)
    path = out / "orifice_100.mkbo.json"
    if not path.exists():
        pretrain(source, SIZE, SPACE, trainer="gp").save(path)
    cov = PretrainedCovariance.load(path)
    jobs: dict[tuple[Hashable, ...], Callable[[], TimedCampaign]] = {
        (method, seed): partial(run, method, source, cov, target, seed, trials)
        for seed in range(seeds)
        for method in METHODS
    }
    with progress_bar("orifice 100 to 150") as report:
        campaigns = RunStore(out / f"{trials}_trials", TimedCampaign).complete(jobs, n_jobs=n_jobs, report=report)
    every_miss = np.sort(np.abs(target[SIZE].to_numpy() - WANTED_UM))
    best_rows = max(1, round(len(target) / 100))
    misses = {
        m: np.array([np.sqrt(-campaigns[m, seed].best_so_far[STARTS:]) for seed in range(seeds)]) for m in METHODS
    }
    seconds = {m: np.array([campaigns[m, seed].seconds for seed in range(seeds)]) for m in METHODS}
    typer.echo(
        f"{len(target)} rows; random search needs {(len(target) + 1) / (best_rows + 1):.0f} trials on average for one "
        f"of the best {best_rows}, which miss by at most {every_miss[best_rows - 1]:.2f} um"
    )
    result = summarise(misses, seconds, float(every_miss[best_rows - 1]))
    result.to_csv(out / "result.csv", index=False)
    typer.echo(result.round(3).to_string(index=False))


if __name__ == "__main__":
    typer.run(main)
