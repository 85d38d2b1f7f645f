"""Benchmark problems made from others: tables of labels, values to be hit."""

import numpy as np
import pytest

from mkbo_plugins.experiments.benchmark.lookup import train
from mkbo_plugins.experiments.benchmark.runner import make_problem
from tests.conftest import shared_file


@pytest.mark.parametrize("name", ["hartmann3", "graphene_pi_gopi"])
def test_labels_say_which_values_are_above_the_median(name):
    data = None if name == "hartmann3" else shared_file("data/lig_graphene.csv").parent
    values, labels = (make_problem(each, 1, data) for each in (name, f"{name}_labels"))
    np.testing.assert_array_equal(labels.source_points, values.source_points)
    np.testing.assert_array_equal(labels.source_y > 0, values.source_y > np.median(values.source_y))
    assert set(labels.source_y) == {-1.0, 1.0}
    np.testing.assert_array_equal(labels.regret, values.regret)


def test_a_table_of_labels_trains_a_classifier():
    assert train(make_problem("hartmann3_labels", 0, None), "gp").record.task == "classification"


@pytest.mark.parametrize(
    ("name", "plain", "file", "value", "tolerance"),
    [
        ("graphene_pi_gopi_hit", "graphene_pi_gopi", "lig_graphene.csv", 0.7, 0.01),
        ("hartmann3_hit", "hartmann3", "", 0, 0),
    ],
)
def test_a_value_to_be_hit_leaves_the_table_as_it_is(name, plain, file, value, tolerance):
    data = shared_file(f"data/{file}").parent if file else None
    aimed, problem = (make_problem(each, 1, data) for each in (name, plain))
    np.testing.assert_array_equal(aimed.source_y, problem.source_y)
    if not file:
        value, tolerance = np.quantile(problem.outcome, 0.9), 0.01 * problem.outcome.std()
    miss = np.abs(problem.outcome - value)
    np.testing.assert_allclose(aimed.outcome, -(miss**2))
    assert aimed.regret.argmin() == miss.argmin()
    np.testing.assert_allclose(
        np.ptp(np.log10(miss + tolerance)) * (1 - aimed.regret),
        -np.log10(miss + tolerance) + np.log10(miss + tolerance).max(),
    )


def test_controls_change_the_table_alone():
    plain, negated, shuffled = (make_problem("branin", 1, None, control) for control in (None, "negated", "shuffled"))
    np.testing.assert_array_equal(negated.source_y, -plain.source_y)
    np.testing.assert_array_equal(np.sort(shuffled.source_y), np.sort(plain.source_y))
    assert (shuffled.source_y != plain.source_y).mean() > 0.9
    for control in (negated, shuffled):
        np.testing.assert_array_equal(control.source_points, plain.source_points)
        np.testing.assert_array_equal(control.outcome, plain.outcome)
    assert len({plain.name, negated.name, shuffled.name}) == 3
