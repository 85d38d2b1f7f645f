"""Pairs of real tables: one part of a published table is the knowledge, another the pool to be looked up.

The tables are read from a folder of the user's; each function below says which file it needs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from mkbo_plugins.errors import TableError
from mkbo_plugins.experiments.benchmark.problems import Problem, hitting, labelled
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.inputfiles import read_with_columns

SOURCE_ROWS, POOL_ROWS = 163, 1000
"""Most rows taken as knowledge, and most candidates of a pool."""

ALLOYING = ("Si", "Fe", "Cu", "Mn", "Mg", "Cr", "Zn", "Ti", "Zr", "Li")
GRAPHENE = ("power_mW", "time_ms", "gas", "pressure_psi")
DAFD = (
    "aspect_ratio",
    "expansion_ratio",
    "normalized_orifice_length",
    "normalized_water_inlet",
    "normalized_oil_inlet",
    "flow_rate_ratio",
    "capillary_number",
)
WROUGHT = (*ALLOYING, "V", "Ni", "Sc", "solution_anneal_T_C", "ageing_T_C", "log1p_ageing_time")
MLP = ("alpha", "batch_size", "depth", "learning_rate_init", "width")
SVM = ("log10_C", "log10_gamma")
SUZUKI = ("ligand", "res_time_s", "temperature_C", "cat_loading_pct")
ARYLATION = ("Base", "Ligand", "Solvent", "concentration_M")
CONCRETE = ("cement", "slag", "fly_ash", "water", "superplasticizer", "coarse_aggregate", "fine_aggregate")

Rows = Callable[[pd.DataFrame], pd.Series]

Hit = tuple[float, float] | None
"""Value of an outcome to be hit, with the tolerance; None where the outcome is to be large."""


@dataclass(frozen=True)
class TablePair:
    """Where the knowledge and the pool are.

    Parameters
    ----------
    file
        CSV file of the knowledge, and of the pool unless `pool_file` names another.
    columns
        Parameters; those that do not vary in both parts are left out.
    source, pool
        Which rows are the knowledge and the pool.
    known
        Function of the knowledge's rows to its quantity, (N,).
    outcome
        Function of the pool's rows to the outcome, (M,), the larger the better.
    log
        Parameters on a log scale.
    pool_file
        CSV file of the pool.
    labels
        Whether the knowledge says only if its quantity is above the median.
    hit
        Value of the outcome to be hit, with the tolerance; None where the outcome is to be large.
    levels
        Parameters whose numbers are names of levels.
    """

    file: str
    columns: Sequence[str]
    source: Rows
    pool: Rows
    known: Rows
    outcome: Rows
    log: Sequence[str] = ()
    pool_file: str | None = None
    labels: bool = False
    hit: Hit = None
    levels: Sequence[str] = ()

    def problem(self, name: str, folder: Path, member: int) -> Problem:
        """Return the problem; `member` seeds which rows are taken where there are many.

        Raises
        ------
        TableError
            If a file or a column is missing, or no row of a file belongs to the problem.
        """
        source, pool = self.parts(folder)
        if len(source) > SOURCE_ROWS:
            source = source.sample(SOURCE_ROWS, random_state=member)
        if len(pool) > POOL_ROWS:
            pool = pool.sample(POOL_ROWS, random_state=member)
        return self.between(f"{name}.{member}", source, pool, self.outcome(pool))

    def parts(self, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return all rows of the knowledge and of the pool that have a value.

        Raises
        ------
        TableError
            If a file or a column is missing, or no row of a file belongs to the problem.
        """
        source = self._rows(folder / self.file, self.source, self.known)
        return source, self._rows(folder / (self.pool_file or self.file), self.pool, self.outcome)

    def varying(self, source: pd.DataFrame, pool: pd.DataFrame) -> list[str]:
        """Return the parameters that vary in both parts."""
        return [c for c in self.columns if source[c].nunique() > 1 and pool[c].nunique() > 1]

    def between(self, name: str, source: pd.DataFrame, pool: pd.DataFrame, outcomes: pd.Series) -> Problem:
        """Return the problem of some rows of the knowledge and of the pool, whose outcomes are (M,)."""
        columns = self.varying(source, pool)
        space = _space(pd.concat([source, pool])[columns], self.log)
        outcome = outcomes.to_numpy(float)
        problem = Problem(
            name,
            space,
            space.to_raw(source[columns]),
            self.known(source).to_numpy(float),
            space.to_raw(pool[columns]),
            outcome,
            outcome,
        )
        problem = labelled(problem) if self.labels else problem
        return problem if self.hit is None else hitting(problem, *self.hit)

    def _rows(self, path: Path, chosen: Rows, values: Rows) -> pd.DataFrame:
        """Return the rows of a file that belong to the problem and have a value."""
        table = read_columns(path)
        try:
            rows = table[chosen(table)]
            rows = rows[values(rows).notna()]
            rows = rows.astype(dict.fromkeys(self.levels, str))
            _ = rows[[*self.columns]]
        except KeyError as error:
            raise TableError(f"{path} lacks columns of this problem: {error.args[0]}; it has {list(table)}") from error
        if rows.empty:
            raise TableError(f"{path} has no rows of this problem; is it the table that the documentation names?")
        return rows


@lru_cache
def read_columns(path: Path, columns: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return a table of the user's folder, read once, that must have some columns."""
    if not path.exists():
        raise TableError(f"{path} does not exist; --data must name the folder with the benchmark's tables")
    table = pd.read_csv(path) if path.suffix == ".gz" else read_with_columns(path, columns)
    if "ageing_time_h" in table:
        table["log1p_ageing_time"] = np.log1p(table["ageing_time_h"])
    return table


def _space(values: pd.DataFrame, log: Sequence[str]) -> ParameterSpace:
    spec: dict[str, object] = {}
    for name, column in values.items():
        if pd.api.types.is_numeric_dtype(column):
            spec[str(name)] = (float(column.min()), float(column.max()), *(("log",) if name in log else ()))
        else:
            spec[str(name)] = sorted(column.unique())
    return ParameterSpace.from_dict(spec)


def where(column: str, value: object) -> Rows:
    """Return a function of rows to those that have a value in a column."""
    return lambda table: table[column] == value


def everywhere(table: pd.DataFrame) -> pd.Series:
    """Return all rows."""
    return pd.Series(data=True, index=table.index)


def of_column(name: str, sign: float = 1.0) -> Rows:
    """Return a function of rows to a column of theirs times a sign."""
    return lambda table: sign * table[name]


G_D_RATIO = of_column("G_D_ratio")


def graphene(source: str, pool: str, *, labels: bool = False, hit: Hit = None) -> TablePair:
    """Return one precursor of graphene as knowledge for another."""
    rows = where("precursor", source), where("precursor", pool)
    return TablePair("lig_graphene.csv", GRAPHENE, *rows, G_D_RATIO, G_D_RATIO, labels=labels, hit=hit)


def droplets(source: int, pool: int, hit: Hit) -> TablePair:
    """Return one orifice of a droplet generator, in um, as knowledge for another."""
    rows, size = (where("orifice_um", source), where("orifice_um", pool)), of_column("droplet_um")
    return TablePair("dafd_droplets.csv", DAFD, *rows, size, size, log=("capillary_number",), hit=hit)


def wrought(source: str, pool: str, hit: Hit = None) -> TablePair:
    """Return one kind of publication on wrought alloys as knowledge for another."""
    rows = where("source_kind", source), where("source_kind", pool)
    return TablePair("alloy_uq_wrought.csv", WROUGHT, *rows, of_column("YS_MPa"), of_column("YS_MPa"), hit=hit)


def _accuracy(name: str) -> Rows:
    return of_column(f"err_{name}", -1.0)


def mlp(source: str, pool: str) -> TablePair:
    """Return one data set on which neural networks were tuned as knowledge for another."""
    log = ("alpha", "learning_rate_init")
    return TablePair("hpo_mlp.csv", MLP, everywhere, everywhere, _accuracy(source), _accuracy(pool), log=log)


def svm(source: str, pool: str) -> TablePair:
    """Return one data set on which support vector machines were tuned as knowledge for another."""
    return TablePair("hpo_svm_sklearn.csv", SVM, everywhere, everywhere, _accuracy(source), _accuracy(pool))


def suzuki(source: str, pool: str) -> TablePair:
    """Return one pair of reactants of a Suzuki coupling as knowledge for another."""
    rows = where("case", source), where("case", pool)
    return TablePair("suzuki_flow.csv", SUZUKI, *rows, of_column("yield_pct"), of_column("yield_pct"))


def arylation(source: int, pool: int) -> TablePair:
    """Return one temperature of a direct arylation, in degrees Celsius, as knowledge for another."""
    rows = where("Temp_C", source), where("Temp_C", pool)
    return TablePair("direct_arylation.csv", ARYLATION, *rows, of_column("yield_pct"), of_column("yield_pct"))


def concrete(source: Rows, age: int, hit: Hit = None) -> TablePair:
    """Return some rows of concretes as knowledge for those of an age in days."""
    strength = of_column("strength_MPa")
    return TablePair("concrete.csv", CONCRETE, source, where("age_days", age), strength, strength, hit=hit)


def _early(table: pd.DataFrame) -> pd.Series:
    return table["age_days"] <= 7


ALLOY = TablePair(
    "alloy_calphad_known.csv",
    ALLOYING,
    everywhere,
    everywhere,
    of_column("YS_MPa"),
    of_column("utility_demo"),
    pool_file="alloy_calphad_candidates.csv",
)

TUNING: Mapping[str, TablePair] = MappingProxyType(
    {
        "graphene_pi_gopi": graphene("PI", "GOPI"),
        "graphene_pi_goq": graphene("PI", "GOQ"),
        "graphene_pi_gopi_labels": graphene("PI", "GOPI", labels=True),
        "droplets_100_150": droplets(100, 150, hit=(150.0, 1.0)),
        "alloy_calphad": ALLOY,
        "alloy_handbook_paper": wrought("handbook", "paper"),
        "mlp_car_vehicle": mlp("car", "vehicle"),
        "svm_digits250_digits": svm("digits_250", "digits"),
        "suzuki_ii_iii": suzuki("ii", "iii"),
        "suzuki_iii_i": suzuki("iii", "i"),
        "arylation_90_120": arylation(90, 120),
        "concrete_7_28": concrete(_early, 28),
        "graphene_pi_gopi_hit": graphene("PI", "GOPI", hit=(0.7, 0.01)),
        "concrete_7_28_hit": concrete(_early, 28, hit=(45.0, 0.3)),
    }
)
"""Pairs on which choices are made."""

FRESH: Mapping[str, TablePair] = MappingProxyType(
    {
        "graphene_gopi_pi": graphene("GOPI", "PI"),
        "graphene_gopi_goq": graphene("GOPI", "GOQ"),
        "droplets_75_125": droplets(75, 125, hit=(120.0, 1.0)),
        "alloy_patent_paper": wrought("patent", "paper"),
        "mlp_kc1_phoneme": mlp("kc1", "phoneme"),
        "svm_wine_cancer": svm("wine", "breast_cancer"),
        "suzuki_i_iv": suzuki("i", "iv"),
        "suzuki_iv_ii": suzuki("iv", "ii"),
        "arylation_105_90": arylation(105, 90),
        "concrete_3_56": concrete(where("age_days", 3), 56),
        "graphene_gopi_pi_hit": graphene("GOPI", "PI", hit=(1.0, 0.01)),
        "concrete_3_56_hit": concrete(where("age_days", 3), 56, hit=(45.0, 0.3)),
        "alloy_patent_paper_hit": wrought("patent", "paper", hit=(450.0, 3.0)),
    }
)
"""Pairs kept for the claim."""


def real_problem(name: str, folder: Path, member: int) -> Problem:
    """Return the problem of a pair of `TUNING` or `FRESH`."""
    return {**TUNING, **FRESH}[name].problem(name, folder, member)
