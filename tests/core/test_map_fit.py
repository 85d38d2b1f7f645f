"""Searches from several starting points: the lowest minimum, and the greatest posterior density."""

import numpy as np
import pytest

from mkbo_plugins.core.gp.map_fit import REJECTED, lowest_minimum, map_fit
from mkbo_plugins.core.priors import Hyperparameter, log_prior_of_logarithms

PRIORS = [Hyperparameter(1.0, 2.0, 1e-3, 1e3), Hyperparameter(-1.0, 0.5, 1e-3, 1e3)]


def two_wells(theta):
    (x,) = theta
    return float((x**2 - 1) ** 2 + 0.3 * x), np.array([4 * x * (x**2 - 1) + 0.3])


def evidence(theta):
    """A quadratic with its maximum at (2, 2)."""
    return -float(np.sum((theta - 2) ** 2)), -2 * (theta - 2)


@pytest.mark.parametrize("starts", [(-0.8, 0.8), (0.8, -0.8), (-50.0,)])
def test_the_lowest_of_the_minima_is_found_whatever_the_order(starts):
    fit = lowest_minimum(two_wells, [np.array([start]) for start in starts], np.array([[-3.0, 3.0]]))
    assert fit.success
    assert fit.x[0] == pytest.approx(-1.0355, abs=1e-3)


def test_a_search_that_ends_on_rounding_succeeds_only_where_another_one_meets_the_criterion():
    """At its minimum the loss has a slope that no step follows, as rounding makes one."""

    def loss(theta):
        (x,) = theta
        return 1 + (x - 1) ** 2, np.array([1.0 if x == 1 else 2 * (x - 1)])

    bounds = np.array([[-3.0, 3.0]])
    assert not lowest_minimum(loss, [np.array([1.0])], bounds).success
    assert lowest_minimum(loss, [np.array([1.0]), np.array([1.5])], bounds).success

    def apart(theta):
        (x,) = theta
        return loss(theta) if x > 0 else (2 + (x + 1) ** 2, np.array([2 * (x + 1)]))

    assert not lowest_minimum(apart, [np.array([1.0]), np.array([-1.5])], bounds).success


def test_starts_are_moved_between_the_bounds():
    seen = []

    def loss(theta):
        seen.append(theta.copy())
        return two_wells(theta)

    fit = lowest_minimum(loss, [np.array([7.0])], np.array([[0.5, 2.0]]))
    assert seen[0] == pytest.approx([2.0])
    assert all(0.5 <= theta[0] <= 2.0 for theta in seen)
    assert fit.x[0] == pytest.approx(0.9601, abs=1e-3)


def test_settings_reach_the_optimiser():
    steps, bounds = [], np.array([[-3.0, 3.0]])
    settings = {"callback": lambda _: steps.append(1), "options": {"maxiter": 2}}
    lowest_minimum(two_wells, [np.array([2.5])], bounds, **settings)
    assert len(steps) == 2


def test_the_posterior_is_evidence_times_prior_and_ends_at_bounds():
    means, variances = np.array([1.0, -1.0]), np.array([4.0, 0.25])
    fit = map_fit(evidence, PRIORS, [np.zeros(2)], log_prior_of_logarithms)
    precision = 2 + 1 / variances
    assert np.allclose(fit.x, (2 * 2 + means / variances) / precision, atol=1e-5)
    in_scales = map_fit(evidence, PRIORS, [np.zeros(2)])
    assert np.allclose(in_scales.x, (2 * 2 + means / variances - 1) / precision, atol=1e-5)
    bounded = [Hyperparameter(1.0, 2.0, 1e-3, 2.0), PRIORS[1]]
    assert map_fit(evidence, bounded, [np.zeros(2)], log_prior_of_logarithms).x[0] == pytest.approx(np.log(2.0))


def test_parameters_without_evidence_are_avoided():
    def partial(theta):
        return evidence(theta) if theta[0] < 3 else (-np.inf, np.zeros(2))

    fit = map_fit(partial, PRIORS, [np.full(2, 5.0), np.zeros(2)], log_prior_of_logarithms)
    assert np.allclose(fit.x, map_fit(evidence, PRIORS, [np.zeros(2)], log_prior_of_logarithms).x, atol=1e-5)
    nowhere = map_fit(lambda theta: (-np.inf, np.zeros(2)), PRIORS, [np.zeros(2)])
    assert nowhere.fun == REJECTED
    assert np.array_equal(nowhere.x, np.zeros(2))
