"""`mkbo suggest` with outcomes that must keep to bounds, and with known noise."""

import json

import pandas as pd
import pytest

pytest.importorskip("botorch")

SUGGEST = ("suggest", "--covariance", "a.mkbo.json", "--done", "done.csv")


@pytest.fixture
def further(folder, done):
    """Write experiments with a yield that falls with power, and the noise of their outcomes."""
    done.assign(**{"yield": 100 - done["power"] / 100, "sd": 0.1}).to_csv("done.csv", index=False)


REQUIRE = ("--require", "yield >= 70", "--noise", "sd")


def test_chances_are_printed_and_written(run, further):
    result = run(*SUGGEST, *REQUIRE, "-n", 2, "--out", "next.csv")
    assert result.exit_code == 0, result.output
    assert "chance of yield >= 70" in result.output
    written = pd.read_csv("next.csv")
    assert written[["hardness", "yield", "sd"]].isna().all(axis=None)
    assert written["chance of yield >= 70"].between(0, 1).all()
    found = json.loads(run(*SUGGEST, *REQUIRE, "-n", 2, "--json").stdout)["suggestions"]
    assert [one["meets"]["yield >= 70"] for one in found] == pytest.approx(written["chance of yield >= 70"].tolist())
    assert all(one["point"]["power"] < 3500 for one in found)


def test_written_suggestions_are_read_again_as_pending(run, further):
    assert run(*SUGGEST, *REQUIRE, "--out", "next.csv").exit_code == 0
    pd.concat([pd.read_csv("done.csv"), pd.read_csv("next.csv")]).to_csv("done.csv", index=False)
    result = run(*SUGGEST, *REQUIRE, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["pending"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--require", "yield > 70"], "is written as 'yield >= 80'"),
        (["--require", "yeld >= 70"], "no column 'yeld'"),
        (["--require", "hardness >= 70", "--target", "hardness"], "'hardness' is the outcome"),
        (["--require", "yield >= 70", "--require", "yield >= 60"], "twice from the same side"),
        (["--noise", "std"], "--noise: the table of --done has no column 'std'"),
    ],
)
def test_what_cannot_be_required_is_told(run, further, arguments, words):
    result = run(*SUGGEST, *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


@pytest.mark.parametrize("option", [("--require", "yield >= 70"), ("--noise", "sd")])
def test_before_the_first_experiment_there_is_nothing_to_require(run, folder, option):
    result = run("suggest", "--covariance", "a.mkbo.json", *option)
    assert result.exit_code == 2
    assert "--done" in result.output


def test_missing_values_are_named_by_line(run, further, folder):
    table = pd.read_csv("done.csv")
    for column, option in (("yield", REQUIRE[:2]), ("sd", REQUIRE[2:])):
        table.assign(**{column: table[column].where(table.index != 3)}).to_csv("done.csv", index=False)
        result = run(*SUGGEST, *option, "--target", "hardness")
        assert result.exit_code == 2
        assert "line 5 of done.csv" in " ".join(result.output.split())
