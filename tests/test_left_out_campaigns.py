"""What a library would have saved on its own campaigns: each left out in turn, nothing of it being known."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp
from typer.testing import CliRunner

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.cli import app
from mkbo_plugins.errors import FitError, MkboError, TableError
from mkbo_plugins.pretraining import left_out_campaigns as module
from mkbo_plugins.pretraining.left_out_campaigns import expected_by_chance
from mkbo_plugins.validation import LeftOut, LeftOutCampaigns, leave_one_campaign_out
from tests.test_campaigns import SPACE, runs

QUICK = {"trainer": "gp", "progress": False}


def covariances(monkeypatch, table, space=SPACE, **arguments):
    """Return the covariance that each campaign was simulated with, by its name, and its rows."""
    used = {}

    def keep(cov, own, name, simulation):
        used[name] = cov, own
        return LeftOut(name, len(own.y), 1, 5.0, 5.0, 5, 5)

    monkeypatch.setattr(module, "simulated", keep)
    leave_one_campaign_out(table, "y", space, by="study", **QUICK, **arguments)
    return used


def test_the_covariance_is_that_of_the_others(monkeypatch):
    table = runs(3)
    used = covariances(monkeypatch, table, narrow=False)
    for name, (cov, own) in used.items():
        alone = pretrain(table[table["study"] != name], "y", SPACE, by="study", **QUICK)
        assert cov == alone
        np.testing.assert_array_equal(own.X, table.loc[table["study"] == name, list(SPACE.names)])
    assert list(used) == ["study 0", "study 1", "study 2"]


@pytest.mark.parametrize("narrow", [True, False])
def test_nothing_of_a_campaign_left_out_enters(monkeypatch, narrow):
    table = runs(3)
    left_out = table["study"] == "study 1"
    shuffled = table.copy()
    shuffled.loc[left_out, "y"] = np.random.default_rng(0).permutation(table.loc[left_out, "y"])
    scaled = table.assign(y=table["y"].where(~left_out, -1e6 * table["y"]))
    wanted = covariances(monkeypatch, table, narrow=narrow)["study 1"][0].to_bytes()
    for other in (shuffled, scaled):
        assert covariances(monkeypatch, other, narrow=narrow)["study 1"][0].to_bytes() == wanted


def test_bounds_and_levels_of_the_others_alone_enter(monkeypatch):
    table = runs(3).assign(kind=["x", "y"] * 21)
    left_out = table["study"] == "study 1"
    table.loc[left_out, "kind"] = ["x", "z"] * 7
    wide = table.copy()
    wide.loc[left_out, ["a", "b"]] *= [3.0, 7.0]
    wide.loc[left_out, "kind"] = ["v", "w"] * 7
    by_table = {}
    for name, one in (("as it is", table), ("wide", wide)):
        space = ParameterSpace.from_table(one.drop(columns="study"), "y")
        cov, own = covariances(monkeypatch, one, space)["study 1"]
        by_table[name] = cov.to_bytes()
        assert cov.space["kind"].levels == ("x", "y")
        assert cov.space["a"].upper == table.loc[~left_out, "a"].max()
        assert len(own.y) == 14
    assert by_table["as it is"] == by_table["wide"]


@pytest.mark.parametrize("minimise", [False, True])
def test_a_library_of_like_campaigns_saves_trials(minimise):
    table = runs(1, 40)
    sign = -1 if minimise else 1
    parts = [table.assign(study=f"s {i}", y=sign * (i + 1) * table["y"] + i) for i in range(5)]
    parts = [part.iloc[np.random.default_rng(i).permutation(40)[:30]] for i, part in enumerate(parts)]
    found = leave_one_campaign_out(pd.concat(parts), "y", SPACE, by="study", minimise=minimise, trials=20, **QUICK)
    assert all(one.library <= 2 and one.first_trials <= 2 for one in found.campaigns)
    assert all((one.rows, one.good) == (30, 1) for one in found.campaigns)
    assert found.saved.mean() > 1


def test_levels_that_the_others_lack_can_be_tried():
    table = runs(3, 16).assign(kind=["x", "y"] * 24)
    table.loc[table["study"] == "study 1", "kind"] = ["x", "z"] * 8
    space = ParameterSpace.from_table(table.drop(columns="study"), "y")
    found = leave_one_campaign_out(table, "y", space, by="study", trials=8, **QUICK)
    assert all(1 <= one.library <= 9 for one in found.campaigns)


def test_tables_are_campaigns_as_a_column_says():
    table = runs(3, 12)
    parts = [part.drop(columns="study") for _, part in table.groupby("study")]
    pooled = leave_one_campaign_out(parts, "y", SPACE, trials=8, **QUICK)
    by_column = leave_one_campaign_out(table, "y", SPACE, by="study", trials=8, **QUICK)
    assert [one.name for one in pooled.campaigns] == ["table 1", "table 2", "table 3"]
    assert [one.library for one in pooled.campaigns] == [one.library for one in by_column.campaigns]


@pytest.mark.parametrize(("rows", "good", "most"), [(5, 1, 5), (6, 2, 3), (6, 6, 4), (4, 1, 9)])
def test_chance_is_the_mean_over_all_orders(rows, good, most):
    counts = [
        min(order.index(True) + 1, most + 1)
        for order in itertools.permutations([True] * good + [False] * (rows - good))
    ]
    assert expected_by_chance(rows, good, most) == pytest.approx(np.mean(counts))


def forecast(saved, stock=20.0):
    return LeftOutCampaigns(tuple(LeftOut(str(i), 50, 2, 17.0, stock, 9, stock - s) for i, s in enumerate(saved)), 30)


def test_what_follows_keeps_to_the_spread_over_campaigns():
    certain = forecast([5, 6, 7, 5, 6, 8])
    wanted = ttest_1samp(certain.saved, 0).confidence_interval()
    assert certain.interval == pytest.approx((wanted.low, wanted.high))
    assert "saves trials on campaigns like these" in certain.conclusion
    assert "costs trials" in forecast([-5, -6, -7, -5, -6]).conclusion
    assert "differ too much" in forecast([15, -6, 9, -2, 0]).conclusion
    assert "4 campaigns are too few" in forecast([15, 15, 15, 15]).conclusion


@pytest.mark.parametrize(
    ("change", "arguments", "error", "words"),
    [
        (lambda t: t, {"by": None}, TableError, "must name the column"),
        (lambda t: t.head(14), {}, TableError, "a single campaign"),
        (lambda t: t.head(16), {}, TableError, "without campaign 'study"),
        (lambda t: t, {"minimise": 1}, FitError, "minimise"),
        (lambda t: t, {"trials": 4}, FitError, "above 4"),
        (lambda t: t, {"noise": np.ones(42)}, TableError, "noise must name a column"),
        (lambda t: t, {"form": "magic"}, MkboError, "magic"),
        (lambda t: t, {"trainer": "magic"}, FitError, "without campaign 'study 0': trainer"),
    ],
)
def test_what_cannot_be_left_out_is_said(change, arguments, error, words):
    with pytest.raises(error, match=words):
        leave_one_campaign_out(change(runs(3)), "y", SPACE, **{"by": "study"} | QUICK | arguments)


def test_the_command_line_says_it_once_the_covariance_is_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    runs(3, 10).to_csv("runs.csv", index=False)
    asked = ["pretrain", "runs.csv", "--target", "y", "--trainer", "gp", "--forecast", "minimise", "--jobs", "1"]
    refused = run(app, asked)
    assert refused.exit_code == 2
    assert "name their column with --by" in " ".join(refused.output.split())
    told = run(app, [*asked, "--by", "study"])
    assert told.exit_code == 0, told.output
    assert "3 campaigns are too few to say" in " ".join(told.output.split())
    assert len(PretrainedCovariance.load("runs.mkbo.json").campaigns) == 3
    found = json.loads(run(app, [*asked, "--by", "study", "--json"]).stdout)["forecast"]
    table = runs(3, 10)
    space = ParameterSpace.from_table(table.drop(columns="study"), "y")
    wanted = leave_one_campaign_out(table, "y", space, by="study", minimise=True, **QUICK)
    assert [one["library"] for one in found["campaigns"]] == [one.library for one in wanted.campaigns]
    assert found["conclusion"] == wanted.conclusion
