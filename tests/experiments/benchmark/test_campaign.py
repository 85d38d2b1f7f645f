"""Acquisition and campaigns over pools."""

import numpy as np
import pytest
from scipy.stats import norm

from mkbo_plugins.core.confidence import gp_ucb_beta
from mkbo_plugins.core.gp.improvement import log_expected_improvement
from mkbo_plugins.core.gp.moments import Moments
from mkbo_plugins.experiments.benchmark.campaign import (
    ACQUISITIONS,
    STARTS,
    Seen,
    log_density,
    noisy_expected_improvement,
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


def random_prediction(rng: np.random.Generator, log_weight: float = 0.0) -> Prediction:
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T
    return Prediction(log_weight, Moments(rng.normal(size=5), np.diag(covariance), covariance[:, [2]], 0.1))


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
    one, other = (random_prediction(rng, log_weight) for log_weight in (0.0, -np.inf))
    seen = Seen(np.array([2]), np.array([0.5]), 1)
    for acquisition in ACQUISITIONS.values():
        assert acquisition([one, other], seen) == pytest.approx(acquisition([one], seen))
    values, where = rng.normal(size=5), np.arange(5)
    exact = norm.logpdf(values, one.moments.mean, np.sqrt(one.moments.variance + one.moments.noise)).mean()
    assert log_density([one, other], values, where) == pytest.approx(exact)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_runs_a_campaign(lookup: Lookup, model: str):
    record = run_lookup(lookup, MODELS[model], seed=0, trials=3)
    assert len(set(record.indices)) == STARTS + 3
    assert record.values == tuple(lookup.problem.outcome[list(record.indices)])
    assert np.isfinite(record.log_density).all()


def test_a_candidate_is_tried_again_only_where_that_is_allowed(lookup: Lookup):
    def insistent(lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> list[Prediction]:
        mean = np.linspace(0, 100, len(lookup.problem.outcome))
        return [Prediction(0.0, Moments(mean, np.ones_like(mean), np.zeros((len(mean), len(z))), 0.1))]

    last = len(lookup.problem.outcome) - 1
    once, again = (run_lookup(lookup, insistent, seed=0, trials=3, repeats=repeats) for repeats in (False, True))
    assert len(set(once.indices)) == STARTS + 3
    assert again.indices[STARTS:] == (last,) * 3
    assert again.values[STARTS:] == (lookup.problem.outcome[last],) * 3


def test_upper_confidence_bound_of_equal_members_is_that_of_one():
    rng = np.random.default_rng(0)
    one = random_prediction(rng)
    bound = upper_confidence_bound([one, one], Seen(np.array([2]), np.zeros(1), 2))
    assert bound == pytest.approx(one.moments.mean + np.sqrt(gp_ucb_beta(2, 5) * one.moments.variance))


def test_noisy_expected_improvement_is_the_mean_improvement_on_the_function_at_what_was_tried():
    """Against plain Monte Carlo over the joint posterior, one candidate having been tried twice."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(6, 6)) / 2
    covariance, mean, indices = root @ root.T, rng.normal(size=6), np.array([3, 1, 3, 0])
    prediction = Prediction(0.0, Moments(mean, np.diag(covariance), covariance[:, indices], 0.1))
    found = np.exp(noisy_expected_improvement([prediction], Seen(indices, rng.normal(size=4), 5)))
    draws = rng.multivariate_normal(mean, covariance, 400_000)
    exact = np.maximum(draws - draws[:, [3, 1, 0]].max(axis=1, keepdims=True), 0).mean(axis=0)
    assert found[[2, 4, 5]] == pytest.approx(exact[[2, 4, 5]], rel=0.05)
    assert (found[[0, 1, 3]] < 1e-3).all()


def test_without_noise_and_with_one_value_it_is_expected_improvement():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T
    known = covariance - np.outer(covariance[0], covariance[0]) / covariance[0, 0]
    moments = Moments(rng.normal(size=5), np.diag(known), known[:, [0]], 0.0)
    seen = Seen(np.array([0]), moments.mean[[0]], 2)
    both = [acquisition([Prediction(0.0, moments)], seen) for acquisition in (ACQUISITIONS["ei"], ACQUISITIONS["nei"])]
    assert both[1][1:] == pytest.approx(both[0][1:], abs=1e-3)


def test_models_start_from_the_same_points(lookup: Lookup):
    runs = [run_lookup(lookup, model, seed=3, trials=1) for model in (None, MODELS["stock"], MODELS["rgpe"])]
    assert len({run.indices[:STARTS] for run in runs}) == 1
