"""Acquisition and campaigns over pools."""

import numpy as np
import pytest
from scipy.stats import norm

from mkbo_plugins.core.confidence import gp_ucb_beta
from mkbo_plugins.experiments.benchmark.campaign import (
    STARTS,
    expected_improvement,
    log_density,
    log_expected_improvement,
    run_lookup,
    upper_confidence_bound,
)
from mkbo_plugins.experiments.benchmark.lookup import Lookup, train
from mkbo_plugins.experiments.benchmark.models import MODELS, Prediction
from mkbo_plugins.experiments.benchmark.synthetic import FAMILIES


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Lookup:
    problem = FAMILIES["forrester"](0)
    return Lookup(problem, train(problem, "gp"), tmp_path_factory.mktemp("lookup"))


def test_log_expected_improvement_is_the_logarithm_of_expected_improvement():
    u = np.linspace(-5, 5, 41)
    exact = 2.0 * (norm.pdf(u) + u * norm.cdf(u))
    assert log_expected_improvement(2.0 * u, np.full(41, 4.0), 0.0) == pytest.approx(np.log(exact), rel=1e-8)


def test_log_expected_improvement_rises_where_it_underflows():
    far = log_expected_improvement(np.array([-1e4, -1e3, -100.0]), np.ones(3), 0.0)
    assert np.isfinite(far).all()
    assert (np.diff(far) > 0).all()


def test_a_member_without_weight_has_no_say():
    rng = np.random.default_rng(0)
    one = Prediction(0.0, rng.normal(size=5), np.ones(5), 0.1)
    other = Prediction(-np.inf, rng.normal(size=5), np.ones(5), 0.1)
    z = np.array([0.5])
    assert expected_improvement([one, other], z, 1) == pytest.approx(expected_improvement([one], z, 1))
    values, where = rng.normal(size=5), np.arange(5)
    assert log_density([one, other], values, where) == pytest.approx(norm.logpdf(values, one.mean, np.sqrt(1.1)).mean())


@pytest.mark.parametrize("model", MODELS)
def test_every_model_runs_a_campaign(lookup: Lookup, model: str):
    record = run_lookup(lookup, MODELS[model], seed=0, trials=3)
    assert len(set(record.indices)) == STARTS + 3
    assert record.values == tuple(lookup.problem.outcome[list(record.indices)])
    assert np.isfinite(record.log_density).all()


def test_a_candidate_is_tried_again_only_where_that_is_allowed(lookup: Lookup):
    def insistent(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> list[Prediction]:
        mean = np.linspace(0, 100, len(lookup.problem.outcome))
        return [Prediction(0.0, mean, np.ones_like(mean), 0.1)]

    last = len(lookup.problem.outcome) - 1
    once, again = (run_lookup(lookup, insistent, seed=0, trials=3, repeats=repeats) for repeats in (False, True))
    assert len(set(once.indices)) == STARTS + 3
    assert again.indices[STARTS:] == (last,) * 3
    assert again.values[STARTS:] == (lookup.problem.outcome[last],) * 3


def test_upper_confidence_bound_of_equal_members_is_that_of_one():
    rng = np.random.default_rng(0)
    one = Prediction(0.0, rng.normal(size=5), rng.uniform(1, 2, 5), 0.1)
    bound = upper_confidence_bound([one, one], np.zeros(1), 2)
    assert bound == pytest.approx(one.mean + np.sqrt(gp_ucb_beta(2, 5) * one.variance))


def test_models_start_from_the_same_points(lookup: Lookup):
    runs = [run_lookup(lookup, model, seed=3, trials=1) for model in (None, MODELS["stock"], MODELS["rgpe"])]
    assert len({run.indices[:STARTS] for run in runs}) == 1
