"""Covariances of several tables on the command line."""

import json

import pandas as pd
import pytest

from mkbo_plugins import PretrainedCovariance
from tests.several_tables import SPACE, TABLE_A, TABLE_B, chain, combined, points

SPACE_TOML = """
[p]
bounds = [0, 10]
[q]
bounds = [1e-3, 1]
log = true
[r]
bounds = [-5, 5]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with both tables, their space and covariance, and experiments done; it is the working folder."""
    TABLE_A.to_csv(tmp_path / "a.csv", index=False)
    TABLE_B.to_csv(tmp_path / "b.csv", index=False)
    (tmp_path / "space.toml").write_text(SPACE_TOML)
    combined().save(tmp_path / "two.mkbo.json")
    done = pd.DataFrame(points(6))
    done["outcome"] = combined().members[0].predict(done[["p", "q"]])
    done.to_csv(tmp_path / "done.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_show_prints_each_table(run, folder):
    result = run("show", "two.mkbo.json")
    assert result.exit_code == 0, result.output
    for words in ("table 1 of 2: hardness", "table 2 of 2: yield", "in common: q", combined().fingerprint[:16]):
        assert words in result.output


def test_show_prints_json_of_each_table(run, folder):
    shown = json.loads(run("show", "two.mkbo.json", "--json").stdout)
    assert shown["fingerprint"] == combined().fingerprint
    assert list(shown["space"]) == list(SPACE.names)
    assert [member["target"] for member in shown["members"]] == ["hardness", "yield"]
    assert [member["fingerprint"] for member in shown["members"]] == [m.fingerprint for m in combined().members]


def test_show_names_earlier_tables_of_a_chain(run, folder):
    chain().save("chain.mkbo.json")
    assert "earlier table" in run("show", "chain.mkbo.json").output
    (earlier,) = json.loads(run("show", "chain.mkbo.json", "--json").stdout)["earlier"]
    assert earlier["rows"] == 5


def test_a_picture_is_of_one_table(run, folder):
    pytest.importorskip("matplotlib")
    result = run("show", "two.mkbo.json", "--plot", "two.png")
    assert result.exit_code == 2
    assert "cov.members[0]" in result.output


def test_suggestions_say_what_each_table_says(run, folder):
    pytest.importorskip("botorch")
    result = run("suggest", "--covariance", "two.mkbo.json", "--done", "done.csv", "--out", "next.csv", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["outcome"] == "outcome"
    assert {"moment_scale_1", "moment_scale_2"} < set(said["scales"])
    (suggestion,) = said["suggestions"]
    written = pd.read_csv("next.csv")
    for number, member in enumerate(combined().members, 1):
        expected = member.predict([{name: suggestion["point"][name] for name in member.space.names}])[0]
        assert suggestion[f"table_says_{number}"] == pytest.approx(expected)
        assert written[f"table_says_{number}"][0] == pytest.approx(expected)
    pd.concat([pd.read_csv("done.csv"), written]).to_csv("more.csv", index=False)
    assert run("suggest", "--covariance", "two.mkbo.json", "--done", "more.csv").exit_code == 0


@pytest.mark.parametrize("directions", [["same"], ["same", "opposite"]])
def test_first_suggestions_take_a_direction_for_each_table(run, folder, directions):
    pytest.importorskip("botorch")
    options = [word for direction in directions for word in ("--direction", direction)]
    result = run("suggest", "--covariance", "two.mkbo.json", "-n", 2, *options)
    assert result.exit_code == 0, result.output
    assert "hardness" in result.output
    assert "yield" in result.output


def test_too_many_directions_are_refused(run, folder):
    pytest.importorskip("botorch")
    options = [word for _ in range(3) for word in ("--direction", "same")]
    result = run("suggest", "--covariance", "two.mkbo.json", *options)
    assert result.exit_code == 2
    assert "one for each of 2 tables" in result.output


SETTINGS = ("--space", "space.toml", "--trainer", "gp", "--out", "new.mkbo.json")


def test_two_tables_are_trained_on(run, folder):
    result = run("pretrain", "a.csv", "b.csv", "--target", "hardness", "--target", "yield", *SETTINGS)
    assert result.exit_code == 0, result.output
    cov = PretrainedCovariance.load("new.mkbo.json")
    assert cov.targets == ("hardness", "yield")
    assert [member.space.names for member in cov.members] == [("p", "q"), ("q", "r")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.csv", "b.csv", "--target", "hardness", *SETTINGS[2:]), "--space"),
        (("a.csv", "b.csv", "--target", "hardness", "--target", "yield", *SETTINGS[:4]), "--out"),
        (("a.csv", "b.csv", *["--target", "yield"] * 3, *SETTINGS), "each of 2, got 3"),
        (("a.csv", "b.csv", "--target", "hardness", *SETTINGS), "table 2: target 'hardness'"),
    ],
)
def test_tables_that_do_not_belong_together(run, folder, arguments, words):
    result = run("pretrain", *arguments)
    assert result.exit_code == 2
    assert words in result.output
