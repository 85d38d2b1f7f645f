"""Leaving one data set out with the others as a library, on a small table of the same columns."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mkbo_plugins.experiments import lcbench
from mkbo_plugins.experiments.benchmark.drawn import LCBENCH


@pytest.fixture
def data(tmp_path):
    """Return a folder with five data sets of sixty configurations, whose best ones are alike."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(np.exp(rng.uniform(0, 3, (60, len(LCBENCH)))), columns=list(LCBENCH))
    unit = np.log(table.to_numpy()) / 3
    for i in range(5):
        table[f"set{i}"] = 50 + 40 * np.exp(-((unit[:, :2] - 0.4 - 0.05 * i) ** 2).sum(axis=1) * 6)
    table.to_csv(tmp_path / lcbench.FILE, index=False)
    return tmp_path


def test_a_library_has_no_row_of_the_data_set_left_out(data):
    table = pd.read_csv(data / lcbench.FILE)
    found = lcbench.library_of(table, "set2", 3, 10, 0)
    assert len(found) == 30
    names = found[lcbench.BY].unique()
    assert len(names) == 3
    assert "set2" not in names
    for name, rows in found.groupby(lcbench.BY):
        assert rows[lcbench.TARGET].isin(table[name]).all()
    assert not found.equals(lcbench.library_of(table, "set2", 3, 10, 1))


def test_a_shuffled_library_has_the_same_outcomes_elsewhere(data):
    library_of_two = lcbench.library_of(pd.read_csv(data / lcbench.FILE), "set2", 2, 20, 0)
    found = lcbench.shuffled(library_of_two)
    assert not found[lcbench.TARGET].equals(library_of_two[lcbench.TARGET])
    assert found.drop(columns=lcbench.TARGET).equals(library_of_two.drop(columns=lcbench.TARGET))
    for name, rows in found.groupby(lcbench.BY):
        own = library_of_two[library_of_two[lcbench.BY] == name]
        assert sorted(rows[lcbench.TARGET]) == sorted(own[lcbench.TARGET])


def test_a_run_goes_on_and_prints_regret_of_each_arm(data):
    from typer import Typer

    app = Typer()
    app.command()(lcbench.main)
    arguments = ["--data", str(data), "--out", str(data / "out"), "--tables", "3", "--rows", "15", "--seeds", "1"]
    arguments += ["--trials", "6", "--every", "4"]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    files = sorted((data / "out" / "campaigns").glob("*.json"))
    assert len(files) == 2 * len(lcbench.ARMS)
    times = [file.stat().st_mtime_ns for file in files]
    assert CliRunner().invoke(app, arguments).output == first.output
    assert [file.stat().st_mtime_ns for file in files] == times
    result = pd.read_csv(data / "out" / "results_3_15_gp.csv").set_index("arm")
    assert list(result.index) == list(lcbench.ARMS)
    assert result.loc[lcbench.WITHOUT_TABLE, "@1"] < result.loc[lcbench.STOCK, "@1"]
    assert ((result["area"] >= 0) & (result["area"] <= 1)).all()
