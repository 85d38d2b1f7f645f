"""What the README says is run."""

import importlib.util
import re

import numpy as np
import pandas as pd
import pytest

from tests.documents import ROOT, blocks, commands, write_older_device, write_runs

README = ROOT / "README.md"
BAYBE = importlib.util.find_spec("baybe") is not None


@pytest.mark.filterwarnings("ignore::mkbo_plugins.errors.GridEdgeWarning")
def test_python_blocks_run_in_order(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("ax")
    pytest.importorskip("optuna")
    pytest.importorskip("skopt")
    write_older_device(tmp_path)
    write_runs(tmp_path)
    monkeypatch.chdir(tmp_path)
    X = torch.tensor([[200.0, 600.0, 1, 0], [3000.0, 900.0, 3, 1], [5000.0, 9000.0, 6, 0]], dtype=torch.double)
    names = {"train_X": X, "train_Y": torch.tensor([[1.0], [3.0], [2.0]], dtype=torch.double)}
    names["experiment"] = lambda points: torch.sin(points[:, :1] / 1500)
    names["measure"] = lambda parameters: float(np.sin(parameters["power"] / 1500))
    names["crystallinity"] = lambda power, time, passes, gas: float(np.sin(power / 1500))
    names["loss"] = lambda point: -float(np.sin(point[0] / 1500))
    shown = [block for block in blocks(README, "python") if BAYBE or "from baybe import" not in block]
    for block in shown:
        exec(compile(block, str(README), "exec"), names)
    assert names["model"].posterior(X).mean.shape == (3, 1)
    assert names["gram"].shape == (2, 2)
    assert len(names["Y"]) == 5
    assert len(names["client"]._experiment.completed_trials) == 1
    assert [trial.state.name for trial in names["study"].trials] == ["COMPLETE"] * 6
    assert len(names["result"].func_vals) == 12
    assert [campaign.date for campaign in names["library"].campaigns] == [None, None, None, "2026-11-03"]
    assert not BAYBE or len(names["campaign"].measurements) == 3


def test_command_line_blocks_run(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from mkbo_plugins.cli import app

    write_older_device(tmp_path)
    write_runs(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(blocks(README, "toml")[0])
    done = pd.read_csv("older_device.csv").head(5).rename(columns={"G_D_ratio": "crystallinity"})
    done.to_csv("done.csv", index=False)
    named = [command[0] for command in commands(README)]
    assert named == ["check", "pretrain", "show", "suggest", "suggest", "report", "pretrain", "pretrain", "add"]
    for command in commands(README):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    assert len(pd.read_csv("next.csv")) == 3


def test_pictures_and_pages_exist():
    for path in re.findall(r"\]\((?!https?:)(.*?)\)", README.read_text()):
        assert (README.parent / path).is_file(), path


def test_continuous_integration_runs_the_printed_test_command():
    commands = [line for block in blocks(README, "sh") for line in block.splitlines() if "-m pytest" in line]
    assert len(commands) == 1
    assert README.read_text().count("-m pytest") == 1
    script = (README.parent / ".ci" / "run").read_text()
    assert 'grep -F -- "-m pytest" README.md' in script
