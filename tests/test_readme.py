"""What the README says is run."""

import importlib.util
import re

import numpy as np
import pandas as pd
import pytest

from tests.documents import ROOT, blocks, commands, measured, write_done, write_older_device, write_runs

README = ROOT / "README.md"
DOCS = ROOT / "mkbo_plugins" / "docs"
BAYBE = importlib.util.find_spec("baybe") is not None


def ax_client():
    """Return a client whose experiment has the table's parameters, one under another name."""
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    client = Client()
    client.configure_experiment(
        [
            RangeParameterConfig(name="power", bounds=(500, 5000), parameter_type="float"),
            RangeParameterConfig(name="time_ms", bounds=(500, 20000), parameter_type="float", scaling="log"),
            RangeParameterConfig(name="passes", bounds=(1, 4), parameter_type="int"),
            ChoiceParameterConfig(name="gas", values=["Air", "Argon"], parameter_type="str"),
        ]
    )
    client.configure_optimization(objective="quality")
    return client


def optuna_objective(trial):
    """Return what is to be large of the table's parameters."""
    trial.suggest_float("time_ms", 500, 20000, log=True)
    trial.suggest_int("passes", 1, 6)
    trial.suggest_categorical("gas", ["Air", "Argon"])
    return float(np.sin(trial.suggest_float("power_mW", 100, 5500) / 1500))


def skopt_dimensions():
    """Return the table's parameters."""
    from skopt.space import Categorical, Integer, Real

    return [
        Real(100, 5500, name="power_mW"),
        Real(500, 20000, "log-uniform", name="time_ms"),
        Integer(1, 6, name="passes"),
        Categorical(["Argon", "Air"], name="gas"),
    ]


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
    names = {"train_X": X, "train_Y": torch.tensor([[1.0], [3.0], [2.0]], dtype=torch.double), **measured()}
    names |= {"client": ax_client(), "objective": optuna_objective, "dimensions": skopt_dimensions()}
    shown = [block for block in blocks(README, "python") if BAYBE or "from baybe" not in block]
    for block in shown:
        exec(compile(block, str(README), "exec"), names)
    assert names["model"].posterior(X).mean.shape == (3, 1)
    assert names["acquisition"](X[:, None, :]).shape == (3,)
    assert names["gram"].shape == (2, 2)
    assert len(names["client"]._experiment.completed_trials) == 1
    assert [trial.state.name for trial in names["study"].trials] == ["COMPLETE"] * 6
    assert len(names["result"].func_vals) == 12
    assert len(names["library"].campaigns) == 3
    assert not BAYBE or "recommender" in names


def test_command_line_blocks_run(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from mkbo_plugins.cli import app

    write_older_device(tmp_path)
    write_runs(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(blocks(DOCS / "command_line.md", "toml")[0])
    write_done(tmp_path)
    named = [command[0] for command in commands(README)]
    assert named == ["check", "pretrain", "show", "suggest", "suggest", "report"]
    for command in commands(README):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    assert len(pd.read_csv("next.csv")) == 3


def test_pictures_and_pages_exist():
    for path in re.findall(r"\]\((?!https?:)(.*?)\)", README.read_text()):
        assert (README.parent / path.partition("#")[0]).is_file(), path  # places within pages are the site's test


def test_continuous_integration_runs_the_printed_test_command():
    commands = [line for block in blocks(README, "sh") for line in block.splitlines() if "-m pytest" in line]
    assert len(commands) == 1
    assert README.read_text().count("-m pytest") == 1
    script = (README.parent / ".ci" / "run").read_text()
    assert 'grep -F -- "-m pytest" README.md' in script
