"""The Gaussian process of a table: gradient, closed-form leave-one-out, weights and recovery."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.priors import log_bounds, log_prior_of_logarithms, table_priors
from mkbo_plugins.core.training import ard
from mkbo_plugins.core.training.ard import TableEvidence, ard_map, mean_and_std
from mkbo_plugins.core.training.scatter import Scatter, weighted_means
from tests.core.helpers import FAMILIES, numeric_gradient

RANGES = np.array([2.0, 2.0])


def table(n=20, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(3 * X[:, 0]) + 0.3 * X[:, 1] + rng.normal(0, 0.1, n) + shift


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ard", [True, False])
def test_gradient(family, ard):
    X, y = table(8)
    noise_factor = np.random.default_rng(1).uniform(0.3, 3, len(y))
    evidence = TableEvidence(FAMILIES[family](), X, y - y.mean(), noise_factor)
    rng = np.random.default_rng(2)
    for _ in range(4):
        theta = np.append(rng.uniform(-1, 1, 2 if ard else 1), [rng.uniform(-1, 1), rng.uniform(-2, 0)])
        value, gradient = evidence.log_evidence(theta)
        assert np.isfinite(value)
        numeric = numeric_gradient(lambda t: evidence.log_evidence(t)[0], theta)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


def noisy_evidence(X, y):
    return TableEvidence(SquaredExponential(), X, y, np.linspace(0.5, 2, len(y)), 0.3 * y**2, Scatter(1.7, 5))


def test_gradient_with_known_noise_and_scatter():
    X, y = table(8)
    evidence, theta = noisy_evidence(X, y), np.array([0.3, -0.2, 0.1, -1.0])
    numeric = numeric_gradient(lambda t: evidence.log_evidence(t)[0], theta)
    np.testing.assert_allclose(evidence.log_evidence(theta)[1], numeric, rtol=1e-5, atol=1e-5)


def test_known_noise_comes_on_top_of_the_common_one():
    X, y = table(8)
    noise = np.exp(-1.0) * np.linspace(0.5, 2, len(y)) + 0.3 * y**2
    known = replace(noisy_evidence(X, y), known=0.0, noise_factor=np.exp(1.0) * noise)
    theta = np.array([0.3, -0.2, 0.1, -1.0])
    assert noisy_evidence(X, y).log_evidence(theta)[0] == pytest.approx(known.log_evidence(theta)[0])


def test_means_with_their_scatter_have_the_evidence_of_all_rows():
    X, _ = table(6)
    rng = np.random.default_rng(3)
    members, weight = rng.permutation(np.repeat(np.arange(6), [1, 4, 2, 1, 3, 7])), rng.uniform(0.3, 3, 18)
    y = rng.normal(size=6)[members] + rng.normal(0, 0.3, 18)
    means, scatter = weighted_means(y, members, weight)
    rows = TableEvidence(SquaredExponential(), X[members], y, 1 / weight)
    joined = TableEvidence(SquaredExponential(), X, means, 1 / np.bincount(members, weight), scatter=scatter)
    thetas = rng.normal(size=(5, 4))
    differences = [rows.log_evidence(theta)[0] - joined.log_evidence(theta)[0] for theta in thetas]
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-5)
    for theta in thetas:
        np.testing.assert_allclose(rows.log_evidence(theta)[1], joined.log_evidence(theta)[1], rtol=0, atol=1e-4)


@pytest.mark.parametrize("ard", [True, False])
def test_value_is_the_log_density_up_to_a_constant(ard):
    X, y = table(8)
    factor = np.linspace(0.5, 2, len(y))
    evidence, priors = TableEvidence(SquaredExponential(sigma=0.7), X, y, factor), table_priors(RANGES, ard=ard)

    def posterior(theta):
        return evidence.log_evidence(theta)[0] + log_prior_of_logarithms(theta, priors)[0]

    def expected(theta):
        weights, (amplitude, noise) = np.exp(theta[:-2]) * np.ones(2), np.exp(theta[-2:])
        covariance = amplitude * SquaredExponential(sigma=0.7, weights=tuple(weights)).gram(X) + np.diag(noise * factor)
        likelihood = 0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(covariance)[1])
        lengths = np.log(1 / np.sqrt(weights))[: len(theta) - 2]
        median = np.sqrt(2) + np.log(2) / 2 + np.log(2.0)
        prior = ((lengths - median) ** 2 / 3).sum() + np.log(amplitude) ** 2 + (np.log(noise) + 4) ** 2
        return -likelihood - 0.5 * prior

    first, second = np.zeros(len(priors)), np.linspace(-0.8, 0.9, len(priors))
    assert posterior(second) - posterior(first) == pytest.approx(expected(second) - expected(first), rel=1e-6)


def test_parameters_whose_kernel_overflows_have_no_evidence():
    X, y = table(8)
    evidence = TableEvidence(FAMILIES["exponential"](), X, y, np.ones(len(y)))
    value, gradient = evidence.log_evidence(np.array([8.0, 8.0, 0.0, 0.0]))
    assert value == -np.inf
    assert np.isfinite(gradient).all()


def test_parameters_without_a_cholesky_factor_have_no_evidence():
    X, y = table()
    evidence = TableEvidence(FAMILIES["polynomial"](), 100 * X, y, np.ones(len(y)))
    value, gradient = evidence.log_evidence(np.array([6.0, 6.0, 8.0, -14.0]))
    assert value == -np.inf
    assert np.isfinite(gradient).all()


def noise_ratio(kernel, evidence, X, y, weight):
    """Return noise over amplitude, which every row's residual and dual coefficient must agree on."""
    gram = replace(kernel, weights=tuple(evidence.weights)).gram(X)
    ratios = weight * (y - evidence.bias - gram @ evidence.alpha) / evidence.alpha
    np.testing.assert_allclose(ratios, np.median(ratios), rtol=1e-4)
    return gram, float(np.median(ratios))


def refitted(gram, y, mean, ratio, weight, labels):
    """Return held-out prediction minus value, by an explicit refit of the dual vector without each group."""
    residuals = np.empty_like(y)
    for label in np.unique(labels):
        held, kept = labels == label, labels != label
        dual = np.linalg.solve(gram[np.ix_(kept, kept)] + np.diag(ratio / weight[kept]), y[kept] - mean)
        residuals[held] = gram[np.ix_(held, kept)] @ dual + mean - y[held]
    return residuals


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_leave_one_out_is_a_refit_with_hyperparameters_held(family, ard, weighted, grouped):
    X, y = table(shift=4.0)
    kernel = FAMILIES[family]()
    weight = np.random.default_rng(5).uniform(0.3, 3, len(y)) if weighted else np.ones(len(y))
    labels = np.arange(len(y)) // 3 if grouped else np.arange(len(y))
    evidence = ard_map(
        kernel,
        X,
        y,
        RANGES,
        ard=ard,
        sample_weight=weight if weighted else None,
        groups=labels if grouped else None,
    )
    gram, ratio = noise_ratio(kernel, evidence, X, y, weight)
    expected = refitted(gram, y, evidence.bias, ratio, weight, labels)
    np.testing.assert_allclose(evidence.loo_residuals, expected, rtol=0, atol=1e-5)
    assert evidence.bias == pytest.approx(np.average(y, weights=weight))
    assert evidence.converged
    assert len(set(evidence.weights)) == (2 if ard else 1)


def test_a_weighted_row_is_a_row_given_several_times():
    X, y = table(12)
    weight = np.ones(len(y))
    weight[[1, 4]] = 3
    kernel = SquaredExponential()
    evidence = ard_map(kernel, X, y, RANGES, ard=True, sample_weight=weight)
    gram, ratio = noise_ratio(kernel, evidence, X, y, weight)
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    repeated = gram[np.ix_(rows, rows)] + ratio * np.eye(len(rows))
    dual = np.linalg.solve(repeated, y[rows] - y[rows].mean())
    np.testing.assert_allclose(np.bincount(rows, dual), evidence.alpha, rtol=0, atol=1e-5)
    assert evidence.bias == pytest.approx(y[rows].mean())


def test_follows_the_scale_and_shift_of_the_values():
    X, y = table()
    plain = ard_map(SquaredExponential(), X, y, RANGES, ard=True)
    moved = ard_map(SquaredExponential(), X, 1e3 * y - 50, RANGES, ard=True)
    np.testing.assert_allclose(moved.weights, plain.weights, rtol=1e-3)
    np.testing.assert_allclose(moved.alpha, 1e3 * plain.alpha, rtol=0, atol=1e-2 * 1e3 * np.abs(plain.alpha).max())
    assert moved.bias == pytest.approx(1e3 * plain.bias - 50)


def test_finds_the_coordinate_that_matters():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (40, 2))
    y = np.sin(5 * X[:, 0]) + rng.normal(0, 0.02, 40)
    evidence = ard_map(SquaredExponential(), X, y, RANGES, ard=True)
    assert evidence.weights[0] > 10 * evidence.weights[1]
    assert np.sqrt(np.mean(evidence.loo_residuals**2)) < 0.1


def test_no_start_of_the_optimiser_does_better():
    X, y = table()
    centred = (y - y.mean()) / y.std()
    of_table = TableEvidence(SquaredExponential(), X, centred, np.ones(len(y)))
    priors = table_priors(RANGES, ard=True)

    def posterior(theta):
        return of_table.log_evidence(theta)[0] + log_prior_of_logarithms(theta, priors)[0]

    evidence = ard_map(SquaredExponential(), X, y, RANGES, ard=True)
    _, ratio = noise_ratio(SquaredExponential(), evidence, X, y, np.ones(len(y)))
    amplitudes = np.linspace(-3, 6, 200)
    best = max(
        posterior(np.append(np.log(evidence.weights), [log_amplitude, np.log(ratio) + log_amplitude]))
        for log_amplitude in amplitudes
    )
    rng = np.random.default_rng(7)
    low, high = log_bounds(priors).T
    assert all(posterior(rng.uniform(np.maximum(low, -6), np.minimum(high, 4))) < best for _ in range(100))


@pytest.mark.parametrize("weight", [None, np.linspace(0.2, 3, 20)])
def test_the_weights_are_where_the_posterior_density_is_stationary(weight):
    X, y = table()
    fit = ard_map(SquaredExponential(), X, y, RANGES, ard=True, sample_weight=weight)
    weight = np.ones(20) if weight is None else weight
    mean, std = mean_and_std(y, weight)
    evidence = TableEvidence(SquaredExponential(), X, (y - mean) / std, 1 / weight)
    _, ratio = noise_ratio(SquaredExponential(), fit, X, y, weight)

    def posterior(log_amplitude):
        theta = np.append(np.log(fit.weights), [log_amplitude, np.log(ratio) + log_amplitude])
        values = evidence.log_evidence(theta), log_prior_of_logarithms(theta, table_priors(RANGES, ard=True))
        return sum(value for value, _ in values), sum(gradient for _, gradient in values)

    best = minimize_scalar(lambda log_amplitude: -posterior(log_amplitude)[0], bounds=(-3, 6))
    assert posterior(best.x)[1] == pytest.approx(0, abs=0.02)


def test_a_search_that_was_cut_short_is_told(monkeypatch):
    X, y = table()
    monkeypatch.setattr(ard, "map_fit", partial(ard.map_fit, options={"maxiter": 1}))
    assert not ard_map(SquaredExponential(), X, y, RANGES, ard=True).converged


def test_the_width_of_a_coordinate_is_the_unit_of_its_length_scale():
    X, y = table()
    plain = ard_map(SquaredExponential(), X, y, RANGES, ard=True)
    halved = ard_map(SquaredExponential(), X / 2, y, RANGES / 2, ard=True)
    np.testing.assert_allclose(halved.weights, 4 * plain.weights, rtol=1e-2)


def test_steps_of_the_optimiser_are_reported_and_change_nothing():
    X, y = table()
    steps = []
    reported = ard_map(SquaredExponential(), X, y, RANGES, ard=True, report=lambda *step: steps.append(step))
    assert steps == [(i + 1, None) for i in range(len(steps))]
    assert len(steps) > 3
    np.testing.assert_array_equal(reported.weights, ard_map(SquaredExponential(), X, y, RANGES, ard=True).weights)
