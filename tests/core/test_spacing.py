"""Distances that experiments keep."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from mkbo_plugins.core.gp.design import upper_confidence_design
from mkbo_plugins.core.gp.spacing import Spacing, least_distance, scattered_design
from mkbo_plugins.core.priors import length_scale_prior

NOTHING = np.empty((0, 2))


def alike(X, Y):
    """Return the correlation of a table in which all points are alike."""
    return np.ones((len(X), len(Y)))


def square(n=200, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, 2))


def test_least_distance_is_where_the_prior_of_the_length_scale_is_densest():
    for d in (1, 4, 30):
        prior = length_scale_prior(d)
        x = np.linspace(0.5, 2, 10001) * least_distance(d)
        density = -np.log(x) - (np.log(x) - prior.log_mean) ** 2 / (2 * prior.log_spread**2)
        assert x[np.argmax(density)] == pytest.approx(least_distance(d), rel=0.03)
        assert least_distance(d) >= 0.1 * math.sqrt(d)


@pytest.mark.parametrize("design", ["best", "scattered"])
@pytest.mark.parametrize("present", [0, 3])
def test_a_design_keeps_its_distance_from_all_points_that_are_there(design, present):
    X, there = square(), square(present, 1)
    spacing = Spacing(X, there, 0.2)
    if design == "best":
        picked = upper_confidence_design(X.sum(axis=1), alike, X, 6, spacing=spacing)
    else:
        picked = scattered_design(spacing, 6, 0)
    assert pdist(np.concatenate([X[picked], there[:0]])).min() >= 0.2
    assert cdist(X[picked], there).min(initial=np.inf) >= 0.2


def test_of_those_far_enough_the_best_is_picked():
    X = square()
    score, picked = X @ [2.0, 1.0], []
    for chosen in upper_confidence_design(score, alike, X, 8, spacing=Spacing(X, NOTHING, 0.25)):
        far = cdist(X, X[picked]).min(axis=1, initial=np.inf) >= 0.25
        assert far.any()
        assert score[chosen] == score[far].max()
        picked.append(chosen)


@pytest.mark.parametrize("design", ["best", "scattered"])
def test_without_room_half_the_distance_will_do_and_so_on_until_every_point_is_there(design):
    X = np.stack(np.meshgrid(np.arange(4) / 3, np.arange(3) / 2), axis=-1).reshape(-1, 2)
    spacing = Spacing(X, X[:1], 0.9)
    if design == "best":
        picked = upper_confidence_design(X.sum(axis=1), alike, X, len(X), spacing=spacing)
    else:
        picked = scattered_design(spacing, len(X), 0)
    assert sorted(picked) == list(range(len(X)))
    assert picked[-1] == 0  # where a point is already
    rooms = [cdist(X, X[[0, *picked[:i]]]).min(axis=1).max() for i in range(len(X))]
    for clearance, most in zip(spacing.clearances(picked), rooms, strict=True):
        asked = next((0.9 / 2**k for k in range(9) if 0.9 / 2**k <= most), 0.0)
        assert clearance >= asked


def test_clearances_count_what_is_there_and_what_was_picked_before():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [0.5, 0.0]])
    np.testing.assert_allclose(Spacing(X, NOTHING, 1.0).clearances([0, 1, 2]), [np.inf, 1.0, 0.5])
    np.testing.assert_allclose(Spacing(X, np.array([[0.0, 0.1]]), 1.0).clearances([2, 0]), [math.hypot(0.5, 0.1), 0.1])


def test_scattered_points_are_the_same_for_a_seed_and_others_for_another():
    spacing = Spacing(square(), NOTHING, 0.1)
    first = scattered_design(spacing, 9, 1)
    np.testing.assert_array_equal(first, scattered_design(spacing, 9, 1))
    np.testing.assert_array_equal(first[:4], scattered_design(spacing, 4, 1))
    assert list(first) != list(scattered_design(spacing, 9, 2))
