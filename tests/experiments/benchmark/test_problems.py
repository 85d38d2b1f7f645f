"""Benchmark problems whose table holds labels."""

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
