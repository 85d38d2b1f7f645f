"""The candidates of the alloy experiment, computed: compositions, their stable phases, and a utility of the phases.

The target of the experiment cannot be measured here; it is a sum of phase fractions, each with the weight that a
regression of yield strengths gives it. Run by hand, then point the benchmark to the folder::

    python -m mkbo_plugins.experiments.calphad --out FOLDER
    mkbo benchmark --problem alloy_calphad --data FOLDER --out bench

The folder must also hold the experiment's knowledge, ``alloy_calphad_known.csv``, with the same columns of composition
and yield strengths ``YS_MPa``. The order of sums differs from process to process in pycalphad, so that last digits do,
and now and then whether the solver converges.
"""

from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from mkbo_plugins import ParameterSpace
from mkbo_plugins.experiments.equilibrium import SOLUTES, Equilibrium, solve
from mkbo_plugins.experiments.store import RunStore, make_folder
from mkbo_plugins.files import write_atomically
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.progress import progress_bar

MOST_WT_PCT = dict(zip(SOLUTES, (1.5, 0.5, 6.0, 1.0, 4.0, 0.3, 9.0, 0.15, 0.2, 2.5), strict=True))

# MPa per unit of phase fraction: ridge regression of the yield strengths of 99 artificially aged alloys on their phase
# fractions, computed as here. Strengths: M. Hu et al., Metall. Mater. Trans. A (2021), doi:10.1007/s11661-021-06279-5.
WEIGHTS = {
    "AL12MN": -409.0,
    "AL13CR2": 4609.0,
    "AL13FE4": -9494.0,
    "AL3M_D022": 842.0,
    "AL3ZR": 45306.0,
    "AL6MN": -2083.0,
    "ALCULI_T1": 5253.0,
    "ALCULI_T2": 1451.0,
    "ALCU_THETA": 1803.0,
    "ALFESI_ALPHA": -5124.0,
    "ALFESI_BETA": 756.0,
    "ALLI": -115.0,
    "ALMNSI_ALPHA": 1696.0,
    "DIAMOND_A4": 5001.0,
    "LAVES_C14": 3823.0,
    "MG2SI": 1532.0,
    "SI2TI": 7466.0,
    "SI2ZR": 43052.0,
    "SITI": 64958.0,
    "SPHASE": 3800.0,
    "TAU": 4424.0,
}
UNWEIGHTED = ("ALCULI_TB", "FCC_A1", "MG2ZN11", "SIZR")
"""Further phases that the table always has a column for."""


def compositions(n: int) -> pd.DataFrame:
    """Return the first `n` of a scrambled Sobol sequence of contents in wt.%, to four decimals, (n, 10)."""
    space = ParameterSpace.from_dict({name: (0.0, most) for name, most in MOST_WT_PCT.items()})
    return pd.DataFrame(space.sobol(n, seed=0).round(4), columns=list(SOLUTES))


def candidates(alloys: pd.DataFrame, equilibria: list[Equilibrium]) -> pd.DataFrame:
    """Return the table of the alloys that converged.

    Parameters
    ----------
    alloys
        Contents in wt.%, (n, 10).
    equilibria
        Their n equilibria.

    Returns
    -------
    pd.DataFrame
        Contents, fraction of every phase, Gibbs energy ``GM_J_mol`` and ``utility_demo``.
    """
    converged = [e.converged for e in equilibria]
    kept = [e for e in equilibria if e.converged]
    phases = sorted({*WEIGHTS, *UNWEIGHTED}.union(*(e.fractions for e in kept)))
    fractions = pd.DataFrame([e.fractions for e in kept], columns=phases).fillna(0.0)
    utility = fractions[list(WEIGHTS)] @ pd.Series(WEIGHTS)
    table = pd.concat([alloys[converged].reset_index(drop=True), fractions.round(6)], axis=1)
    return table.assign(GM_J_mol=[e.energy for e in kept], utility_demo=utility.round(3))


@plain_errors(GOES_ON)
def main(
    out: Annotated[Path, typer.Option(help="Folder for the table; the same command goes on in it.")],
    rows: Annotated[int, typer.Option(min=1, help="Compositions.")] = 512,
    jobs: Annotated[int, typer.Option(help="Parallel processes; -1 for all cores.")] = -1,
) -> None:
    """Compute phase fractions and utility of aluminium alloys: alloy_calphad_candidates.csv."""
    make_folder(out)
    alloys = compositions(rows)
    contents = list(alloys.itertuples(index=False, name=None))
    solving: dict[tuple[Hashable, ...], Callable[[], Equilibrium]] = {
        ("alloy", *content): partial(solve, content) for content in contents
    }
    store = RunStore(out / "equilibria", Equilibrium)
    typer.echo(f"{rows} equilibria of eleven elements; those computed before are used")
    with progress_bar("equilibria") as report:
        equilibria = list(store.complete(solving, n_jobs=jobs, report=report).values())
    table = candidates(alloys, equilibria)
    write_atomically(out / "alloy_calphad_candidates.csv", table.to_csv(index=False).encode())
    failed = alloys[[not e.converged for e in equilibria]]
    write_atomically(out / "not_converged.csv", failed.to_csv(index=False).encode())
    typer.echo(f"{len(table)} rows are in {out / 'alloy_calphad_candidates.csv'}")
    if len(failed):
        typer.echo(f"Left out, since the solver did not converge: {len(failed)} of {rows}, in not_converged.csv")
        typer.echo(failed.to_string())


if __name__ == "__main__":
    typer.run(main)
