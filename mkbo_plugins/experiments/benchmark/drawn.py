"""Ordered pairs of tasks, drawn at random from families of real tables, so that nothing is tuned to a few of them.

Half of them are there to choose on, the other half for claims.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from mkbo_plugins.experiments.benchmark import tables
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.experiments.benchmark.tables import SOURCE_ROWS, TablePair, everywhere, of_column, read_columns, where

POOL_ROWS = 400
"""Most candidates of a pool."""

MOST_PAIRS = 40
"""Pairs drawn from one family, so that none dominates."""

LCBENCH = ("batch_size", "max_dropout", "max_units", "num_layers", "learning_rate", "momentum", "weight_decay")
LCBENCH_LOGARITHMIC = ("batch_size", "max_units", "learning_rate", "weight_decay")
DEEPAR = (
    "hp_num_layers",
    "hp_num_cells",
    "hp_dropout_rate_log",
    "hp_learning_rate_log",
    "hp_num_batches_per_epoch_log",
    "hp_context_length_ratio_log",
)
XGBOOST = (
    "hp_log2_min_child_weight",
    "hp_subsample",
    "hp_colsample_bytree",
    "hp_log2_gamma",
    "hp_log2_lambda",
    "hp_eta",
    "hp_max_depth_index",
    "hp_log2_alpha",
)
NAS = tuple(f"hp_x{edge}" for edge in range(6))

Half = Literal["choose", "claim"]
"""What a pair is for."""


@dataclass(frozen=True)
class Family:
    """Tasks that share their parameters, each of which can be knowledge for another.

    Parameters
    ----------
    name
        Name.
    tasks
        Function of the folder of tables to the names of the tasks.
    pair
        Function of two tasks, the table's and the target's, to where their rows are.
    """

    name: str
    tasks: Callable[[Path], Sequence[str]]
    pair: Callable[[str, str], TablePair]


@dataclass(frozen=True)
class DrawnPair:
    """An ordered pair of tasks.

    Parameters
    ----------
    family
        Name of its family.
    name
        Its own name.
    half
        What it is for.
    pair
        Where its rows are.
    """

    family: str
    name: str
    half: Half
    pair: TablePair

    def problem(self, folder: Path, member: int) -> Problem:
        """Return the problem; `member` and the name seed which rows are taken.

        Table and pool are drawn one after the other from one stream: where they are columns of one file, the same seed
        for each would put every row of the table into the pool. Rows of the pool with the same parameters are one
        candidate, which has their mean outcome.

        Raises
        ------
        TableError
            If a file or a column is missing, or no row of a file belongs to the problem.
        """
        rng = np.random.default_rng((zlib.crc32(self.name.encode()), member))
        source, pool = self.pair.parts(folder)
        source = source.sample(min(SOURCE_ROWS, len(source)), random_state=rng)
        columns = self.pair.varying(source, pool)
        means = self.pair.outcome(pool).groupby([pool[column] for column in columns], sort=False).transform("mean")
        candidates = pool.drop_duplicates(columns)
        candidates = candidates.sample(min(POOL_ROWS, len(candidates)), random_state=rng)
        return self.pair.between(f"{self.name}.{member}", source, candidates, means[candidates.index])


def _these(*tasks: str) -> Callable[[Path], Sequence[str]]:
    return lambda folder: tasks


def _lcbench(source: str, pool: str) -> TablePair:
    rows = everywhere, everywhere, of_column(source), of_column(pool)
    return TablePair("lcbench.csv.gz", LCBENCH, *rows, log=LCBENCH_LOGARITHMIC)


def _log_loss(name: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda rows: -np.log(rows[name])


def _salinas(
    file: str, columns: Sequence[str], outcome: tables.Rows, levels: Sequence[str] = ()
) -> tuple[Callable[[Path], Sequence[str]], Callable[[str, str], TablePair]]:
    def pair(source: str, pool: str) -> TablePair:
        return TablePair(file, columns, where("task", source), where("task", pool), outcome, outcome, levels=levels)

    return lambda folder: sorted(read_columns(folder / file)["task"].unique()), pair


FAMILIES = (
    Family("lcbench", lambda folder: [*read_columns(folder / "lcbench.csv.gz")][len(LCBENCH) :], _lcbench),
    Family("salinas_deepar", *_salinas("salinas_deepar.csv.gz", DEEPAR, _log_loss("metric_CRPS"))),
    Family("salinas_xgboost", *_salinas("salinas_xgboost.csv.gz", XGBOOST, of_column("metric_error", -1.0))),
    Family("salinas_nas102", *_salinas("salinas_nas102.csv.gz", NAS, of_column("metric_error", -1.0), NAS)),
    Family(
        "hpo_mlp",
        _these("australian", "blood_transfusion", "car", "credit_g", "kc1", "phoneme", "segment", "vehicle"),
        tables.mlp,
    ),
    Family("hpo_svm", _these("iris", "wine", "breast_cancer", "digits", "digits_250"), tables.svm),
    Family("suzuki_flow", _these("i", "ii", "iii", "iv"), tables.suzuki),
    Family("arylation", _these("90", "105", "120"), lambda source, pool: tables.arylation(int(source), int(pool))),
    Family(
        "concrete",
        _these("3", "7", "14", "28", "56", "90", "100"),
        lambda source, pool: tables.concrete(where("age_days", int(source)), int(pool)),
    ),
    Family("graphene", _these("GOPI", "GOQ", "PI"), tables.graphene),
    Family(
        "droplets",
        _these("75", "100", "125", "150", "175"),
        lambda source, pool: tables.droplets(int(source), int(pool), hit=(float(pool), 1.0)),
    ),
    Family("alloys", _these("handbook", "paper", "patent"), tables.wrought),
)
"""Families of tasks with at least 50 rows each; of droplets, the size of the target's orifice is to be hit.

Left out are the ages of concretes with fewer rows (91, 120, 180, 270, 360, 365 days and 1 day), the wrought alloys of
data sheets (14 rows with a strength) and of the authors' own experiments (4), and the alloys of CALPHAD, which are one
task.
"""


@lru_cache
def drawn_pairs(folder: Path) -> tuple[DrawnPair, ...]:
    """Return the pairs drawn from each family, the same ones each time, the halves taking turns.

    Raises
    ------
    TableError
        If a file is missing.
    """
    drawn = []
    for family in FAMILIES:
        ordered = sorted(permutations(family.tasks(folder), 2))
        order = np.random.default_rng(zlib.crc32(family.name.encode())).permutation(len(ordered))
        for turn, number in enumerate(order[:MOST_PAIRS]):
            source, pool = ordered[number]
            half: Half = "claim" if turn % 2 else "choose"
            drawn.append(DrawnPair(family.name, f"{family.name}.{source}-to-{pool}", half, family.pair(source, pool)))
    return tuple(drawn)


def drawn_problem(name: str, folder: Path, member: int) -> Problem:
    """Return the problem of a drawn pair; `member` seeds which rows are taken.

    Raises
    ------
    TableError
        If a file or a column is missing.
    """
    by_name = {pair.name: pair for pair in drawn_pairs(folder)}
    return by_name[name].problem(folder, member)
