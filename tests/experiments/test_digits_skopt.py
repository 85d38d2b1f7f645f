"""Tuning a classifier of digits with and without knowledge: a short run, really trained, and its table."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("skopt")
pytest.importorskip("botorch")

import typer

from mkbo_plugins.experiments import digits_skopt


@pytest.mark.filterwarnings("default::mkbo_plugins.errors.GridEdgeWarning")
def test_a_short_run_and_its_continuation(tmp_path, monkeypatch):
    monkeypatch.setattr(digits_skopt, "RUNS", 12)
    app = typer.Typer()
    app.command()(digits_skopt.main)
    for trials in (1, 1):
        result = CliRunner().invoke(
            app, ["--out", str(tmp_path), "--seeds", "1", "--trials", str(trials), "--n-jobs", "1"]
        )
        assert result.exit_code == 0, result.output
    assert len(list((tmp_path / "campaigns").iterdir())) == 3
    table = pd.read_csv(tmp_path / "results.csv").set_index("model")
    assert list(table.index) == ["skopt", "breast_cancer", "digits_250"]
    assert (table["error_1"] > 0).all()


def test_summary_compares_pairs_of_seeds():
    plain = np.array([[8.0, 8.0, 8.0, 4.0, 2.0], [8.0, 8.0, 8.0, 4.0, 4.0]])
    better = np.array([[8.0, 8.0, 8.0, 2.0, 2.0], [8.0, 8.0, 8.0, 2.0, 2.0]])
    table = digits_skopt.summarise({"skopt": plain, "better": better}).set_index("model")
    assert table.loc["skopt", ["log10_difference", "low", "high"]].tolist() == [0, 0, 0]
    assert table.loc["better", "log10_difference"] == pytest.approx(-0.3 * np.log10(2) / 1.0 * 1.0, rel=0.01)
    assert table.loc["better", "trials_to_plain_final_median"] == 4
    assert table.loc["better", "error_1"] == 2.0
