"""What users call things is printed as they wrote it, whatever a terminal would make of it."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import mkbo_plugins
from mkbo_plugins.cli import app

PARAMETER, OTHER, TARGET = "temp [degC]", "p:warning:[bold]", "growth [/h]"
LEVELS = ("A[red]", "B[/x]", "C\x1b[31m")


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """Return a folder with a table, and experiments done, whose names and levels look like markup."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {PARAMETER: rng.uniform(0, 9.5, 15), OTHER: rng.uniform(1, 2, 15), "strain": np.resize(LEVELS, 15)}
    )
    table[TARGET] = np.sin(table[PARAMETER] / 3) + table[OTHER]
    table.to_csv(tmp_path / "t[x].csv", index=False)
    table.iloc[:5].to_csv(tmp_path / "done.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _shows(output, *texts):
    """Check that texts stand in an output, tables of which may break lines within them."""
    plain = re.sub(r"[\s│┃]", "", output)
    for text in texts:
        assert re.sub(r"\s", "", text) in plain, output


def test_every_command_prints_names_and_levels_as_they_are(run, odd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    checked = run("check", "t[x].csv", "--target", TARGET)
    assert checked.exit_code == 0, checked.output
    _shows(checked.output, "t[x].csv: 15 rows")
    trained = run("pretrain", "t[x].csv", "--target", TARGET, "--trainer", "gp", "--out", "a[b].mkbo.json")
    assert trained.exit_code == 0, trained.output
    shown = run("show", "a[b].mkbo.json")
    assert shown.exit_code == 0, shown.output
    for result in (trained, shown):
        _shows(result.output, PARAMETER, OTHER, TARGET, *LEVELS[:2], r"C\x1b[31m")
    _shows(trained.output, "saved as a[b].mkbo.json")
    for options in (("--direction", "same"), ("--done", "done.csv")):
        advised = run("suggest", "--covariance", "a[b].mkbo.json", "-n", 3, *options)
        assert advised.exit_code == 0, advised.output
        _shows(advised.output, PARAMETER, OTHER)
    _shows(advised.output, f"best {TARGET}", f"{TARGET}, predicted")
    for result in (checked, trained, shown, advised):
        assert "\x1b" not in result.output


@pytest.mark.parametrize("command", ["check", "pretrain", "suggest"])
def test_errors_print_them_too(run, odd, command):
    if command == "suggest":
        run("pretrain", "t[x].csv", "--target", TARGET, "--trainer", "gp", "--out", "a.mkbo.json")
        result = run("suggest", "--covariance", "a.mkbo.json", "--fix", "temp [degc]=1")
        words = ("--fix names 'temp [degc]'", "did you mean 'temp [degC]'?")
    else:
        result = run(command, "t[x].csv", "--target", "growth [/min]")
        words = ("'growth [/min]' is not a column", "growth [/h]")
    assert result.exit_code in (1, 2)
    _shows(result.output, *words)


def test_nothing_prints_but_the_terminal_that_shows_texts_as_they_are():
    folder = Path(mkbo_plugins.__file__).parent
    printing = re.compile(r"rich\.console|get_console|(?<![\w.])print\(")
    found = [path for path in folder.rglob("*.py") if printing.search(path.read_text())]
    assert [str(path.relative_to(folder)) for path in found] == ["messages/terminal.py"]


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_characters_that_a_terminal_has_not_are_shown_as_python_writes_them(odd, encoding):
    table = pd.read_csv("t[x].csv").rename(columns={PARAMETER: "ä → β", TARGET: "Δy"})
    table.to_csv("t.csv", index=False)
    runner = CliRunner(charset=encoding)
    trained = runner.invoke(app, ["pretrain", "t.csv", "--target", "Δy", "--trainer", "gp", "--out", "a.mkbo.json"])
    for arguments in (["check", "t.csv", "--target", "Δy"], ["show", "a.mkbo.json"]):
        assert runner.invoke(app, arguments).exit_code == 0
    assert runner.invoke(app, ["check", "t.csv", "--target", "y"]).exit_code == 1
    assert trained.exit_code == 0, trained.output
    first = "ä" if encoding == "cp1252" else r"\xe4"
    _shows(trained.output, rf"{first} \u2192 \u03b2", r"target \u0394y")
    shown = runner.invoke(app, ["show", "a.mkbo.json", "--json"])
    assert json.loads(shown.stdout_bytes)["target"] == "Δy"


def test_names_of_files_that_are_no_text_are_written_in_json(odd, run):
    file = "a\udcff.mkbo.json"
    result = run("pretrain", "t[x].csv", "--target", TARGET, "--trainer", "gp", "--out", file, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["file"] == file
