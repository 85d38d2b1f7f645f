"""The Gaussian process of given covariance: its constant, evidence and predictions."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from mkbo_plugins.core.gp.process import Process


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 9))
    return root @ root.T / 9 + 0.1 * np.eye(6), rng.normal(size=6) + 2


def log_density(mean, covariance, y):
    return multivariate_normal(np.full(len(y), mean), covariance).logpdf(y)


def test_the_constant_is_the_most_likely_one(problem):
    covariance, y = problem
    process = Process.conditioned(covariance, y)
    best = minimize_scalar(lambda mean: -log_density(mean, covariance, y), bracket=(0, 4), tol=1e-10)
    assert process.mean == pytest.approx(best.x, abs=1e-6)
    assert process.log_evidence == pytest.approx(log_density(process.mean, covariance, y))


def test_evidence_slope_is_its_gradient(problem):
    covariance, y = problem
    direction = np.random.default_rng(1).normal(size=(6, 6))
    direction = direction + direction.T
    ahead, behind = (Process.conditioned(covariance + h * direction, y).log_evidence for h in (1e-6, -1e-6))
    found = np.sum(Process.conditioned(covariance, y).evidence_slope() * direction)
    assert found == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def test_predictions_are_conditional_moments(problem):
    covariance, y = problem
    process = Process.conditioned(covariance, y)
    cross = np.random.default_rng(2).normal(size=(3, 6))
    assert np.allclose(
        process.predict_mean(cross), process.mean + cross @ np.linalg.solve(covariance, y - process.mean)
    )
    root = process.explained(cross)
    assert np.allclose(root.T @ root, cross @ np.linalg.solve(covariance, cross.T))
    assert np.allclose(process.solve(cross), np.linalg.solve(covariance, cross.T))


def test_a_covariance_must_be_positive_definite():
    with pytest.raises(np.linalg.LinAlgError):
        Process.conditioned(np.ones((2, 2)) - 2 * np.eye(2), np.zeros(2))
