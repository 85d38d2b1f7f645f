"""A folder as a lab keeps it, and commands run in it."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from mkbo_plugins.cli import app

SPACE_TOML = """
[power]
bounds = [100, 5500]
[rate]
bounds = [1e-5, 1e-1]
log = true
[layers]
bounds = [1, 6]
integer = true
[gas]
levels = ["Argon", "Nitrogen", "Air"]
"""


@pytest.fixture
def run():
    """Return a function that runs `mkbo` with arguments."""
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path, table, gp_cov, monkeypatch):
    """Return a folder with a table, its space and covariance, and experiments done; it is the working folder."""
    table.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "space.toml").write_text(SPACE_TOML)
    gp_cov.save(tmp_path / "a.mkbo.json")
    done = table.iloc[:6].rename(columns={"strength": "hardness"}).assign(hardness=lambda t: 3 * t["hardness"] + 1)
    done.to_csv(tmp_path / "done.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def done(folder):
    """Return the experiments done."""
    return pd.read_csv(folder / "done.csv")
