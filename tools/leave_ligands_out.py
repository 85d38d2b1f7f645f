"""What descriptors say of ligands that a table lacks: those of the direct arylation, some left out at a time.

Usage: python tools/leave_ligands_out.py TABLES, a folder with direct_arylation.csv; minutes. It needs RDKit.

A Gaussian process is trained on the rows at 90 degrees of eight of the twelve ligands and predicts those of the other
four, at 90 and at 120 degrees, and searches the latter for a good one; last, one of all twelve predicts its own rows,
held out, and those at 120 degrees.
"""

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.errors import MkboWarning
from mkbo_plugins.pretraining.left_out_campaigns import _Simulation, simulated
from mkbo_plugins.space.parameters import Categorical
from mkbo_plugins.tables.substances import describe_substances
from mkbo_plugins.tables.table import read_table

SMILES = {
    "BrettPhos": "COc1ccc(OC)c(P(C2CCCCC2)C2CCCCC2)c1-c1c(C(C)C)cc(C(C)C)cc1C(C)C",
    "Di-tert-butylphenylphosphine": "CC(C)(C)P(c1ccccc1)C(C)(C)C",
    "(t-Bu)PhCPhos": "CN(C)c1cccc(N(C)C)c1-c1ccccc1P(C(C)(C)C)c1ccccc1",
    "Tricyclohexylphosphine": "C1CCC(CC1)P(C1CCCCC1)C1CCCCC1",
    "PPh3": "c1ccc(cc1)P(c1ccccc1)c1ccccc1",
    "XPhos": "CC(C)c1cc(C(C)C)c(-c2ccccc2P(C2CCCCC2)C2CCCCC2)c(C(C)C)c1",
    "P(2-furyl)3": "c1coc(c1)P(c1ccco1)c1ccco1",
    "Methyldiphenylphosphine": "CP(c1ccccc1)c1ccccc1",
    "1268824-69-6": "CC(C)Oc1cccc(OC(C)C)c1P(C1CCCCC1)C1CCCCC1",
    "JackiePhos": (
        "FC(F)(F)c1cc(cc(c1)C(F)(F)F)P(c1cc(cc(c1)C(F)(F)F)C(F)(F)F)c1c(OC)ccc(OC)c1-c1c(C(C)C)cc(C(C)C)cc1C(C)C"
    ),
    "SCHEMBL15068049": "CC12CC3(C)OC(C)(CC(C)(O1)P2c1ccccc1)O3",
    "Me2PPh": "CP(C)c1ccccc1",
}
TARGET, OTHERS = "yield_pct", ("Base", "Solvent", "concentration_M")
CHOICES, LEFT_OUT, TRIALS = 8, 4, 40


def descriptions() -> dict[str, pd.DataFrame | None]:
    """Return what may describe the ligands, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MkboWarning)
        both = describe_substances(SMILES, fingerprints=3)
    components = [name for name in both if name.startswith("Morgan")]
    return {
        "names alone": None,
        "descriptors": both.drop(columns=components),
        "fingerprints, 3 components": both[components],
        "both": both,
    }


def trained(table: pd.DataFrame, left_out: list[str], numbers: pd.DataFrame | None) -> PretrainedCovariance:
    """Return the covariance of the rows of the other ligands, which knows those left out by their numbers, if any."""
    known = [name for name in SMILES if name not in left_out]
    space = ParameterSpace.from_dict(
        {
            "Base": sorted(set(table["Base"])),
            "Solvent": sorted(set(table["Solvent"])),
            "concentration_M": (0.057, 0.153, "log"),
            "Ligand": known if numbers is None else numbers,
        }
    )
    cov = pretrain(table[~table["Ligand"].isin(left_out)], TARGET, space, trainer="gp", progress=False)
    return cov.with_levels({"Ligand": left_out}) if numbers is None else cov


def scores(predicted: np.ndarray, rows: pd.DataFrame, mean: float) -> Mapping[str, float]:
    """Return how well rows are predicted: in rank, in squared error, and the ligands' means in rank."""
    y = rows[TARGET].to_numpy()
    means = rows.assign(predicted=predicted).groupby("Ligand")[[TARGET, "predicted"]].mean()
    differ = np.ptp(means["predicted"]) > 1e-9 * np.ptp(predicted)
    return {
        "rank correlation of rows": spearmanr(predicted, y).statistic,
        "rank correlation of ligands": spearmanr(means["predicted"], means[TARGET]).statistic if differ else 0.0,
        "explained": 1 - np.sum((predicted - y) ** 2) / np.sum((mean - y) ** 2),
    }


def trials(cov: PretrainedCovariance, rows: pd.DataFrame, left_out: list[str]) -> Mapping[str, float]:
    """Return the trials until one of the best twentieth of some ligands' rows, with the table and without it."""
    space = ParameterSpace(
        tuple(
            p.only(left_out) if isinstance(p, Categorical) and p.name == "Ligand" else p for p in cov.space.parameters
        )
    )
    data = read_table(rows[[*space.names, TARGET]], TARGET, space)
    found = simulated(cov, data, "", _Simulation(data, space, minimise=False, trials=TRIALS, form=DEFAULT_FORM))
    return {"trials": found.library, "stock": found.stock}


def main(folder: Path) -> None:
    """Print medians, and least and largest values, over random choices of ligands."""
    table = pd.read_csv(folder / "direct_arylation.csv")
    cool = table[table["Temp_C"] == 90]
    rng, found, searched = np.random.default_rng(0), [], []
    for _ in range(CHOICES):
        left_out = sorted(rng.choice(list(SMILES), LEFT_OUT, replace=False).tolist())
        for label, numbers in descriptions().items():
            cov = trained(cool, left_out, numbers)
            warm = table[(table["Temp_C"] == 120) & table["Ligand"].isin(left_out)]
            searched.append({"with": label} | dict(trials(cov, warm, left_out)))
            for degrees in (90, 120):
                rows = table[(table["Temp_C"] == degrees) & table["Ligand"].isin(left_out)]
                mean = cool.loc[~cool["Ligand"].isin(left_out), TARGET].mean()
                found.append({"degrees": degrees, "with": label} | dict(scores(cov.predict(rows), rows, mean)))
                print(left_out, found[-1], flush=True, file=sys.stderr)
    frame = pd.DataFrame(found)
    print(frame.groupby(["degrees", "with"], sort=False).agg(["median", "min", "max"]).round(2).to_string())
    print(pd.DataFrame(searched).groupby("with", sort=False).agg(["mean", "median"]).round(1).to_string())
    warm = table[table["Temp_C"] == 120]
    for label, numbers in descriptions().items():
        cov = trained(cool, [], numbers)
        rank = spearmanr(cov.predict(warm), warm[TARGET]).statistic
        print(f"all ligands, {label}: explained {cov.record.explained:.2f}, rank correlation at 120 degrees {rank:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
