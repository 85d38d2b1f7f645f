"""Starting points from the table and without it."""

import numpy as np
import pytest

from mkbo_plugins.experiments.benchmark.first_trials import from_table, space_filling
from mkbo_plugins.experiments.benchmark.lookup import Lookup, train
from mkbo_plugins.experiments.benchmark.synthetic import FAMILIES


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Lookup:
    problem = FAMILIES["hartmann3"](0)
    return Lookup(problem, train(problem, "gp"), tmp_path_factory.mktemp("lookup"))


def test_the_table_proposes_its_best_candidate_first_and_others_apart(lookup: Lookup):
    first, *others = from_table(lookup, 4)
    assert first == np.argmax(lookup.decision)
    assert len({first, *others}) == 4
    assert (lookup.decision[others] > np.median(lookup.decision)).all()


def test_without_a_table_they_are_spread_and_follow_the_seed(lookup: Lookup):
    chosen = space_filling(lookup, 16, 0)
    assert len(set(chosen)) == 16
    assert chosen == space_filling(lookup, 16, 0) != space_filling(lookup, 16, 1)
    # Each half of each parameter has its share.
    assert (np.abs((lookup.unit[chosen] < 0.5).sum(axis=0) - 8) <= 3).all()
