"""Tables of labels: what is refused, what is learned, and that everything downstream takes it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.covariance.base import GRAM_FORMS
from mkbo_plugins.errors import FitError, SampleWarning, TableError
from mkbo_plugins.report.words import describe
from mkbo_plugins.tables.labels import balanced_weights, read_labels

pytestmark = pytest.mark.filterwarnings("ignore::mkbo_plugins.errors.GridEdgeWarning")
N = 40
SPACE = ParameterSpace.from_dict({"power": (0, 10), "time": (1, 5)})
FIXED = {"C": 3.0, "sigma": 0.5, "ard": False, "progress": False}


def labelled(share=0.5, seed=0):
    """Return rows that pass where power is high enough for the time given, with a little noise."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"power": rng.uniform(0, 10, N), "time": rng.uniform(1, 5, N)})
    score = table["power"] + 1.5 * table["time"] + rng.normal(0, 0.8, N)
    return table.assign(quality=np.where(score > np.quantile(score, 1 - share), "passed", "failed"))


TABLE = labelled()


def train(table=TABLE, **settings):
    given = {} if settings.get("trainer") == "gp" else FIXED
    return pretrain(table, "quality", SPACE, task="classification", **(given | settings))


# Reading


@pytest.mark.parametrize(
    ("values", "expected", "classes"),
    [
        (["no", "yes", "no"], [-1, 1, -1], ("no", "yes")),
        ([True, False, np.True_], [1, -1, 1], ("False", "True")),
        ([0, 1, 1], [-1, 1, 1], ("0", "1")),
        ([np.int64(5), 2.5, 5], [1, -1, 1], ("2.5", "5")),
        ([-1.0, 1.0, 1.0], [-1, 1, 1], ("-1.0", "1.0")),
    ],
)
def test_two_labels_of_any_kind(values, expected, classes):
    y, names = read_labels(values, "quality")
    assert y.tolist() == expected
    assert names == classes


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["a", "b", "c"], ["'quality'", "3 classes", "'a', 'b', 'c'", "one against the others", "it is 'c'"]),
        (np.arange(50.0).tolist(), ["50 classes", "..."]),
        (["a", "a", "a"], ["every row", "'a'"]),
        (["a", 1, 2], ["int", "str", "mend"]),
        ([True, 1, 0], ["bool", "int"]),
        ([1.0, np.inf, 2.0], ["finite"]),
    ],
)
def test_other_labels_are_refused(values, words):
    with pytest.raises(TableError) as caught:
        read_labels(values, "quality")
    assert all(word in str(caught.value) for word in words)


def test_labels_of_any_kind_teach_the_same():
    passed = TABLE["quality"] == "passed"
    by_text = train()
    for labels in (passed, passed.astype(int), np.where(passed, 1.0, -1.0), np.where(passed, "yes", "no")):
        cov = train(TABLE.assign(quality=labels))
        assert np.array_equal(cov.alpha, by_text.alpha)
        assert cov.loo_mse == by_text.loo_mse
    arrays = pretrain(
        (TABLE[["power", "time"]].to_numpy(), passed.to_numpy()), space=SPACE, task="classification", **FIXED
    )
    assert np.array_equal(arrays.alpha, by_text.alpha)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"epsilon": 0.1}, FitError, ["epsilon"]),
        ({"log_target": True}, FitError, ["log_target"]),
        ({"table": TABLE.assign(quality=["passed"] + ["failed"] * (N - 1))}, TableError, ["'passed'", "one row"]),
        ({"groups": np.where(TABLE["quality"] == "passed", 0, np.arange(N))}, TableError, ["'passed'", "one group"]),
        ({"table": TABLE.assign(quality=None)}, TableError, ["missing", "quality"]),
    ],
)
def test_bad_use_is_refused(settings, error, words):
    with pytest.raises(error) as caught:
        train(**settings)
    assert all(word in str(caught.value) for word in words)


def test_labels_in_regression_name_the_way_out():
    with pytest.raises(TableError, match="task='classification'"):
        pretrain(TABLE, "quality", SPACE, **FIXED)


# Numbers


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_is_the_balanced_machine_of_scikit_learn(share):
    table = labelled(share)
    cov = train(table)
    Z = np.asarray(SPACE.to_coordinates(SPACE.to_raw(table), "centred"))
    gram = SquaredExponential(sigma=0.5).gram(Z)
    plain = SVC(kernel="precomputed", C=3.0, class_weight="balanced", tol=1e-8).fit(gram, table["quality"])
    np.testing.assert_allclose(cov.predict(table), plain.decision_function(gram), rtol=0, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_held_out_error_is_that_of_refits(grouped, weighted):
    table = labelled(0.3)
    groups = np.arange(N) // 2 if grouped else np.arange(N)
    weight = np.random.default_rng(1).uniform(0.5, 2, N) if weighted else np.ones(N)
    cov = train(table, groups=groups if grouped else None, sample_weight=weight if weighted else None)
    y = np.where(table["quality"] == "passed", 1.0, -1.0)
    balanced = balanced_weights(y, weight)
    Z = np.asarray(SPACE.to_coordinates(SPACE.to_raw(table), "centred"))
    gram, wrong = SquaredExponential(sigma=0.5).gram(Z), np.empty(N)
    for label in np.unique(groups):
        held, kept = groups == label, groups != label
        plain = SVC(kernel="precomputed", C=3.0, tol=1e-8)
        plain.fit(gram[np.ix_(kept, kept)], y[kept], sample_weight=balanced[kept])
        wrong[held] = plain.decision_function(gram[np.ix_(held, kept)]) * y[held] <= 0
    assert cov.loo_mse / 4 == pytest.approx(np.average(wrong, weights=balanced))
    assert cov.record.explained == pytest.approx(1 - 2 * np.average(wrong, weights=balanced))


def test_both_classes_weigh_the_same():
    y = np.array([1.0, -1, -1, -1])
    for given in (None, np.array([2.0, 1, 1, 4])):
        weight = balanced_weights(y, given)
        assert weight[y > 0].sum() == pytest.approx(weight[y < 0].sum())
        assert weight.mean() == pytest.approx(1)


def test_a_rare_class_is_not_given_up():
    table = labelled(0.15)
    cov = train(table, C=0.3)
    right = (cov.predict(table) > 0) == (table["quality"] == "passed")
    assert right[table["quality"] == "passed"].mean() > 0.8


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_learns_what_makes_rows_pass(trainer):
    settings = {} if trainer == "gp" else {"C": [0.3, 3.0, 30.0, 300.0], "sigma": [0.02, 0.5, 2.0, 50.0]}
    cov = train(trainer=trainer, **settings)
    fresh = labelled(seed=7)
    right = (cov.predict(fresh) > 0) == (fresh["quality"] == "passed")
    assert right.mean() > 0.8
    assert cov.record.explained > 0.5


# What takes it


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_saved_shown_and_evaluated_like_any_other(trainer, tmp_path):
    cov = train(trainer=trainer)
    assert cov.record.task == "classification"
    assert cov.epsilon is None
    assert PretrainedCovariance.load(cov.save(tmp_path / "labels.mkbo.json")) == cov
    shown = dict(describe(cov))
    assert "held-out labels" in shown["fit"]
    assert "'passed' (20 rows) counts as 1" in shown["note"]
    assert "weigh the same" in shown["note"]
    for form in GRAM_FORMS:
        gram = cov.gram(TABLE, form=form)
        assert np.linalg.eigvalsh(gram).min() > -1e-9 * np.abs(gram).max()
    best = cov.starting_points(3, "same")
    assert (cov.predict(best) > 0).all()


def test_a_long_table_is_sampled():
    with pytest.warns(SampleWarning, match=r"24 .* rightly in \d+%"):
        cov = train(max_rows=24)
    assert cov.record.rows == 24


def test_an_interrupted_search_can_be_resumed(tmp_path):
    grids = {"C": [0.3, 3.0, 30.0, 300.0], "sigma": [0.02, 0.5, 2.0, 50.0]}
    expected = train(**grids)
    assert train(**grids, resume=tmp_path / "grid.json") == expected
    assert train(**grids, resume=tmp_path / "grid.json") == expected


@pytest.mark.parametrize("form", ["transfer", "moment", "two_layer", "normalised", "reweighted"])
def test_botorch_model_fits(form):
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from mkbo_plugins.botorch import pretrained_gp

    cov = train()
    X = torch.as_tensor(SPACE.sobol(8, 1), dtype=torch.double)
    model = pretrained_gp(cov, X, X.sum(dim=1, keepdim=True), form=form)
    model.eval()
    assert torch.isfinite(model.posterior(X).variance).all()
