"""The three experiments of Shilton et al., arXiv 1802.05370, on public analogues of their data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from mkbo_plugins.experiments.benchmark.metrics import compare
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.experiments.benchmark.runner import Plan, curves, run_all
from mkbo_plugins.space.parameters import FRAMES, Frame

STOCK = "stock_se_mle"
"""The paper's comparison: a squared exponential whose one length scale and noise are most likely."""

TRAINER = "svm_iso"
"""The paper's machine has one length scale for all parameters."""


@dataclass(frozen=True)
class Experiment:
    """One of the experiments.

    Parameters
    ----------
    problem
        Name of its problem.
    models
        Names of the models compared.
    analogue
        What stands for what, in a sentence.
    loss
        Function of the problem to what is drawn of each candidate, (M,), the smaller the better.
    label
        Label of its axis, with the unit.
    scale
        Scale of its axis.
    """

    problem: str
    models: tuple[str, ...]
    analogue: str
    loss: Callable[[Problem], np.ndarray]
    label: str
    scale: Literal["linear", "log"] = "linear"


def _miss(problem: Problem) -> np.ndarray:
    return np.sqrt(-problem.outcome)


def _shortfall(problem: Problem) -> np.ndarray:
    return problem.outcome.max() - problem.outcome


ROTATION = "rotation"

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        ROTATION: Experiment(
            "rotation",
            (STOCK, "kernel_mixture", "two_layer"),
            "The paper does not give its function; here rings whose height varies with the direction stand for it, "
            "and the target is the table's function rotated about the centre by a quarter to three quarters of a turn.",
            attrgetter("regret"),
            "regret, share of the range",
        ),
        "two devices": Experiment(
            "droplets_100_150",
            (STOCK, "kernel_mixture", "normalised"),
            "The paper's records of short polymer fibres are private; here droplet generators stand for the devices: "
            "sizes from an orifice of 100 um are known, and one of 150 um shall make droplets of 150 um.",
            _miss,
            "miss of the droplet size, µm",
            "log",
        ),
        "alloys": Experiment(
            "alloy_calphad",
            (STOCK, "two_layer"),
            "The paper's alloys and thermodynamic database are private; here yield strengths of published alloys are "
            "known, and phase fractions computed from the open database COST 507 make the utility.",
            _shortfall,
            "utility below the best, MPa",
        ),
    }
)
"""The experiments by name; only the first needs no tables."""


class Setting(NamedTuple):
    """How an experiment is run: the acquisition and the frame of the covariance."""

    acquisition: str
    frame: Frame


SETTINGS = tuple(Setting(acquisition, frame) for acquisition in ("ei", "ucb") for frame in FRAMES)


class PaperResults(NamedTuple):
    """What the experiments gave.

    Parameters
    ----------
    runs
        One row per campaign with its measures.
    comparison
        One row per experiment, setting and model: means, and paired comparisons with the stock model.
    curves
        Least loss until after each trial, (seeds, trials), by experiment and setting, and by model.
    """

    runs: pd.DataFrame
    comparison: pd.DataFrame
    curves: Mapping[tuple[str, Setting], Mapping[str, np.ndarray]]


def run_paper(
    out: Path,
    data: Path | None,
    *,
    seeds: int,
    trials: int,
    n_jobs: int,
    trainer: str = TRAINER,
) -> PaperResults:
    """Run what is missing of the experiments, of the first alone where there is no folder of tables."""
    names = list(EXPERIMENTS) if data is not None else [ROTATION]
    plans = {
        (name, setting): Plan(
            (EXPERIMENTS[name].problem,),
            EXPERIMENTS[name].models,
            seeds,
            trials,
            trainer=trainer,
            acquisition=setting.acquisition,
            frame=setting.frame,
        )
        for name, setting in product(names, SETTINGS)
    }
    tables = dict(zip(plans, run_all(list(plans.values()), out, data, n_jobs=n_jobs), strict=True))
    return PaperResults(
        _joined(tables),
        _joined({key: _compared(table, plans[key].models) for key, table in tables.items()}),
        {
            (name, setting): curves(
                plan, out, data, EXPERIMENTS[name].problem, EXPERIMENTS[name].models, EXPERIMENTS[name].loss
            )
            for (name, setting), plan in plans.items()
        },
    )


def _compared(runs: pd.DataFrame, models: tuple[str, ...]) -> pd.DataFrame:
    return compare(runs, STOCK).set_index("model").loc[list(models)].reset_index()


def _joined(tables: Mapping[tuple[str, Setting], pd.DataFrame]) -> pd.DataFrame:
    parts = []
    for (name, setting), table in tables.items():
        labels = {"experiment": name, **setting._asdict()}
        parts.append(pd.concat([pd.DataFrame(labels, index=table.index), table], axis=1))
    return pd.concat(parts, ignore_index=True)
