"""Held-out predictions are those that training found."""

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import pretrain
from mkbo_plugins.errors import TableError
from mkbo_plugins.pretraining.held_out import held_out

GROUPS = np.arange(24) // 2
WEIGHT = np.linspace(1.0, 3.0, 24)
SVM = {"C": 5.0, "epsilon": 0.05, "sigma": 2.0}


@pytest.mark.parametrize("machine", [SVM, {"trainer": "gp"}, {"trainer": "gp", "log_target": True}])
@pytest.mark.parametrize("rows", [{}, {"groups": GROUPS}, {"sample_weight": WEIGHT}, {"noise": 0.1 * WEIGHT}])
def test_their_error_is_the_recorded_one(table, space, machine, rows):
    cov = pretrain(table, "strength", space, progress=False, **machine, **rows)
    found = held_out(cov, table, **rows)
    values, predicted = (np.log(v) if cov.log_target else v for v in (found.values, found.predicted))
    error = np.average((values - predicted) ** 2, weights=rows.get("sample_weight"))
    assert error == pytest.approx(cov.loo_mse, rel=1e-6)
    np.testing.assert_allclose(found.values, table["strength"])


@pytest.mark.parametrize("machine", [SVM, {"trainer": "gp"}])
@pytest.mark.parametrize("rows", [{}, {"sample_weight": np.linspace(1.0, 3.0, 48)}, {"noise": np.linspace(0.1, 1, 48)}])
def test_of_rows_that_repeat_there_is_one_for_each_setting(table, space, machine, rows):
    again = table.assign(strength=table["strength"] + np.random.default_rng(0).normal(0, 1, len(table)))
    both = pd.concat([table, again], ignore_index=True)
    cov = pretrain(both, "strength", space, progress=False, **machine, **rows)
    found = held_out(cov, both, **rows)
    np.testing.assert_array_equal(found.numbers, np.arange(24))
    weight = rows.get("sample_weight", rows.get("noise", np.ones(48)) ** -2.0).reshape(2, -1)
    means = np.average([table["strength"], again["strength"]], axis=0, weights=weight)
    np.testing.assert_allclose(found.values, means)
    error = np.average(
        (found.values - found.predicted) ** 2, weights=weight.sum(axis=0) if "noise" not in rows else None
    )
    assert error == pytest.approx(cov.loo_mse, rel=1e-6)


def test_they_do_not_depend_on_the_value_held_out(table, space):
    cov = pretrain(table, "strength", space, progress=False, **SVM)
    before = held_out(cov, table).predicted
    changed = table.assign(strength=table["strength"] + 0.5 * (table.index == 3))
    after = held_out(pretrain(changed, "strength", space, progress=False, **SVM, ard=True), changed)
    assert abs(after.predicted[3] - before[3]) < 0.2  # coordinate weights alone have seen it


@pytest.mark.filterwarnings("ignore::mkbo_plugins.errors.SampleWarning")
def test_a_sampled_table_gives_the_rows_used(table, space):
    cov = pretrain(table, "strength", space, trainer="gp", max_rows=15)
    found = held_out(cov, table)
    assert len(found.values) == 15
    np.testing.assert_array_equal(found.values, table["strength"].to_numpy()[found.numbers])


@pytest.mark.parametrize("machine", [SVM, {"trainer": "gp"}])
def test_another_table_is_refused(table, space, machine):
    cov = pretrain(table, "strength", space, progress=False, **machine)
    with pytest.raises(TableError, match="not the one"):
        held_out(cov, table.assign(power=table["power"] + 1))


def test_other_values_are_refused(gp_cov, table):
    with pytest.raises(TableError, match="values or weights"):
        held_out(gp_cov, table.assign(strength=table["strength"][::-1].to_numpy()))


def test_shuffled_values_are_refused(table, space):
    cov = pretrain(table, "strength", space, progress=False, **SVM)
    shuffled = table.assign(strength=np.random.default_rng(0).permutation(table["strength"]))
    with pytest.raises(TableError, match="held-out errors"):
        held_out(cov, shuffled)
