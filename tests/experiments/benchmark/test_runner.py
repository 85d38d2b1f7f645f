"""Benchmarks go on where they were killed."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from mkbo_plugins.cli import app
from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.benchmark.runner import CLAIM_MEMBERS, CLAIM_SEEDS, Plan, curves, run
from mkbo_plugins.experiments.benchmark.synthetic import FAMILIES
from tests.conftest import shared_file

PLAN = Plan(("forrester",), ("random", "stock", "moment"), seeds=2, trials=4)


def test_a_killed_run_goes_on_and_ends_the_same(tmp_path: Path):
    code = (
        "from pathlib import Path; from mkbo_plugins.experiments.benchmark.runner import Plan, run\n"
        f"run({PLAN!r}, Path({str(tmp_path / 'killed')!r}), None, n_jobs=1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    campaigns = tmp_path / "killed" / "campaigns"
    while process.poll() is None and len(list(campaigns.glob("*.json"))) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL) if os.name == "posix" else process.kill()
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in campaigns.glob("*.json")}
    assert kept
    resumed = run(PLAN, tmp_path / "killed", None, n_jobs=1)
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())
    whole = run(PLAN, tmp_path / "whole", None, n_jobs=1)
    pd.testing.assert_frame_equal(resumed.drop(columns="seconds"), whole.drop(columns="seconds"))


def test_claims_share_neither_members_nor_seeds_with_tuning():
    claim = Plan(("forrester",), ("stock",), seeds=8, claim=True)
    assert all(claim.member("forrester", seed) >= CLAIM_MEMBERS for seed in range(8))
    assert claim.seed(0) == CLAIM_SEEDS


def test_campaigns_of_other_plans_are_stored_as_others(tmp_path: Path):
    plan = Plan(("forrester",), ("random",), seeds=1, trials=4)
    changes = ({}, {"repeats": True}, {"own_starts": True}, {"control": "shuffled"}, {"control": "negated"})
    for count, change in enumerate(changes, 1):
        run(replace(plan, **change), tmp_path, None, n_jobs=1)
        assert len(list((tmp_path / "campaigns").glob("*.json"))) == count


def test_own_starts_are_those_of_the_table_except_without_one(tmp_path: Path):
    models = ("random", "stock", "stacked", "moment")
    plan = Plan(("hartmann3",), models, seeds=2, trials=1, own_starts=True)
    runs = run(plan, tmp_path, None, n_jobs=1).set_index(["model", "seed"])
    first = runs["regret_1"].unstack("seed")
    assert (first.loc["stacked"] == first.loc["moment"]).all()
    assert (first.loc["random"] == first.loc["stock"]).all()
    assert (first.loc["moment"] < first.loc["stock"]).all()


def test_a_model_that_looks_at_the_table_sees_the_control(tmp_path: Path):
    plan = Plan(("hartmann3",), ("stock", "moment"), seeds=1, trials=6)
    plain, negated, shuffled = (
        run(replace(plan, control=control), tmp_path, None, n_jobs=1).set_index("model")["area"]
        for control in (None, "negated", "shuffled")
    )
    assert plain["stock"] == negated["stock"] == shuffled["stock"]
    assert negated["moment"] == pytest.approx(plain["moment"], abs=1e-3)
    assert shuffled["moment"] > plain["moment"] + 0.01


def test_members_of_a_family_differ():
    assert not (FAMILIES["rotation"](0).outcome == FAMILIES["rotation"](1).outcome).all()


def test_command_writes_tables_and_plots(tmp_path: Path):
    arguments = ["benchmark", "--smoke", "--out", str(tmp_path), "--jobs", "1", "--seeds", "1", "--model", "moment"]
    result = CliRunner().invoke(app, [*arguments, "--problem", "rotation", "--repeats"])
    assert result.exit_code == 0, result.output
    assert "may be tried again" in result.output
    assert {"runs.csv", "comparison.csv", "report.md", "regret.png", "rank.png", "ratio.png"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert set(pd.read_csv(tmp_path / "comparison.csv")["model"]) == {"stock", "moment"}


def test_command_draws_pairs_from_the_tables(tmp_path: Path):
    data = shared_file("data/lcbench.csv.gz").parent
    arguments = ["benchmark", "--smoke", "--out", str(tmp_path), "--jobs", "1", "--seeds", "1", "--model", "random"]
    result = CliRunner().invoke(app, [*arguments, "--pairs", "1", "--data", str(data), "--acquisition", "nei"])
    assert result.exit_code == 0, result.output
    assert set(pd.read_csv(tmp_path / "runs.csv")["problem"].str.partition(".")[0]) == {"lcbench"}
    assert "problems too" in (tmp_path / "report.md").read_text()
    refused = CliRunner().invoke(app, [*arguments, "--pairs", "1"])
    assert refused.exit_code == 2
    assert "needs that" in refused.output


def test_command_gives_campaigns_as_many_trials_as_asked_for(tmp_path: Path):
    arguments = ["benchmark", "--out", str(tmp_path), "--jobs", "1", "--seeds", "2", "--model", "random"]
    result = CliRunner().invoke(app, [*arguments, "--problem", "forrester", "--trials", "4"])
    assert result.exit_code == 0, result.output
    assert "2 paired seeds, 4 trials after 3 random starts" in result.output
    stored = curves(replace(PLAN, models=("random",)), tmp_path, None, "forrester", ["random"])
    assert stored["random"].shape == (2, 1 + 4)  # the best of the starts comes first
    refused = CliRunner().invoke(app, [*arguments, "--problem", "forrester", "--trials", "0"])
    assert refused.exit_code == 2
    assert "--trials" in refused.output


def test_command_names_unknown_problems(tmp_path: Path):
    result = CliRunner().invoke(app, ["benchmark", "--out", str(tmp_path), "--problem", "nothing"])
    assert result.exit_code == 2
    assert "nothing" in result.output
    assert "forrester" in result.output


@pytest.mark.parametrize(
    ("content", "words"), [("a,b\n1,2\n", "lacks columns"), ("", "is empty"), (None, "does not exist")]
)
def test_command_refuses_a_wrong_table_in_a_sentence(tmp_path: Path, content: str | None, words: str):
    if content is not None:
        (tmp_path / "concrete.csv").write_text(content)
    arguments = ["--problem", "concrete_7_28", "--model", "stock", "--seeds", "1", "--jobs", "1"]
    result = CliRunner().invoke(app, ["benchmark", "--out", str(tmp_path / "b"), "--data", str(tmp_path), *arguments])
    assert result.exit_code == 2, result.output
    assert "concrete.csv" in result.output.replace("\n", "")
    assert words in " ".join(result.output.split())


def test_results_of_other_tables_are_not_taken_for_these(tmp_path: Path):
    table = pd.read_csv(shared_file("data/concrete.csv"))
    plan = Plan(("concrete_7_28",), ("random",), seeds=1, trials=1)
    for name, factor in (("one", 1.0), ("other", 1.1)):
        (tmp_path / name).mkdir()
        table.assign(strength_MPa=factor * table["strength_MPa"]).to_csv(tmp_path / name / "concrete.csv", index=False)
    first = run(plan, tmp_path / "out", tmp_path / "one", n_jobs=1)
    with pytest.raises(MkboError, match="from other tables"):
        run(plan, tmp_path / "out", tmp_path / "other", n_jobs=1)
    again = run(plan, tmp_path / "out", tmp_path / "one", n_jobs=1)
    pd.testing.assert_frame_equal(again, first)
