"""Rows that repeat a setting: one row with their mean, and no leak between those held out and those kept."""

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.errors import SampleWarning, TableError
from mkbo_plugins.tables.replicates import joined_replicates
from mkbo_plugins.tables.table import read_table
from tests.conftest import shared_file

SPACE = ParameterSpace.from_dict({"a": (-1, 1), "b": (-1, 1)})
FIXED = {"C": 5.0, "sigma": 2.0, "epsilon": 0.05, "ard": False, "progress": False}


def table(counts, seed=0, noise=0.3):
    """Return rows in random order, as many of each setting as counted."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (len(counts), 2))[rng.permutation(np.repeat(np.arange(len(counts)), counts))]
    y = np.sin(3 * X[:, 0]) + X[:, 1] + rng.normal(0, noise, len(X))
    return pd.DataFrame(X, columns=["a", "b"]).assign(y=y)


def joined(rows, **settings):
    return joined_replicates(read_table(rows, "y", SPACE, **settings))


def test_a_setting_has_the_mean_and_number_of_its_rows():
    rows = table([1, 4, 2, 1, 3, 7])
    data, wanted = joined(rows), rows.groupby(["a", "b"], sort=False)["y"]
    np.testing.assert_array_equal(data.X, [key for key, _ in wanted])
    np.testing.assert_allclose(data.y, wanted.mean())
    np.testing.assert_array_equal(data.counts, wanted.count())
    assert data.scatter.freedom == 12
    assert data.scatter.variance == pytest.approx((wanted.var(ddof=0) * wanted.count()).sum() / 12)
    np.testing.assert_array_equal(rows.loc[data.numbers, ["a", "b"]], data.X)


def test_a_table_without_them_is_left_alone():
    data = read_table(table([1] * 6), "y", SPACE)
    assert joined_replicates(data) is data


def test_their_weights_and_known_noise_make_the_mean():
    rows, weight = table([2] * 5), np.linspace(1, 4, 10)
    setting = rows.groupby("a", sort=False).ngroup()
    weighted = joined(rows, sample_weight=weight)
    means = [np.average(rows["y"][setting == k], weights=weight[setting == k]) for k in range(5)]
    np.testing.assert_allclose(weighted.y, means)
    ratio = np.bincount(setting, weight) / (weighted.counts * weighted.sample_weight)
    np.testing.assert_allclose(ratio, ratio[0])
    known = joined(rows, noise=weight**-0.5)
    np.testing.assert_allclose(known.y, means)
    np.testing.assert_allclose(known.noise**-2, np.bincount(setting, weight))
    assert known.scatter.freedom == 0


def test_the_unit_of_weights_does_not_change_what_they_scatter():
    rows, weight = table([2] * 5), np.linspace(1, 4, 10)
    data = joined(rows, sample_weight=weight)
    some = data.rows(np.array([1, 2, 4]))
    for one in (data, some):
        assert one.sample_weight.mean() == pytest.approx(1)
    ratio = some.sample_weight[0] / data.sample_weight[1]
    assert some.scatter.sum_of_squares == pytest.approx(ratio * data.scatter.sum_of_squares)


def test_rows_of_different_groups_stay_apart():
    rows = table([4] * 5).sort_values("a", ignore_index=True)
    data = joined(rows, groups=[0, 0, 1, 1] * 2 + [2] * 12)
    np.testing.assert_array_equal(data.counts, [2, 2, 2, 2, 4, 4, 4])
    np.testing.assert_array_equal(data.groups, [0, 1, 0, 1, 2, 2, 2])


def test_labels_of_a_setting_are_a_group():
    rows = table([3] * 6)
    data = joined(rows.assign(y=rows["y"] > 0), task="classification")
    assert len(data.y) == 18
    for group in range(6):
        assert np.ptp(data.X[data.groups == group], axis=0).max() == 0
    own = joined(rows.assign(y=rows["y"] > 0), task="classification", groups=list(range(18)))
    assert len(set(own.groups)) == 18


def test_two_settings_are_no_table():
    with pytest.raises(TableError, match="7 rows have only 2 different settings"):
        joined(table([3, 4]))


@pytest.mark.parametrize("settings", [FIXED, {"trainer": "gp"}])
def test_copies_of_rows_teach_nothing_more(settings):
    rows = table([1] * 12, noise=1.0)
    alone, twice = (pretrain(one, "y", SPACE, **settings) for one in (rows, pd.concat([rows, rows])))
    assert twice.loo_mse == alone.loo_mse
    np.testing.assert_array_equal(twice.predict(rows), alone.predict(rows))
    assert "24 rows have 12 different settings, each with one value" in twice.record.notes[0]


@pytest.mark.parametrize("settings", [FIXED, {"trainer": "gp"}])
def test_a_row_is_predicted_without_its_replicates(settings):
    """Values of each setting's own are not explained, however often they are repeated."""
    rng = np.random.default_rng(0)
    rows = table([5] * 30)
    rows["y"] = rng.normal(size=30)[rows.groupby("a", sort=False).ngroup()] + rng.normal(0, 0.05, 150)
    assert pretrain(rows, "y", SPACE, **settings).record.explained < 0.1


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_their_order_does_not_matter(trainer):
    rows = table([2, 1, 3, 2, 1, 1, 2, 2])
    predicted = [
        pretrain(one, "y", SPACE, trainer=trainer, **FIXED if trainer == "svm" else {}).predict(rows)
        for one in (rows, rows.sample(frac=1, random_state=1))
    ]
    np.testing.assert_allclose(*predicted, rtol=0, atol=1e-3)


def test_the_most_rows_are_settings():
    rows = table([6] * 10)
    assert pretrain(rows, "y", SPACE, max_rows=10, **FIXED).record.rows == 10
    with pytest.warns(SampleWarning, match="of 10 settings, 5 that fill the space"):
        pretrain(rows, "y", SPACE, max_rows=5, **FIXED)


def test_a_real_table_is_held_out_by_setting():
    """Repeated mixtures of the concrete table are predicted from others, and no worse than with its rows as groups."""
    rows = pd.read_csv(shared_file("data/concrete.csv"))
    target, inputs = rows.columns[-1], list(rows.columns[:-1])
    again = rows[rows.duplicated(inputs, keep=False)]
    some = pd.concat([again, rows.drop(again.index).sample(60, random_state=0)], ignore_index=True)
    space = ParameterSpace.from_table(some, target)
    cov = pretrain(some, target, space, trainer="gp")
    assert cov.record.rows == len(some.drop_duplicates(inputs))
    others = rows.drop(again.index).sample(300, random_state=1)
    error = np.sqrt(np.mean((cov.predict(others) - others[target]) ** 2))
    assert error < others[target].std()
