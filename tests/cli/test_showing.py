"""`mkbo show`, and what scripts read."""

import json

import pytest

from mkbo_plugins import PretrainedCovariance


def test_a_picture_of_what_was_learned(run, folder):
    pytest.importorskip("matplotlib")
    result = run("show", "a.mkbo.json", "--plot", "a.png")
    assert result.exit_code == 0, result.output
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "strength" in result.output


@pytest.mark.parametrize(("path", "words"), [("absent/a.png", "does not exist"), ("a.picture", "such as .png")])
def test_a_picture_that_cannot_be_written(run, folder, path, words):
    pytest.importorskip("matplotlib")
    result = run("show", "a.mkbo.json", "--plot", path)
    assert result.exit_code == 2
    assert words in result.output


def test_json_is_what_the_file_says(run, folder, gp_cov):
    shown = json.loads(run("show", "a.mkbo.json", "--json").stdout)
    assert shown["explained"] == gp_cov.record.explained
    assert shown["fingerprint"] == gp_cov.fingerprint
    assert list(shown["space"]) == list(gp_cov.space.names)
    assert 0 < sum(shown["shares"].values()) <= 1 + 1e-9


def test_pretrain_prints_json_alone_on_standard_output(run, folder, gp_cov):
    result = run("pretrain", "table.csv", "--target", "strength", "--trainer", "gp", "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert PretrainedCovariance.load(shown["file"]).fingerprint == shown["fingerprint"]


def test_a_workbook_is_as_good_as_csv(run, folder, table, gp_cov):
    table.to_excel("table.xlsx", index=False)
    arguments = ("--target", "strength", "--space", "space.toml", "--trainer", "gp", "--out", "b.mkbo.json")
    assert run("pretrain", "table.xlsx", *arguments).exit_code == 0
    assert PretrainedCovariance.load("b.mkbo.json").record.loo_mse == pytest.approx(gp_cov.record.loo_mse, rel=1e-6)


@pytest.mark.parametrize("command", ["check", "pretrain", "show", "suggest", "report", "demo", "benchmark"])
def test_help_gives_examples(run, command):
    assert f"Example: mkbo {command} " in run(command, "--help").output
