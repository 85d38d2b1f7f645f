"""Campaigns over a finite pool."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from mkbo_plugins.core.gp.pool import first_good, nearest_candidates, trials_until
from mkbo_plugins.experiments.benchmark.campaign import ACQUISITIONS, run_lookup
from mkbo_plugins.experiments.benchmark.lookup import Lookup, train
from mkbo_plugins.experiments.benchmark.models import MODELS
from mkbo_plugins.experiments.benchmark.synthetic import FAMILIES


@pytest.fixture(scope="module")
def lookup(tmp_path_factory):
    problem = FAMILIES["forrester"](0)
    return Lookup(problem, train(problem, "gp"), tmp_path_factory.mktemp("lookup"))


@pytest.mark.parametrize(("model", "form"), [("stock", "stock"), ("similarity_link_directed", "similarity_link")])
def test_a_campaign_ends_at_the_first_good_trial_of_the_benchmark_s_campaign(lookup, model, form):
    outcome, starts = lookup.problem.outcome, [3, 40, 71]
    record = run_lookup(lookup, MODELS[model], 0, 6, ACQUISITIONS["nei"], starts=starts)
    mean = None if form == "stock" else 0.5 * lookup.decision
    for last in (0, 2, 4, 8):
        good = np.arange(len(outcome)) == record.indices[last]
        assert trials_until(lookup.candidates, form, outcome, good, starts, 9, mean) == last + 1
    never = np.zeros(len(outcome), dtype=bool)
    assert trials_until(lookup.candidates, form, outcome, never, starts, 5, mean) == 6


def test_the_first_good_trial_counts_from_one():
    assert first_good(np.array([True, False]), 5) == 1
    assert first_good(np.array([False, True, True]), 5) == 2
    assert first_good(np.array([False, False]), 5) == 6
    assert first_good(np.array([False, False, True]), 2) == 3


def test_each_point_has_a_candidate_of_its_own():
    rng = np.random.default_rng(0)
    points, unit = rng.random((6, 2)), rng.random((9, 2))
    chosen = nearest_candidates(points, unit)
    assert len(set(chosen)) == 6
    for i, candidate in enumerate(chosen):
        left = np.setdiff1d(np.arange(9), chosen[:i])
        assert candidate == left[np.argmin(cdist(points[i : i + 1], unit[left])[0])]
