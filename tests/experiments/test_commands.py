"""Experiments as commands: what they refuse in one sentence, and one run in processes of its own."""

import importlib
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("botorch")


def command(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", f"mkbo_plugins.experiments.{name}", *arguments]
    return subprocess.run(call, capture_output=True, text=True, check=False, timeout=300)


def test_digits_are_tuned_in_worker_processes(tmp_path: Path):
    pytest.importorskip("skopt")
    done = command("digits_skopt", "--out", str(tmp_path), "--seeds", "1", "--trials", "1", "--n-jobs", "2")
    assert done.returncode == 0, done.stderr
    assert list(pd.read_csv(tmp_path / "results.csv")["model"]) == ["skopt", "breast_cancer", "digits_250"]


@pytest.mark.parametrize(("name", "column"), [("lig_graphene", "precursor"), ("dafd_ax", "aspect_ratio")])
@pytest.mark.parametrize("exists", [True, False])
def test_a_wrong_table_is_refused_in_a_sentence(name: str, column: str, exists: bool, tmp_path: Path, capsys):
    if name == "dafd_ax":
        pytest.importorskip("ax")
    table = tmp_path / "table.csv"
    if exists:
        table.write_text("time_ms,power\n1,2\n")
    with pytest.raises(SystemExit) as stop:
        importlib.import_module(f"mkbo_plugins.experiments.{name}").main(table, tmp_path / "out")
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert str(table) in said
    assert (f"no column '{column}'" if exists else "does not exist") in said
    assert not (tmp_path / "out").exists()


def test_an_unknown_target_is_refused(tmp_path: Path, capsys):
    from mkbo_plugins.experiments.lig_graphene import main

    with pytest.raises(SystemExit):
        main(tmp_path / "table.csv", tmp_path / "out", target="quartz")
    assert "--target must be one of ['GOPI', 'GOQ'], got 'quartz'" in capsys.readouterr().err
