"""The three experiments of Shilton et al., arXiv 1802.05370: one as printed, two on public analogues of their data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.experiments.benchmark.metrics import compare
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.experiments.benchmark.runner import Plan, curves, run_all
from mkbo_plugins.experiments.benchmark.simulated import SIMULATED
from mkbo_plugins.space.parameters import FRAMES, Frame

STOCK = "stock_se_mle"
"""The paper's comparison: a squared exponential whose one length scale and noise are most likely."""

MIXTURE, TWO_LAYER, NORMALISED = "kernel_mixture_mle", "two_layer_mle", "normalised_mle"
"""The paper's other models, of which noise is most likely, and the length scale among features."""

DEFAULT, DEFAULT_STOCK = DEFAULT_FORM, "stock"
"""What hosts use unless told otherwise, and what it is without a table; the paper has neither."""

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
    repetitions
        How often it is repeated unless told otherwise.
    setup
        What is run, and what stands for what, in sentences.
    reported
        What the paper reports, in a sentence.
    loss
        Function of the problem to what is drawn of each candidate, (M,), the smaller the better.
    label
        Label of its axis, with the unit.
    scale
        Scale of its axis.
    """

    problem: str
    models: tuple[str, ...]
    repetitions: int
    setup: str
    reported: str
    loss: Callable[[Problem], np.ndarray]
    label: str
    scale: Literal["linear", "log"] = "linear"


def _value(problem: Problem) -> np.ndarray:
    return -problem.outcome


def _miss(problem: Problem) -> np.ndarray:
    return np.sqrt(-problem.outcome)


def _shortfall(problem: Problem) -> np.ndarray:
    return problem.outcome.max() - problem.outcome


EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        SIMULATED: Experiment(
            SIMULATED,
            (STOCK, MIXTURE, TWO_LAYER, DEFAULT_STOCK, DEFAULT),
            10,
            "As printed: minimise sin(5 pi |x|) exp(-5 (|x| - 1/2)^2) over the square from -1 to 1; the table has 100 "
            "uniform points with y = |x|, drawn anew for each repetition. K^E of the squared exponential, not "
            "normalised, is inside a squared exponential. Beside it the default form of this package and its stock.",
            "With GP-UCB the two-layer kernel outperforms standard and mixture; with EI the results are less clear.",
            _value,
            "least f(x)",
        ),
        "two devices": Experiment(
            "droplets_100_150",
            (STOCK, MIXTURE, NORMALISED),
            40,
            "The paper's records of short polymer fibres are private; here droplet generators stand for the devices: "
            "163 sizes from an orifice of 100 um are known, and one of 150 um shall make droplets of 150 um.",
            "The normalised re-weighted kernel outperforms the standard and the mixture, with GP-UCB and with EI.",
            _miss,
            "miss of the droplet size, µm",
            "log",
        ),
        "alloys": Experiment(
            "alloy_calphad",
            (STOCK, NORMALISED),
            10,
            "The paper's alloys and thermodynamic database are private; here yield strengths of published alloys are "
            "known, and phase fractions computed from the open database COST 507 make the utility.",
            "The normalised re-weighted kernel outperforms the standard by a significant margin, with GP-UCB and EI.",
            _shortfall,
            "utility below the best, MPa",
        ),
    }
)
"""The experiments by name; only the first needs no tables."""


def reference(model: str) -> str:
    """Return the name of the model without a table that a model is compared with."""
    return DEFAULT_STOCK if model == DEFAULT else STOCK


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
        One row per experiment, setting and model: means, and paired comparisons with the model's `reference`.
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
    seeds: int | None,
    trials: int,
    n_jobs: int,
    trainer: str = TRAINER,
) -> PaperResults:
    """Run what is missing of the experiments, of the first alone where there is no folder of tables.

    Without `seeds`, each is repeated as often as it says.
    """
    names = list(EXPERIMENTS) if data is not None else [SIMULATED]
    plans = {
        (name, setting): Plan(
            (EXPERIMENTS[name].problem,),
            EXPERIMENTS[name].models,
            seeds or EXPERIMENTS[name].repetitions,
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
    tables = {name: compare(runs, name).set_index("model") for name in {reference(model) for model in models}}
    return pd.concat([tables[reference(model)].loc[[model]] for model in models]).reset_index()


def _joined(tables: Mapping[tuple[str, Setting], pd.DataFrame]) -> pd.DataFrame:
    parts = []
    for (name, setting), table in tables.items():
        labels = {"experiment": name, **setting._asdict()}
        parts.append(pd.concat([pd.DataFrame(labels, index=table.index), table], axis=1))
    return pd.concat(parts, ignore_index=True)
