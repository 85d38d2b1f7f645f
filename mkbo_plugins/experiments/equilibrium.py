"""Phase equilibria of aluminium alloys, computed by pycalphad from the COST 507 database in its wheel.

Database: I. Ansara, A. T. Dinsdale, M. H. Rand (eds.), COST 507 Thermochemical Database for Light Metal Alloys, vol. 2,
EUR 18499 (1998). pycalphad: R. Otis, Z.-K. Liu, J. Open Res. Softw. 5 (2017) 1.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any, Self

import numpy as np

try:
    from pycalphad import Database, equilibrium, variables
except ImportError as error:
    raise ImportError(
        "phase equilibria need pycalphad; install it with: pip install 'mkbo_plugins[calphad]'"
    ) from error
from pycalphad.codegen.phase_record_factory import PhaseRecordFactory
from pycalphad.core.phase_rec import PhaseRecord
from pycalphad.core.utils import filter_phases, instantiate_models, unpack_species

from mkbo_plugins.experiments.benchmark.tables import ALLOYING

SOLUTES = ALLOYING
TEMPERATURE_K, PRESSURE_PA = 450.0, 101325.0
LEAST_WT_PCT = 0.001
"""Content that stands for none, since chemical potentials of absent elements are not defined."""

EXCLUDED = ("GAS", "LIQUID")
SAMPLING = (20, 30, 45, 60, 95, 120)
"""Points per degree of freedom to start from. From one number alone, 60 being pycalphad's own, the solver now and then
ends in phases that are only metastable, or does not converge, which depends on how the processor rounds; of several
solutions the one of least energy is taken."""


@dataclass(frozen=True)
class Equilibrium:
    """The stable phases of an alloy.

    Parameters
    ----------
    fractions
        Mole fraction of atoms by phase, summing to 1; empty if the solver did not converge.
    energy
        Gibbs energy in J/mol of atoms; infinite if the solver did not converge.
    """

    fractions: Mapping[str, float]
    energy: float

    @property
    def converged(self) -> bool:
        """Whether the solver converged."""
        return self.energy < np.inf

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Return the equilibrium whose fields JSON holds."""
        return cls(dict(stored["fractions"]), float(stored["energy"]))


class _PhaseRecords(PhaseRecordFactory):
    """Compiled phases, kept however many there are.

    pycalphad keeps 128 and compiles the others at every use; besides, it asks for them by NumPy strings, which it finds
    among those kept but cannot compile.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._kept: dict[str, PhaseRecord] = {}

    def get(self, phase_name: str) -> PhaseRecord:
        name = str(phase_name)
        if name not in self._kept:
            self._kept[name] = PhaseRecord(self, name)
        return self._kept[name]

    __getitem__ = get


@dataclass(frozen=True, eq=False)
class _System:
    """What equilibria of all alloys have in common."""

    database: Database
    components: Sequence[str]
    models: Mapping[str, Any]
    records: _PhaseRecords

    def mole_fractions(self, wt_pct: Sequence[float]) -> np.ndarray:
        """Return the mole fractions of the solutes, (10,), from their contents in wt.%, the balance being aluminium."""
        solutes = np.maximum(wt_pct, LEAST_WT_PCT)
        masses = [self.database.refstates[element]["mass"] for element in self.components if element != "VA"]
        moles = np.array([100 - solutes.sum(), *solutes]) / masses
        return moles[1:] / moles.sum()

    def equilibrium(self, conditions: Mapping[Any, float], density: int) -> Equilibrium:
        """Return the solution that the solver finds from so many points per degree of freedom."""
        found = equilibrium(
            self.database,
            self.components,
            list(self.models),
            conditions,
            model=self.models,
            phase_records=self.records,
            calc_opts={"pdens": density},
        )
        energy = found.GM.item()
        if not np.isfinite(energy):
            return Equilibrium({}, np.inf)
        return Equilibrium(_sum_by_phase(found.Phase.values.ravel(), found.NP.values.ravel()), energy)


@lru_cache(maxsize=1)
def _system() -> _System:
    components = ("AL", *(element.upper() for element in SOLUTES), "VA")
    with warnings.catch_warnings(), as_file(files("pycalphad") / "tests" / "databases" / "COST507.tdb") as path:
        # Definitions that no phase uses, and one of the liquid, which is excluded.
        warnings.filterwarnings("ignore", message="The type definition character")
        database = Database(str(path))
    phases = [p for p in filter_phases(database, unpack_species(database, components)) if p not in EXCLUDED]
    models = instantiate_models(database, components, phases)
    state = {variables.N, variables.P, variables.T}
    return _System(database, components, models, _PhaseRecords(database, components, state, models))


def solve(wt_pct: Sequence[float]) -> Equilibrium:
    """Return the equilibrium of an alloy at 450 K and 101325 Pa among all solid phases of the database.

    The first call in a process compiles the phases.

    Parameters
    ----------
    wt_pct
        Contents of the `SOLUTES` in wt.%, (10,); the balance is aluminium.
    """
    system = _system()
    conditions = {
        variables.T: TEMPERATURE_K,
        variables.P: PRESSURE_PA,
        variables.N: 1,
        **{variables.X(e.upper()): x for e, x in zip(SOLUTES, system.mole_fractions(wt_pct), strict=True)},
    }
    found = [system.equilibrium(conditions, density) for density in SAMPLING]
    return min(found, key=lambda e: e.energy)


def _sum_by_phase(names: np.ndarray, amounts: np.ndarray) -> dict[str, float]:
    """Return amounts by name; a phase that is there with two compositions is one."""
    fractions: dict[str, float] = {}
    for name, amount in zip(names, amounts, strict=True):
        if name:
            fractions[str(name)] = fractions.get(str(name), 0.0) + float(amount)
    return fractions
