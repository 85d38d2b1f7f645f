"""Phase equilibria agree with a table computed earlier, and an unconverged one is not lost sight of."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("pycalphad", reason="phase equilibria need the extra calphad")

from mkbo_plugins.experiments import calphad
from mkbo_plugins.experiments.benchmark.tables import ALLOYING
from mkbo_plugins.experiments.calphad import WEIGHTS, candidates, compositions
from mkbo_plugins.experiments.equilibrium import SOLUTES, Equilibrium, solve
from tests.conftest import shared_file


@pytest.fixture(scope="module")
def earlier() -> pd.DataFrame:
    return pd.read_csv(shared_file("data/alloy_calphad_candidates.csv"))


def test_compositions_are_the_earlier_ones(earlier):
    drawn = set(compositions(512).itertuples(index=False, name=None))
    known = set(earlier[list(SOLUTES)].itertuples(index=False, name=None))
    assert known < drawn
    assert len(drawn) == 512
    pd.testing.assert_frame_equal(compositions(20), compositions(512).head(20))


def test_equilibria_are_the_earlier_ones(earlier):
    # From the last one's usual starting points, the solver ends in metastable phases.
    rows = pd.concat([earlier.head(4), earlier[earlier["Si"] == 1.1117]])
    assert len(rows) == 5
    computed = candidates(rows[list(SOLUTES)], [solve(row) for row in rows[list(SOLUTES)].to_numpy()])
    assert list(computed) == list(earlier)
    phases = list(earlier.columns[10:-2])
    np.testing.assert_allclose(computed[phases], rows[phases], atol=2e-6)
    np.testing.assert_allclose(computed["GM_J_mol"], rows["GM_J_mol"], atol=1e-2)
    np.testing.assert_allclose(computed["utility_demo"], rows["utility_demo"], atol=0.05)  # weights are to a unit
    np.testing.assert_allclose(computed[phases].sum(axis=1), 1, atol=1e-5)


def test_a_solute_that_is_absent_does_no_harm():
    binary = solve([0, 0, 4.0, 0, 0, 0, 0, 0, 0, 0])
    assert set(binary.fractions) >= {"FCC_A1", "ALCU_THETA"}
    assert binary.fractions["FCC_A1"] > 0.9


@pytest.fixture
def half_solved(monkeypatch):
    """Replace the solver by one that fails on every other alloy, and return what it was asked for."""
    asked = []

    def solve(content):
        asked.append(content)
        return Equilibrium({"FCC_A1": 0.75, "OMEGA": 0.25}, -1.5) if len(asked) % 2 else Equilibrium({}, np.inf)

    monkeypatch.setattr(calphad, "solve", solve)
    return asked


def test_command_reports_what_did_not_converge_and_goes_on(tmp_path, half_solved):
    def command(rows: int) -> str:
        app = typer.Typer()
        app.command()(calphad.main)
        result = CliRunner().invoke(app, ["--out", str(tmp_path), "--rows", str(rows), "--jobs", "1"])
        assert result.exit_code == 0, result.output
        return result.output

    assert "did not converge: 1 of 3" in command(3)
    command(4)
    assert half_solved == list(compositions(4).itertuples(index=False, name=None))
    table = pd.read_csv(tmp_path / "alloy_calphad_candidates.csv")
    failed = pd.read_csv(tmp_path / "not_converged.csv")
    both = pd.concat([table[list(ALLOYING)], failed]).sort_values("Si", ignore_index=True)
    pd.testing.assert_frame_equal(both, compositions(4).sort_values("Si", ignore_index=True))
    assert set(WEIGHTS) < set(table)
    assert table["OMEGA"].eq(0.25).all()
    assert table["utility_demo"].eq(0).all()


def test_without_pycalphad_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycalphad", None)
    monkeypatch.delitem(sys.modules, "mkbo_plugins.experiments.equilibrium")
    with pytest.raises(ImportError, match=r"pip install 'mkbo_plugins\[calphad\]'"):
        importlib.import_module("mkbo_plugins.experiments.equilibrium")
