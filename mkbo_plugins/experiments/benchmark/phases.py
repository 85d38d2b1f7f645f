"""Weights of phases in the target of the alloy experiment: a regression of yield strength on phase fractions."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from mkbo_plugins.errors import TableError
from mkbo_plugins.experiments.benchmark.tables import ALLOY, ALLOYING, read_columns

MATRIX = "FCC_A1"
"""The phase that the others replace, so that its fraction says nothing that theirs do not."""

PENALTY = 0.1
LEAST_FRACTION = 1e-4
"""A phase that no alloy of the table has this much of has no weight: its fractions are rounding."""

STRENGTH = "YS_MPa"


@dataclass(frozen=True, eq=False)
class PhaseRegression:
    """Ridge regression of yield strength on phase fractions over their maxima.

    Parameters
    ----------
    coefficients
        Strength that each phase brings at its largest fraction in the table, MPa, by phase.
    weights
        Coefficients over these fractions, MPa by unit of phase fraction.
    alloys
        Number of alloys that have the phase.
    rank_correlation
        Spearman correlation of strengths with predictions of held-out fifths.
    by_composition
        The same for a regression on the composition instead.
    """

    coefficients: pd.Series
    weights: pd.Series
    alloys: pd.Series
    rank_correlation: float
    by_composition: float


def _rank_correlation(inputs: pd.DataFrame, strength: pd.Series) -> float:
    model = make_pipeline(MaxAbsScaler(), Ridge(alpha=PENALTY))
    held_out = cross_val_predict(model, inputs, strength, cv=KFold(5, shuffle=True, random_state=0))
    return float(spearmanr(held_out, strength)[0])


def regress_phases(folder: Path) -> PhaseRegression:
    """Return the regression on the tables of the alloy experiment in a folder of the user's.

    Raises
    ------
    TableError
        If a column is missing, or there is no phase in both tables.
    """
    assert ALLOY.pool_file is not None
    known = read_columns(folder / ALLOY.file, (STRENGTH, *ALLOYING))
    candidates = read_columns(folder / ALLOY.pool_file)
    # Phases are written in capitals, unlike elements and all else.
    names = [name for name in map(str, known) if name.isupper() and name in candidates and name != MATRIX]
    fractions = known[[name for name in names if known[name].max() >= LEAST_FRACTION]]
    if fractions.empty:
        raise TableError(
            f"{folder / ALLOY.file} and {ALLOY.pool_file} share no column of a phase, such as AL3ZR; the target of the "
            "alloy experiment is a sum of phase fractions"
        )
    largest = fractions.max()
    fit = Ridge(alpha=PENALTY).fit(fractions / largest, known[STRENGTH])
    coefficients = pd.Series(fit.coef_, fractions.columns).sort_values(ascending=False)
    return PhaseRegression(
        coefficients,
        coefficients / largest[coefficients.index],
        (fractions >= LEAST_FRACTION).sum()[coefficients.index],
        _rank_correlation(fractions, known[STRENGTH]),
        _rank_correlation(known[list(ALLOYING)], known[STRENGTH]),
    )
