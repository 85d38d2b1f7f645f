"""Joint moments of batches of points, as the search of an acquisition function needs them."""

import numpy as np
import pytest

from mkbo_plugins.core.components.directed_mean import DirectedMean
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.pair_moments import PairMoments
from mkbo_plugins.core.gp.posterior import PosteriorDensity
from mkbo_plugins.core.gp.search import SearchPosterior
from tests.core.helpers import numeric_gradient

BATCHES = 3


@pytest.fixture(params=["similarity_link", "transfer", "normalised"])
def posterior(cov, request):
    rng = np.random.default_rng(0)
    data = Points(rng.uniform(-1, 1, (9, cov.support.shape[1])), rng.uniform(0, 1, (9, 2)))
    density = PosteriorDensity(
        FormModel(cov.fixed, request.param, 2), data, rng.normal(size=9), None, DirectedMean(cov.fixed, (1.0,))
    )
    return density.posterior(density.usual_start - 0.3)


def points(posterior, n, seed=1):
    rng = np.random.default_rng(seed)
    return Points(rng.uniform(-1, 1, (n, posterior.data.frame.shape[1])), rng.uniform(0, 1, (n, 2)))


def rows(points, index):
    return Points(points.frame[index], points.stock[index])


def joined(*parts):
    return Points(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("frame", "stock")))


def shared_points(posterior, count):
    """Return points of which the second is one of the data, and the last the first once more."""
    found = points(posterior, count, seed=2)
    if count:
        found.frame[1], found.stock[1] = posterior.data.frame[4], posterior.data.stock[4]
        found.frame[-1], found.stock[-1] = found.frame[0], found.stock[0]
    return found


@pytest.mark.parametrize("shared", [0, 3])
@pytest.mark.parametrize("k", [1, 2])
def test_moments_are_the_joint_ones_of_each_batch(posterior, k, shared):
    own, front = points(posterior, BATCHES * k), shared_points(posterior, shared)
    moments = SearchPosterior(posterior).moments(own, BATCHES, front)
    for i in range(BATCHES):
        mean, covariance = posterior.joint(joined(front, rows(own, slice(i * k, (i + 1) * k))))
        np.testing.assert_allclose(moments.mean[i], mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(moments.covariance[i], covariance, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("shared", [0, 3])
@pytest.mark.parametrize("k", [1, 2])
def test_gradients_are_those_of_differences(posterior, k, shared):
    own, front = points(posterior, BATCHES * k), shared_points(posterior, shared)
    search, rng = SearchPosterior(posterior), np.random.default_rng(3)
    moments = search.moments(own, BATCHES, front)
    of_mean, of_covariance = (rng.normal(size=moment.shape) for moment in (moments.mean, moments.covariance))
    d = own.frame.shape[1]

    def total(both):
        found = search.moments(Points(both[:, :d], both[:, d:]), BATCHES, front)
        return (of_mean * found.mean).sum() + (of_covariance * found.covariance).sum()

    gradient = moments.vjp(of_mean, of_covariance)
    expected = numeric_gradient(total, np.concatenate([own.frame, own.stock], axis=1))
    found = np.concatenate([gradient.frame, gradient.stock], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


LEFT, RIGHT = np.array([0, 0, 1, 3, 3, 2]), np.array([0, 1, 1, 2, 0, 4])
"""Rows of both points of pairs, among them points with themselves and one that is in no pair."""


def test_moments_of_pairs_are_those_of_all_points(posterior):
    some = shared_points(posterior, 6)
    mean, covariance = posterior.joint(some)
    moments = PairMoments(posterior, some, LEFT, RIGHT)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(moments.covariance, covariance[LEFT, RIGHT], rtol=1e-8, atol=1e-9)


def test_gradients_of_pairs_are_those_of_differences(posterior):
    some, rng = points(posterior, 6), np.random.default_rng(3)
    of_mean, of_covariance, d = rng.normal(size=6), rng.normal(size=len(LEFT)), some.frame.shape[1]

    def total(both):
        found = PairMoments(posterior, Points(both[:, :d], both[:, d:]), LEFT, RIGHT)
        return of_mean @ found.mean + of_covariance @ found.covariance

    gradient = PairMoments(posterior, some, LEFT, RIGHT).vjp(of_mean, of_covariance)
    expected = numeric_gradient(total, np.concatenate([some.frame, some.stock], axis=1))
    found = np.concatenate([gradient.frame, gradient.stock], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
