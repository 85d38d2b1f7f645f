"""The main job: ``mkbo demo``, shortened, with real training."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from mkbo_plugins import PretrainedCovariance
from mkbo_plugins.cli import app
from mkbo_plugins.core.forms import DEFAULT_FORM

pytest.importorskip("botorch")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(app, ["demo", "--out", str(folder), "--seeds", "1", "--trials", "2"])
    assert result.exit_code == 0, result.output
    assert "Lowest error so far" in result.output
    assert str(folder) in result.output.replace("\n", "")
    return folder


def test_it_trains_the_runs_it_speaks_of(folder):
    table = pd.read_csv(folder / "knowledge.csv")
    assert len(table) >= 60
    assert PretrainedCovariance.load(folder / "digits.mkbo.json").record.rows == len(table)


def test_both_models_start_from_the_same_points(folder):
    results = pd.read_csv(folder / "results.csv").pivot(index="trial", columns="model", values="lowest_error_pct")
    assert (results["stock"][:3] == results[DEFAULT_FORM][:3]).all()
    assert (results.diff().dropna() <= 0).all(axis=None)
    assert len(results) == 5


def test_it_saves_a_picture(folder):
    assert (folder / "convergence.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_uses_what_is_there(folder):
    before = {path: path.stat().st_mtime_ns for path in (folder / "campaigns").iterdir()}
    result = CliRunner().invoke(app, ["demo", "--out", str(folder), "--seeds", "1", "--trials", "2"])
    assert result.exit_code == 0, result.output
    assert {path: path.stat().st_mtime_ns for path in (folder / "campaigns").iterdir()} == before
