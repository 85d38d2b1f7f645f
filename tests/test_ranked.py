"""Targets by rank: what no monotone change of a table matters to, and predictions in the table's own units."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.cli import app
from mkbo_plugins.covariance.content import Reader
from mkbo_plugins.covariance.ranked import KNOTS, RankedTarget
from mkbo_plugins.errors import ArtefactError, FitError
from mkbo_plugins.pretraining.held_out import held_out

SPACE = ParameterSpace.from_dict({"a": (0.0, 1.0), "b": (0.0, 1.0)})
QUICK = {"progress": False, "n_jobs": 1}
SVM = {"trainer": "svm", "C": 3.0, "epsilon": 0.05, "sigma": 1.0, "rank_target": True}
GP = {"trainer": "gp", "rank_target": True}


def rows(n=30, seed=0):
    """Return a table whose outcome rises with one parameter, with a long lower tail."""
    X = SPACE.sobol(n, seed=seed)
    return pd.DataFrame(X, columns=SPACE.names).assign(y=-np.exp(3 * (1 - X[:, 0])) + X[:, 1])


@pytest.fixture(scope="module", params=["svm", "gp"])
def trained(request):
    """Return settings and a covariance pre-trained with them on the table by rank."""
    settings = {"svm": SVM, "gp": GP}[request.param]
    return settings, pretrain(rows(), "y", SPACE, **settings, **QUICK)


def test_no_monotone_change_of_the_target_matters_but_to_predictions(trained):
    settings, cov = trained
    table = rows()
    changed = pretrain(table.assign(y=np.exp(0.1 * table["y"]) - 7), "y", SPACE, **settings, **QUICK)
    np.testing.assert_array_equal(changed.alpha, cov.alpha)
    np.testing.assert_array_equal(changed.gram(table, form="moment"), cov.gram(table, form="moment"))
    assert changed.record == cov.record
    assert changed.fingerprint != cov.fingerprint
    assert np.corrcoef(changed.predict(table).argsort(), cov.predict(table).argsort())[0, 1] > 0.999


def test_the_machine_is_trained_on_normal_scores_and_predicts_values(trained):
    settings, cov = trained
    table = rows()
    scores = norm.ppf((table["y"].rank() - 0.5) / len(table))
    same = pretrain(table.assign(y=scores), "y", SPACE, **settings | {"rank_target": False}, **QUICK)
    np.testing.assert_allclose(cov.fixed.decision(cov.to_coordinates(table)), same.predict(table), atol=1e-9)
    assert cov.loo_mse == pytest.approx(
        same.loo_mse, rel=1e-4
    )  # scores differ by rounding, and what the solver does of it
    new = rows(100, seed=1)
    errors = cov.predict(new) - new["y"]
    assert np.sqrt(np.mean(errors**2)) < 0.25 * new["y"].std()


def test_scores_and_values_are_those_of_the_rows(trained):
    ranked, y = trained[1].ranked, rows()["y"].to_numpy()
    np.testing.assert_allclose(ranked.value_of(norm.ppf((np.arange(30) + 0.5) / 30)), np.sort(y), rtol=1e-12)
    beyond = ranked.value_of(np.array([-4.0, 4.0]))
    assert beyond[0] < y.min()
    assert beyond[1] > y.max()
    many = np.random.default_rng(0).normal(size=3000)
    few = RankedTarget.of(norm.ppf((many.argsort().argsort() + 0.5) / 3000), many)
    assert len(few.values) == KNOTS
    assert (few.values[0], few.values[-1]) == (many.min(), many.max())


@pytest.mark.parametrize("more", [{}, {"sample_weight": np.linspace(1, 3, 45)}])
def test_held_out_predictions_have_the_recorded_error(trained, more):
    table = pd.concat([rows(), rows().head(15).assign(y=lambda t: t["y"] * 1.2)], ignore_index=True)
    cov = pretrain(table, "y", SPACE, **trained[0], **more, **QUICK)
    found = held_out(cov, table, **more)
    means = [
        np.average(group["y"], weights=None if not more else more["sample_weight"][group.index])
        for _, group in table.groupby(["a", "b"], sort=False)
    ]
    np.testing.assert_allclose(found.values, means)
    assert np.corrcoef(found.values, found.predicted)[0, 1] > 0.9


def test_tables_are_taken_as_they_are_unless_asked():
    assert pretrain(rows(), "y", SPACE, **GP | {"rank_target": False}, **QUICK).ranked is None
    noisy = pretrain(rows().assign(s=0.1), "y", SPACE, **GP, noise="s", **QUICK)
    assert noisy.ranked is not None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank_target": True, "log_target": True}, "no logarithm changes ranks; leave out log_target"),
        ({"rank_target": True, "task": "classification"}, "labels have no tube, no logarithm and no ranks"),
        ({"rank_target": "yes"}, "rank_target must be True or False"),
    ],
)
def test_what_makes_no_sense_is_said(settings, words):
    with pytest.raises(FitError, match=words):
        pretrain(rows(), "y", SPACE, **settings, **QUICK)


def test_a_saved_covariance_is_the_same(trained, tmp_path):
    cov = trained[1]
    path = cov.save(tmp_path / "ranked.mkbo.json")
    loaded = PretrainedCovariance.load(path)
    assert loaded == cov
    np.testing.assert_array_equal(loaded.predict(rows()), cov.predict(rows()))
    for scores, values in (([0.0, 0.0], [1.0, 2.0]), ([0.0], [1.0]), ([0.0, 1.0], [2.0, 1.0]), ([0.0, 1.0], [2.0])):
        with pytest.raises(ArtefactError, match=r"'scores' and 'values'.*rising"):
            RankedTarget.from_content(Reader({"scores": scores, "values": values}, "ranked."))


def test_the_command_line_says_so(tmp_path):
    rows().to_csv(tmp_path / "t.csv", index=False)
    for option, ranked in (["--rank-target"], True), ([], False):
        command = ["pretrain", str(tmp_path / "t.csv"), "--target", "y", "--trainer", "gp", "--json", *option]
        result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / f"{ranked}.mkbo.json")])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["rank_target"] is ranked
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "True.mkbo.json")]).output
    assert "target y (by rank)" in shown


def test_rows_of_hardly_any_weight_leave_a_way_back():
    table = rows()
    weight = np.where(np.arange(30) % 3 == 0, 1e-25, 1.0)
    cov = pretrain(table, "y", SPACE, sample_weight=weight, **GP, **QUICK)
    assert (np.diff(cov.ranked.scores) > 0).all()
    assert np.isfinite(cov.predict(table)).all()
