"""The chance that experiments do not fail."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mkbo_plugins.core.gp.feasibility import NOISE, is_discredited, log_success

NOTHING = np.empty((0, 2))


def points(n, seed):
    return np.random.default_rng(seed).uniform(size=(n, 2))


def test_it_is_the_mass_above_zero_of_a_conditioned_process():
    """By rejection: draws of labels near those seen are kept, and those above 0 counted."""
    good, bad, at = np.array([[0.1, 0.4]]), np.array([[0.5, 0.4]]), np.array([[0.35, 0.4]])
    all_points = np.concatenate([good, bad, at])
    gram = np.exp(-(((all_points[:, None] - all_points[None]) / 0.3) ** 2).sum(-1) / 2)
    noisy = gram + NOISE * np.eye(3)
    given = multivariate_normal([1, 1], noisy[:2, :2])
    grid = np.linspace(-8, 8, 4001)
    joint = multivariate_normal([1, 1, 1], noisy)
    density = joint.pdf(np.column_stack([np.full_like(grid, 1.0), np.full_like(grid, -1.0), grid]))
    mass = np.trapezoid(np.where(grid > 0, density, 0), grid) / given.pdf([1, -1])
    assert np.exp(log_success(at, good, bad, 0.3))[0] == pytest.approx(mass, abs=2e-3)


def test_it_is_small_at_failures_and_large_at_successes_however_near():
    good, bad = np.array([[0.45, 0.5]]), np.array([[0.55, 0.5]])
    near = np.array([[0.549, 0.5], [0.451, 0.5]])
    failing, succeeding = np.exp(log_success(near, good, bad, 0.3))
    assert failing < 0.01
    assert succeeding > 0.9


def test_each_failure_makes_what_is_near_less_likely_and_leaves_what_is_far():
    at, good, bad = np.array([[0.3, 0.3], [60.0, 60.0]]), points(5, 1), points(4, 2)
    chances = [log_success(at, good, bad[:k], 0.3) for k in range(1, 5)]
    assert np.ptp([chance[1] for chance in chances]) < 1e-12
    assert chances[-1][0] < chances[-1][1]


def test_without_failures_it_is_one():
    np.testing.assert_array_equal(log_success(points(3, 0), points(5, 1), NOTHING, 0.3), np.zeros(3))


def test_equal_points_that_failed_and_succeeded_do_no_harm():
    both = points(3, 0)
    assert np.isfinite(log_success(both, np.repeat(both, 4, axis=0), np.repeat(both, 2, axis=0), 0.3)).all()


@pytest.mark.parametrize(("failed", "succeeded", "discredited"), [(2, 0, False), (3, 0, True), (3, 3, False)])
def test_three_failures_and_more_than_successes_discredit(failed, succeeded, discredited):
    assert is_discredited(failed, succeeded) == discredited
