"""Mixtures on the command line, from the table to the next recipes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import shared_file
from tests.test_constraints import BOUNDS, PARTS, recipes

pytest.importorskip("botorch")

PRETRAIN = ("pretrain", "recipes.csv", "--target", "strength", "--trainer", "gp", "--out", "a.mkbo.json")
SUGGEST = ("suggest", "--covariance", "a.mkbo.json", "--direction", "same")
TOML = (
    "".join(f"[{name}]\nbounds = {list(ends)}\n" for name, ends in BOUNDS.items())
    + f"[[constraint]]\nsum = {json.dumps(PARTS)}\nequals = 100\n"
)


@pytest.fixture
def lab(tmp_path, monkeypatch):
    recipes().to_csv(tmp_path / "recipes.csv", index=False)
    recipes(6, seed=3).to_csv(tmp_path / "done.csv", index=False)
    (tmp_path / "space.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)


def suggested(result):
    assert result.exit_code == 0, result.output
    points = [entry["point"] for entry in json.loads(result.stdout)["suggestions"]]
    return pd.DataFrame(points)


def assert_recipes(points, total=100):
    assert (points.sum(axis=1) - total).abs().max() <= 1e-9
    assert (points >= 0).all(axis=None)


def test_without_a_space_the_table_tells(run, lab):
    assert "sum to 100 in every row" in run("check", "recipes.csv", "--target", "strength").output
    result = run(*PRETRAIN)
    assert result.exit_code == 0, result.output
    assert "this is taken as a constraint, which suggestions keep" in result.output
    assert_recipes(suggested(run(*SUGGEST, "-n", 3, "--json")))


@pytest.fixture
def described(lab, run):
    assert run(*PRETRAIN, "--space", "space.toml").exit_code == 0


def test_every_suggestion_can_be_made(run, described):
    for done in ((), ("--done", "done.csv")):
        assert_recipes(suggested(run(*SUGGEST, "-n", 3, "--json", *done)))
        fixed = suggested(
            run(*SUGGEST, "-n", 2, "--json", "--fix", "fibre=8", *(("--space", "rest.toml") if 0 else ()))
        )
        assert_recipes(fixed, 92)
    assert_recipes(suggested(run(*SUGGEST, "-n", 2, "--json", "--fix", "fibre=8")), 92)
    new = suggested(run(*SUGGEST, "-n", 1, "--json", "--done", "done.csv"))
    pd.concat([pd.read_csv("done.csv"), new]).to_csv("pending.csv", index=False)
    result = run(*SUGGEST, "--json", "--done", "pending.csv", "--out", "next.csv")
    assert json.loads(result.stdout)["pending"] == 1
    assert_recipes(suggested(result))
    assert_recipes(pd.read_csv("next.csv")[list(PARTS)])


def test_what_was_learned_names_the_constraint(run, described):
    assert "sand + lime + water + fibre = 100" in run("show", "a.mkbo.json").output
    shown = json.loads(run("show", "a.mkbo.json", "--json").stdout)
    assert shown["constraints"] == [{"sum": list(PARTS), "equals": 100.0}]


def test_what_is_printed_can_be_made(run, described):
    printed = run(*SUGGEST, "-n", 2, "--done", "done.csv").output
    rows = [
        line.split("│") for line in printed.splitlines() if line.split("│")[1:2] and line.split("│")[1].strip() in PARTS
    ]
    columns = np.array([[float(cell) for cell in row[2:4]] for row in rows])
    assert len(columns) == 4
    np.testing.assert_allclose(columns.sum(axis=0), 100, rtol=0, atol=1e-9)


def test_rows_that_cannot_be_made_are_noted(run, described):
    done = pd.read_csv("done.csv")
    done.loc[2, "sand"] += 3
    done.to_csv("done.csv", index=False)
    pool = recipes(5, seed=4).drop(columns="strength")
    pool.loc[1, "lime"] += 2
    pool.to_csv("pool.csv", index=False)
    output = " ".join(run(*SUGGEST, "--done", "done.csv", "--candidates", "pool.csv").output.split())
    for words in (
        "= 100 is not kept in line 4 of done.csv, by up to 3",
        "is not kept in line 3 of pool.csv, by up to 2",
    ):
        assert words in output


def test_a_target_that_does_not_keep_the_sum_is_told(run, described):
    Path("open.toml").write_text(TOML.partition("[[")[0])
    for done in ((), ("--done", "done.csv")):
        result = run(*SUGGEST, "--space", "open.toml", *done)
        assert result.exit_code == 0, result.output
        words = " ".join(result.output.split())
        assert (
            words.count("= 100, but the target's space does not, where sand + lime + water + fibre runs from 5 to 170")
            == 1
        )


def test_a_target_that_says_it_otherwise_is_not(run, described):
    equality = TOML[TOML.index("[[") :]
    halves = TOML.replace("equals", "at_most") + equality.replace("equals", "at_least")
    Path("halves.toml").write_text(halves)
    result = run(*SUGGEST, "--space", "halves.toml", "--json")
    assert "does not" not in result.stderr
    assert_recipes(suggested(result))


def test_the_case_of_the_lab(run, lab):
    pd.read_csv(shared_file("cases/composition/composition.csv")).to_csv("recipes.csv", index=False)
    assert run(*PRETRAIN).exit_code == 0
    assert_recipes(suggested(run(*SUGGEST, "-n", 3, "--json")))
