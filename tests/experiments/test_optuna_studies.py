"""Trials that Optuna's samplers need: a short run, really trained, and its table."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("optuna")
pytest.importorskip("botorch")

import typer

from mkbo_plugins.experiments import optuna_studies
from tests.conftest import shared_file


def test_a_short_run_and_its_continuation(tmp_path, monkeypatch):
    monkeypatch.setattr(optuna_studies, "RUNS", 8)
    app = typer.Typer()
    app.command()(optuna_studies.main)
    for _ in range(2):
        result = CliRunner().invoke(app, ["--out", str(tmp_path), "--seeds", "1", "--trials", "2"])
        assert result.exit_code == 0, result.output
    assert len(list((tmp_path / "studies").iterdir())) == 4
    table = pd.read_csv(tmp_path / "results.csv")
    assert list(table["sampler"]) == list(optuna_studies.SAMPLERS)
    assert (table["share_of_plain"] > 0).all()


def test_earlier_trials_of_other_data_sets_are_knowledge():
    path = shared_file("data/salinas_xgboost.csv.gz")
    task = optuna_studies.xgboost_task(path, "heart")
    assert set(task.table["task"]) == set(pd.read_csv(path)["task"]) - {"heart"}
    enqueued = optuna_studies._best(task)
    assert [set(setting) for setting in enqueued] == [set(task.distributions)] * optuna_studies.ENQUEUED
    assert 0.08 < min(map(task.value, enqueued)) < 0.2


def test_summary_counts_trials_to_the_plain_samplers_median():
    plain = np.array([[8.0, 4.0, 2.0], [8.0, 8.0, 3.0], [8.0, 8.0, 4.0]])
    better = np.array([[3.0, 2.0, 2.0], [8.0, 3.0, 2.0], [8.0, 8.0, 8.0]])
    table = optuna_studies.summarise({("a", "GPSampler"): plain, ("a", "better"): better}).set_index("sampler")
    assert table["trials"].tolist() == pytest.approx([10 / 3, 7 / 3])
    assert table["share_of_plain"].tolist() == pytest.approx([1.0, 0.7])
    assert table["reached"].tolist() == [2 / 3, 2 / 3]
