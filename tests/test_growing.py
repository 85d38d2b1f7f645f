"""Campaigns that join a covariance of others, or leave it, without training on the others again."""

import datetime
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from mkbo_plugins import PretrainedCovariance, add_campaign, drop_campaign, pretrain
from mkbo_plugins.cli import app
from mkbo_plugins.core.training.subset import farthest_points_beside
from mkbo_plugins.errors import FitError, KernelError, MkboError, TableError, TableWarning
from tests.test_campaigns import QUICK, SPACE, outcome, runs

OLDER = Path(__file__).parent / "older" / "campaigns_of_1_0.mkbo.json"
QUIET = {"progress": False}


def study(i, table=None):
    """Return the rows of one campaign."""
    table = runs() if table is None else table
    return table[table["study"] == f"study {i}"].drop(columns="study")


@pytest.fixture(scope="module")
def library():
    """Return a covariance of the first three campaigns."""
    return pretrain(runs(3), "y", SPACE, by="study", trainer="gp", **QUICK)


@pytest.fixture(scope="module")
def grown(library):
    """Return the same with a fourth one."""
    return add_campaign(library, study(3), "study 3", date="2026-11-03", **QUIET)


def test_campaigns_that_were_there_keep_their_functions_to_the_last_bit(library, grown):
    before, after = library.fixed.campaigns, grown.fixed.campaigns
    n = len(before.points)
    assert after.kernel == before.kernel
    np.testing.assert_array_equal(after.points[:n], before.points)
    np.testing.assert_array_equal(after.alpha[:3, :n], before.alpha)
    np.testing.assert_array_equal(after.alpha[:3, n:], 0.0)
    np.testing.assert_array_equal(after.bias[:3], before.bias)
    X = library.to_coordinates(SPACE.sobol(50, seed=9))
    np.testing.assert_allclose(after(X)[:, :3], before(X), atol=1e-12)
    assert grown.campaigns[:3] == library.campaigns


def test_nothing_is_changed_in_place(library, grown):
    again = pretrain(runs(3), "y", SPACE, by="study", trainer="gp", **QUICK)
    assert library == again
    assert grown != library


def test_one_by_one_is_nearly_all_at_once(library, grown):
    at_once = pretrain(runs(), "y", SPACE, by="study", trainer="gp", **QUICK)
    X = SPACE.sobol(100, seed=8)
    assert np.corrcoef(grown.predict(X), at_once.predict(X))[0, 1] > 0.999
    for form in ("moment", "reweighted"):
        one, other = grown.gram(X, form=form).ravel(), at_once.gram(X, form=form).ravel()
        assert np.corrcoef(one, other)[0, 1] > 0.99
    assert np.corrcoef(library.predict(X), at_once.predict(X))[0, 1] < 0.99


def test_what_depends_on_all_is_that_of_the_campaigns_as_they_are(grown):
    campaigns = grown.fixed.campaigns
    predictions = campaigns(campaigns.points)
    assert grown.fixed.decision_mean == pytest.approx(predictions.mean())
    diagonal = grown.fixed.components(("moment",), campaigns.points, elementwise=True)["moment"].value
    assert diagonal.mean() == pytest.approx(1.0, rel=1e-12)
    assert np.corrcoef(grown.fixed.decision(campaigns.points), predictions.mean(axis=1))[0, 1] > 0.95
    assert grown.record.rows == 56
    assert grown.record.loo_mse == pytest.approx(np.mean([campaign.loo_mse for campaign in grown.campaigns]))


def test_a_campaign_elsewhere_is_learned_by_settings_of_its_own(library):
    X = SPACE.sobol(14, seed=3)
    own = pd.DataFrame(X, columns=SPACE.names).assign(y=np.sin(9 * X[:, 0]))
    after = add_campaign(library, own, "waves", **QUIET).fixed.campaigns
    points = library.to_coordinates(X)
    assert len(after.points) == len(library.fixed.campaigns.points) + 14
    scores = norm.ppf((own["y"].rank() - 0.5) / 14)
    assert np.corrcoef(after(points)[:, -1], scores)[0, 1] > 0.9


def test_settings_that_span_predictions_stay_as_few_as_asked_for():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = pretrain(runs(3), "y", SPACE, by="study", trainer="gp", max_rows=np.int64(45), **QUICK)
        after = add_campaign(PretrainedCovariance.from_bytes(few.to_bytes()), study(3), "study 3", **QUIET)
        assert len(few.fixed.campaigns.points) == 42
        assert len(after.fixed.campaigns.points) == 45


def test_settings_beside_others_are_far_from_both():
    rng = np.random.default_rng(0)
    present, X = rng.random((5, 2)), rng.random((40, 2))
    picked = farthest_points_beside(present, X, 6)
    for k in range(6):
        there = np.concatenate([present, X[picked[:k]]])
        nearest = ((X[:, None] - there) ** 2).sum(axis=2).min(axis=1)
        assert picked[k] == np.argmax(nearest)
    assert farthest_points_beside(present, present, 3) == []


def test_the_machine_is_trained_as_the_first_one_was():
    grids = {"C": [1.0, 3.0], "epsilon": 0.05, "sigma": 0.5}
    with pytest.raises(FitError, match="C must be"):
        pretrain(runs(3), "y", SPACE, by="study", C="much", **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pretrain(runs(3), "y", SPACE, by="study", ard=False, **grids, **QUICK)
        read = PretrainedCovariance.from_bytes(library.to_bytes())
        after = add_campaign(read, study(3), "study 3", **QUIET)
    assert after.C in grids["C"]
    assert (after.epsilon, after.sigma) == (0.05, 0.5)
    assert len(set(after.weights)) == 1


def test_what_a_campaign_adds_goes_with_it(library, grown):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        without = drop_campaign(grown, "study 3", **QUIET)
    X = SPACE.sobol(30, seed=4)
    assert without.campaigns == library.campaigns
    np.testing.assert_allclose(without.predict(X), library.predict(X), atol=1e-12)
    fewer = drop_campaign(library, "study 1", **QUIET)
    assert [campaign.name for campaign in fewer.campaigns] == ["study 0", "study 2"]
    with pytest.raises(TableError, match="that of its table"):
        drop_campaign(fewer, "study 0", **QUIET)
    with pytest.raises(TableError, match=r"no campaign is called 'study 9'.*did you mean"):
        drop_campaign(library, "study 9", **QUIET)


def test_a_file_of_an_older_version_is_read_as_ever_and_says_what_it_lacks():
    old = PretrainedCovariance.load(OLDER)
    assert old.fingerprint == "8a2ff46728f71f0c58e4794ba988a5694f74c0018a0c23dd78757c45a869e66e"
    assert old.to_bytes() == OLDER.read_bytes()
    assert [campaign.date for campaign in old.campaigns] == [None] * 3
    with pytest.raises(KernelError, match=r"before campaigns could be added.*pre-train once more"):
        add_campaign(old, study(3), "new", **QUIET)


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ({}, {"name": "study 1"}, "'study 1' already"),
        ({}, {"name": " "}, "text of 1 to"),
        ({}, {"name": 7}, "text of 1 to"),
        ({}, {"date": "3.11.2026"}, r"--date\) must be a day"),
        ({}, {"date": 2026}, r"--date\) must be a day"),
        ({"y": 1.0}, {}, "constant"),
        ({"a": np.nan}, {}, "missing"),
        ({}, {"target": "z"}, "'z' is not a column"),
        ({}, {"n_jobs": 0}, "n_jobs"),
    ],
)
def test_what_cannot_be_added_is_said(library, change, arguments, words):
    with pytest.raises(MkboError, match=words):
        add_campaign(library, study(3).assign(**change), **{"name": "new"} | arguments, **QUIET)


def test_campaigns_join_campaigns_alone(grown):
    alone = pretrain(study(0), "y", SPACE, trainer="gp", **QUICK)
    with pytest.raises(KernelError, match=r"of one table.*by="):
        add_campaign(alone, study(1), "new", **QUIET)
    assert grown.with_levels({}) == grown


def test_days_are_taken_from_a_column_or_told():
    table = runs(3)
    days = pd.to_datetime("2026-11-03") + pd.to_timedelta(table.groupby("study").cumcount(), unit="D")
    table["when"] = days.dt.strftime("%Y-%m-%d %H:%M").where(table["study"] != "study 2").astype(object)
    table.loc[table["study"] == "study 1", "when"] = datetime.date(2026, 1, 2)
    cov = pretrain(table, "y", SPACE, by="study", dates="when", trainer="gp", **QUICK)
    assert [campaign.date for campaign in cov.campaigns] == ["2026-11-03/2026-11-16", "2026-01-02", None]
    assert PretrainedCovariance.from_bytes(cov.to_bytes()) == cov
    of_numpy = table.assign(when=pd.Series(list(days.to_numpy("datetime64[D]")), dtype=object))
    dated = pretrain(of_numpy, "y", SPACE, by="study", dates="when", trainer="gp", **QUICK)
    assert {campaign.date for campaign in dated.campaigns} == {"2026-11-03/2026-11-16"}
    undated = pretrain(table, "y", SPACE, by="study", trainer="gp", **QUICK)
    assert undated.fixed == cov.fixed
    for faulty, words in (("soon", "got 'soon'"), (20261103, "got 20261103")):
        table.loc[5, "when"] = faulty
        with pytest.raises(TableError, match=rf"row 5, counting from 0, must hold days as 2026-11-03, {words}"):
            pretrain(table, "y", SPACE, by="study", dates="when", **QUICK)
    with pytest.raises(TableError, match="which by"):
        pretrain(table, "y", SPACE, dates="when", **QUICK)
    with pytest.raises(TableError, match="'whem' is not a column"):
        pretrain(table, "y", SPACE, by="study", dates="whem", **QUICK)
    with pytest.warns(TableWarning, match="only campaign"):
        pretrain(table.head(14).drop(5), "y", SPACE, by="study", dates="when", trainer="gp", **QUICK)


def test_results_of_optimisers_join_as_tables_do(library):
    from skopt import gp_minimize
    from skopt.space import Real

    dimensions = [Real(0.0, 2.0, name="a"), Real(1.0, 100.0, prior="log-uniform", name="b")]
    result = gp_minimize(
        lambda x: -float(outcome(np.array([x]), 3)[0]), dimensions, n_calls=12, n_initial_points=12, random_state=0
    )
    by_result = add_campaign(library, result, "run", **QUIET)
    table = pd.DataFrame(result.x_iters, columns=["a", "b"]).assign(y=result.func_vals)
    assert by_result.fixed == add_campaign(library, table, "run", **QUIET).fixed


def test_the_command_line_adds_a_campaign_in_place(tmp_path):
    run = CliRunner().invoke
    table = runs(3).assign(when="2026-10-01")
    table.to_csv(tmp_path / "runs.csv", index=False)
    file = tmp_path / "runs.mkbo.json"
    options = ["--target", "y", "--by", "study", "--dates", "when", "--trainer", "gp"]
    made = run(app, ["pretrain", str(tmp_path / "runs.csv"), *options])
    assert made.exit_code == 0, made.output
    assert "parameter when" not in made.output
    before = file.read_bytes()
    study(3).to_csv(tmp_path / "new.csv", index=False)
    grow = ["add", str(file), str(tmp_path / "new.csv"), "--name"]
    other = run(app, [*grow, "new", "--out", str(tmp_path / "other.mkbo.json"), "--json"])
    assert other.exit_code == 0, other.output
    assert file.read_bytes() == before
    last = json.loads(other.stdout)["campaigns"][-1]
    assert (last["name"], last["rows"], last["date"], last["added"]) == ("new", 14, None, True)
    added = run(app, [*grow, "2026-11", "--date", "2026-11-03/2026-11-20"])
    assert added.exit_code == 0, added.output
    text = " ".join(run(app, ["show", str(file)]).stdout.split())
    assert "study 0: 14 rows" in text
    assert "2026-10-01" in text
    assert "2026-11-03 to 2026-11-20, added" in text
    again = run(app, [*grow, "2026-11"])
    assert again.exit_code == 2
    assert "already" in again.output
    dropped = run(app, ["drop", str(file), "--name", "2026-11", "--json"])
    assert [one["name"] for one in json.loads(dropped.stdout)["campaigns"]] == ["study 0", "study 1", "study 2"]
    assert len(PretrainedCovariance.load(file).campaigns) == 3
    assert run(app, ["drop", str(file), "--name", "2026-11"]).exit_code == 2
    assert "no date known" in " ".join(run(app, ["show", str(tmp_path / "other.mkbo.json")]).stdout.split())


def test_a_campaign_with_new_levels_joins_once_they_are_known():
    space = SPACE.from_dict({"a": (0.0, 1.0), "kind": ["x", "y"]})
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(36), "kind": ["x", "y", "z"] * 12})
    table["q"] = np.sin(5 * table["a"]) + (table["kind"] == "x")
    known = table[table["kind"] != "z"].assign(study=[0, 1] * 12)
    library = pretrain(known, "q", space, by="study", trainer="gp", **QUICK)
    with pytest.raises(MkboError, match="'z'"):
        add_campaign(library, table, "new", **QUIET)
    after = add_campaign(library.with_levels({"kind": ["z"]}), table, "new", **QUIET)
    assert after.space["kind"].levels == ("x", "y", "z")
    assert after.campaigns[-1].explained > 0.8
