"""The command line as a user meets it."""

import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from mkbo_plugins import PretrainedCovariance, pretrain
from mkbo_plugins.cli import app
from mkbo_plugins.errors import SampleWarning
from tests.cli.conftest import SPACE_TOML


@pytest.fixture
def folder(tmp_path, table, monkeypatch):
    table.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "space.toml").write_text(SPACE_TOML)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_pretrain_saves_the_covariance_that_python_trains(folder, gp_cov):
    result = _run("pretrain", "table.csv", "--target", "strength", "--space", "space.toml", "--trainer", "gp")
    assert result.exit_code == 0, result.output
    assert PretrainedCovariance.load("table.mkbo.json") == gp_cov


def test_what_is_learned_does_not_depend_on_where_the_table_was(folder, table, space):
    arguments = ["--target", "strength", "--space", "space.toml", "--trainer", "gp", "--max-rows", "12"]
    assert _run("pretrain", "table.csv", *arguments).exit_code == 0
    with pytest.warns(SampleWarning):
        trained = pretrain(table, "strength", space, trainer="gp", max_rows=12, progress=False)
    assert PretrainedCovariance.load("table.mkbo.json") == trained


def test_out_names_the_file(folder):
    arguments = ["pretrain", "table.csv", "--target", "strength", "--space", "space.toml", "--trainer", "gp"]
    assert _run(*arguments, "--out", "other.mkbo.json").exit_code == 0
    assert PretrainedCovariance.load("other.mkbo.json").record.rows == 24
    assert not (folder / "table.mkbo.json").exists()


def test_bounds_come_from_the_table_with_a_note(folder, table):
    result = _run("pretrain", "table.csv", "--target", "strength", "--trainer", "gp")
    assert result.exit_code == 0, result.output
    assert "no --space given" in result.output
    power = PretrainedCovariance.load("table.mkbo.json").space["power"]
    assert (power.lower, power.upper) == (table["power"].min(), table["power"].max())


def test_columns_that_are_no_parameters_can_be_ignored(folder, table):
    table.assign(label="x", row=range(24)).to_csv("wide.csv", index=False)
    arguments = ["pretrain", "wide.csv", "--target", "strength", "--trainer", "gp"]
    assert "--ignore" in _run(*arguments).output
    assert _run(*arguments, "--ignore", "label", "--ignore", "absent").exit_code == 2
    result = _run(*arguments, "--ignore", "label", "--ignore", "row")
    assert result.exit_code == 0, result.output
    assert PretrainedCovariance.load("wide.mkbo.json").space.names == ("power", "rate", "layers", "gas")


def test_a_long_table_is_sampled_and_its_search_can_be_resumed(folder):
    arguments = ["pretrain", "table.csv", "--target", "strength", "--space", "space.toml", "--max-rows", "12"]
    result = _run(*arguments, "--resume", "grid.json")
    assert result.exit_code == 0, result.output
    assert "12 that fill the space" in result.output
    assert PretrainedCovariance.load("table.mkbo.json").record.rows == 12
    other = _run(*arguments, "--resume", "grid.json", "--frame", "unit")
    assert other.exit_code == 2
    assert "grid.json" in other.output


def test_a_table_of_labels(folder, table):
    passed = table["strength"] > table["strength"].median()
    table.assign(strength=passed.map({True: "yes", False: "no"})).to_csv("labels.csv", index=False)
    arguments = ["pretrain", "labels.csv", "--target", "strength", "--space", "space.toml", "--trainer", "gp"]
    assert "--task" in _run(*arguments).output
    result = _run(*arguments, "--task", "classification")
    assert result.exit_code == 0, result.output
    assert "held-out labels" in result.output


def test_show_says_what_was_learned(folder, cov):
    cov.save("a.mkbo.json")
    result = _run("show", "a.mkbo.json")
    assert result.exit_code == 0
    for words in ("24 rows", "strength", "explain", "sigma", "centred", "power", "gas", "share of prior variance"):
        assert words in result.output


def test_replicates_are_a_column(folder, table):
    import pandas as pd

    doubled = pd.concat([table, table], ignore_index=True).assign(batch=lambda t: t.index % len(table))
    doubled.to_csv("doubled.csv", index=False)
    result = _run("pretrain", "doubled.csv", "--target", "strength", "--groups", "batch", "--trainer", "gp")
    assert result.exit_code == 0, result.output
    assert "batch" not in PretrainedCovariance.load("doubled.mkbo.json").space.names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pretrain", "absent.csv", "--target", "strength"], "absent.csv does not exist"),
        (["pretrain", "table.csv", "--target", "weight"], "'weight'"),
        (["pretrain", "table.csv", "--target", "strength", "--space", "absent.toml"], "absent.toml does not exist"),
        (["pretrain", "table.csv", "--target", "strength", "--space", "broken.toml"], "broken.toml cannot be read"),
        (["pretrain", "empty.csv", "--target", "strength"], "empty.csv is empty"),
        (["pretrain", "binary.csv", "--target", "strength"], "binary.csv is not UTF-8 text"),
        (["pretrain", "table.csv", "--target", "strength", "--kernel", "cosine", "--space", "space.toml"], "'cosine'"),
        (["pretrain", "table.csv", "--target", "strength", "--groups", "absent"], "'absent'"),
        (["pretrain", "semicolons.csv", "--target", "strength"], "not as many of them"),
        (["pretrain", "table.csv", "--target", "strength", "--out", "."], "it is a folder"),
        (["pretrain", "table.csv", "--target", "strength", "--out", "absent/x.json"], "its folder does not exist"),
        (["demo", "--out", "table.csv"], "cannot make the folder table.csv"),
        (["demo", "--out", "damaged"], "digits.mkbo.json: not a saved covariance"),
        (["show", "absent.mkbo.json"], "absent.mkbo.json does not exist"),
        (["show", "space.toml"], "not a saved covariance"),
    ],
)
def test_errors_are_sentences(folder, arguments, words):
    (folder / "broken.toml").write_text("[power\n")
    (folder / "empty.csv").write_text("")
    (folder / "semicolons.csv").write_text("power;strength\n1,5;2\n2,5\n")
    (folder / "damaged").mkdir()
    for name in ("knowledge.csv", "digits.mkbo.json"):
        (folder / "damaged" / name).write_text("damaged")
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)) * 4)
    result = _run(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_an_unwritable_file_is_noticed_before_training(folder, monkeypatch):
    monkeypatch.setattr("mkbo_plugins.cli.pretraining.train", lambda *args, **kwargs: pytest.fail("trained first"))
    assert _run("pretrain", "table.csv", "--target", "strength", "--out", "absent/x.json").exit_code == 2


def test_help_shows_its_brackets():
    assert "bounds = [low, high]" in " ".join(_run("pretrain", "--help").output.split())


def test_version():
    from importlib.metadata import version

    assert version("mkbo_plugins") in _run("--version").output


def test_interruption_is_a_sentence(folder, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("mkbo_plugins.cli.pretraining.train", interrupted)
    result = _run("pretrain", "table.csv", "--target", "strength", "--space", "space.toml")
    assert result.exit_code == 130
    assert "stopped" in result.output


def test_termination_is_an_interruption(folder, monkeypatch):
    monkeypatch.setattr(
        "mkbo_plugins.cli.pretraining.train", lambda *args, **kwargs: signal.raise_signal(signal.SIGTERM)
    )
    result = _run("pretrain", "table.csv", "--target", "strength", "--space", "space.toml")
    assert (result.exit_code, "stopped" in result.output) == (130, True)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_warnings_are_notes(folder, table):
    table.assign(power=table["power"].where(table.index > 0)).to_csv("gap.csv", index=False)
    arguments = ["pretrain", "gap.csv", "--target", "strength", "--space", "space.toml", "--trainer", "gp"]
    assert _run(*arguments).exit_code == 2
    result = _run(*arguments, "--drop-missing")
    assert result.exit_code == 0, result.output
    assert "note:" in result.output
    assert "line 2 of gap.csv" in result.output


def test_installed_program_starts_without_the_optimisers():
    code = "import sys; from mkbo_plugins.cli import app; sys.exit(bool({'torch', 'ax', 'skopt'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
