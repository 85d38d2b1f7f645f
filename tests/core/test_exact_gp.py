"""The Gaussian process of given covariance: its constant, evidence, predictions and leave-one-out."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, norm

from mkbo_plugins.core.gp.exact_gp import ExactGP, held_out_log_density, held_out_residuals, symmetric_inverse


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 9))
    return root @ root.T / 9 + 0.1 * np.eye(6), rng.normal(size=6) + 2


def log_density(mean, covariance, y):
    return multivariate_normal(np.full(len(y), mean), covariance).logpdf(y)


def test_the_constant_is_the_most_likely_one(problem):
    covariance, y = problem
    process = ExactGP.conditioned(covariance, y)
    best = minimize_scalar(lambda mean: -log_density(mean, covariance, y), bracket=(0, 4), tol=1e-10)
    assert process.mean == pytest.approx(best.x, abs=1e-6)
    assert process.log_evidence == pytest.approx(log_density(process.mean, covariance, y))


@pytest.mark.parametrize("mean", [0.0, 1.5])
def test_a_constant_that_is_given_is_kept(problem, mean):
    covariance, y = problem
    process = ExactGP.conditioned(covariance, y, mean)
    assert process.mean == mean
    assert process.log_evidence == pytest.approx(log_density(mean, covariance, y))
    assert -process.deviance / 2 == pytest.approx(process.log_evidence + 6 * np.log(2 * np.pi) / 2)
    assert np.allclose(process.predict_mean(covariance[:2]), mean + (y - mean)[:2])


@pytest.mark.parametrize("mean", [None, 0.0])
def test_evidence_slope_is_its_gradient(problem, mean):
    covariance, y = problem
    direction = np.random.default_rng(1).normal(size=(6, 6))
    direction = direction + direction.T
    ahead, behind = (ExactGP.conditioned(covariance + h * direction, y, mean).log_evidence for h in (1e-6, -1e-6))
    slope = np.sum(ExactGP.conditioned(covariance, y, mean).evidence_slope() * direction)
    assert slope == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def test_predictions_are_conditional_moments(problem):
    covariance, y = problem
    process = ExactGP.conditioned(covariance, y)
    cross = np.random.default_rng(2).normal(size=(3, 6))
    expected = process.mean + cross @ np.linalg.solve(covariance, y - process.mean)
    taken_away = cross @ np.linalg.solve(covariance, cross.T)
    mean, variance = process.predict(cross, np.array([9.0, 8.0, 7.0]))
    assert np.allclose(process.predict_mean(cross), expected)
    assert np.allclose(mean, expected)
    assert np.allclose(variance, np.array([9.0, 8.0, 7.0]) - np.diag(taken_away))
    root = process.whitened(cross)
    assert np.allclose(root.T @ root, taken_away)
    assert np.allclose(process.solve(cross), np.linalg.solve(covariance, cross.T))


def test_a_covariance_must_be_positive_definite():
    with pytest.raises(np.linalg.LinAlgError):
        ExactGP.conditioned(np.ones((2, 2)) - 2 * np.eye(2), np.zeros(2))


def test_the_symmetric_inverse_needs_no_positive_definite_matrix(problem):
    for covariance in (problem[0], np.ones((2, 2)) - 3 * np.eye(2)):
        inverse = symmetric_inverse(covariance)
        assert np.allclose(inverse @ covariance, np.eye(len(covariance)))
        assert np.array_equal(inverse, inverse.T)


@pytest.mark.parametrize("labels", [None, [2, 0, 0, 1, 2, 2]])
def test_held_out_residuals_are_those_of_conditioning_on_the_others(problem, labels):
    covariance, y = problem
    process = ExactGP.conditioned(covariance, y, mean=0.5)
    groups = np.arange(6) if labels is None else np.array(labels)
    expected = np.empty(6)
    for label in groups:
        out, rest = groups == label, groups != label
        others = ExactGP.conditioned(covariance[np.ix_(rest, rest)], y[rest], mean=0.5)
        expected[out] = y[out] - others.predict_mean(covariance[np.ix_(out, rest)])
    residuals = held_out_residuals(process.inverse, process.dual, None if labels is None else groups)
    assert np.allclose(residuals, expected)


def test_held_out_density_is_that_of_conditioning_on_the_others(problem):
    covariance, y = problem
    process = ExactGP.conditioned(covariance, y, mean=0.5)
    expected = 0.0
    for i in range(6):
        rest = np.arange(6) != i
        others = ExactGP.conditioned(covariance[np.ix_(rest, rest)], y[rest], mean=0.5)
        mean, variance = others.predict(covariance[[i]][:, rest], covariance[i, i])
        expected += float(norm(mean, np.sqrt(variance)).logpdf(y[i])[0])
    assert held_out_log_density(process.inverse, process.dual) == pytest.approx(expected)
