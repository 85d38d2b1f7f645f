"""Tables longer than what is trained on: some rows stand for all."""

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.errors import FitError, SampleWarning
from mkbo_plugins.pretraining import long_tables
from mkbo_plugins.pretraining.held_out import held_out
from tests.conftest import shared_file

SPACE = ParameterSpace.from_dict({"a": (-1.0, 1.0), "b": (-1.0, 1.0)})
SVM = {"C": [1.0, 10.0, 100.0], "epsilon": [0.0, 0.05], "sigma": [0.5, 1.0, 2.0]}
TRAINERS = [{"trainer": "gp"}, SVM]

pytestmark = pytest.mark.filterwarnings("ignore::mkbo_plugins.errors.MkboWarning")


@pytest.fixture(autouse=True)
def few_stand_ins(monkeypatch):
    monkeypatch.setattr(long_tables, "STAND_INS", 60)


def truth(rows):
    return np.sin(3 * rows["a"]) + rows["b"] ** 2


def noisy(n=600, seed=0):
    rows = pd.DataFrame(np.random.default_rng(seed).uniform(-1, 1, (n, 2)), columns=["a", "b"])
    return rows.assign(y=truth(rows) + np.random.default_rng(seed + 1).normal(0, 0.5, n))


def train(rows, target="y", space=SPACE, **settings):
    return pretrain(rows, target, space, progress=False, **settings)


def error(cov, rows, values):
    return float(np.sqrt(np.mean((cov.predict(rows) - values) ** 2)))


@pytest.mark.parametrize("settings", TRAINERS)
def test_all_rows_predict_better_than_some_of_them_alone(settings):
    rows = noisy()
    others = pd.DataFrame(SPACE.from_raw(SPACE.sobol(256, 3)))
    all_rows, some = train(rows, **settings), train(rows, max_rows=60, **settings)
    assert error(all_rows, others, truth(others)) < 0.75 * error(some, others, truth(others))
    assert len(all_rows.alpha) <= 60


def test_so_they_do_on_real_concrete():
    table = pd.read_csv(shared_file("data/concrete.csv")).sample(frac=1, random_state=0)
    space = ParameterSpace.from_table(table, "strength_MPa")
    rows, others = table[:800], table[800:]
    errors = [
        error(train(rows, "strength_MPa", space, trainer="gp", **more), others, others["strength_MPa"])
        for more in ({}, {"max_rows": 60})
    ]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize("settings", TRAINERS)
@pytest.mark.parametrize("more", [{}, {"sample_weight": 1.0 + np.arange(600) % 3}, {"groups": np.arange(600) // 3}])
def test_held_out_predictions_have_the_recorded_error(settings, more):
    rows = noisy()
    cov = train(rows, **settings, **more)
    found = held_out(cov, rows, **more)
    assert cov.record.rows == len(found.values) == 600
    weight = more.get("sample_weight")
    assert np.average((found.values - found.predicted) ** 2, weights=weight) == pytest.approx(cov.loo_mse)
    # Noise of 0.5 cannot be predicted: a smaller error would be that of values which know the rows held out.
    assert 0.45 < np.sqrt(cov.loo_mse) < 0.6
    assert PretrainedCovariance.from_bytes(cov.to_bytes()) == cov


def test_each_row_counts_and_the_warning_names_those_that_stand_for_all():
    rows = noisy()
    with pytest.warns(SampleWarning, match="60 of 600 rows .* stand for all") as caught:
        cov = train(rows, trainer="gp")
    used = next(w.message for w in caught if isinstance(w.message, SampleWarning)).rows
    assert len(used) == 60
    other = int(np.setdiff1d(np.arange(600), used)[0])
    changed = rows.assign(y=rows["y"] + 3.0 * (rows.index == other))
    assert train(changed, trainer="gp") != cov
    assert train(changed, trainer="gp", max_rows=60).predict(rows) == pytest.approx(
        train(rows, trainer="gp", max_rows=60).predict(rows)
    )


def test_the_recorded_target_is_that_of_all_rows():
    rows = noisy()
    record = train(rows, trainer="gp").record
    assert record.target_mean == pytest.approx(rows["y"].mean())
    assert record.target_spread == pytest.approx(rows["y"].std(ddof=0))


def test_of_labels_some_rows_are_trained_on_as_they_are():
    rows = noisy()
    rows["y"] = np.where(truth(rows) > 0, "good", "bad")
    settings = {"task": "classification", "C": 1.0, "sigma": 1.0}
    cov = train(rows, **settings)
    assert cov.record.rows == 60
    assert cov.predict(rows) == pytest.approx(train(rows, max_rows=60, **settings).predict(rows))


def test_a_chain_of_long_tables_has_one_kernel(monkeypatch):
    monkeypatch.setattr(long_tables, "STAND_INS", 15)
    cov = pretrain([noisy(40), noisy(40, 5)], "y", SPACE, combine="chain", progress=False, **SVM)
    assert len(cov.fixed.earlier) == 1
    assert cov.record.rows == 40


def test_rows_far_outside_that_overflow_are_refused():
    rows = noisy()
    rows.loc[5, "a"] = 1e6
    with pytest.raises(FitError, match="overflows"):
        train(rows, kernel="exponential", **SVM)
