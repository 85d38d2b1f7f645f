"""Prediction with a form: blocks, coarse parts for many points, and gradients at one."""

import numpy as np
import pytest

from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.posterior import BLOCK, MANY
from mkbo_plugins.core.gp.posterior_fit import PosteriorDensity
from tests.core.helpers import numeric_gradient


@pytest.fixture
def posterior(cov):
    rng = np.random.default_rng(0)
    data = Points(rng.uniform(-1, 1, (9, cov.support.shape[1])), rng.uniform(0, 1, (9, 2)))
    density = PosteriorDensity(FormModel(cov.fixed, "transfer", 2), data, rng.normal(size=9), None)
    return density.posterior(np.append(rng.normal(0, 0.3, 5), -3.0))


def candidates(posterior, m):
    rng = np.random.default_rng(1)
    return Points(rng.uniform(-1, 1, (m, posterior.data.frame.shape[1])), rng.uniform(0, 1, (m, 2)))


def test_ways_to_predict_agree(posterior):
    points = candidates(posterior, BLOCK + 3)
    mean, variance = posterior.moments(points)
    joint_mean, joint = posterior.joint(points)
    assert np.allclose(posterior.mean(points), mean)
    assert np.allclose(joint_mean, mean)
    assert np.allclose(np.diag(joint), variance, rtol=1e-6)
    assert np.linalg.eigvalsh(joint)[0] > -1e-8
    one = Points(points.frame[:1], points.stock[:1])
    assert posterior.at(one)[0] == pytest.approx(mean[0])
    assert posterior.at(one)[1] == pytest.approx(variance[0])


def test_many_points_are_coarse_but_close(posterior):
    points = candidates(posterior, MANY + 1)
    mean, variance = posterior.moments(points)
    few = Points(points.frame[:50], points.stock[:50])
    expected = posterior.moments(few)
    assert np.allclose(mean[:50], expected[0], atol=1e-6)
    assert np.allclose(variance[:50], expected[1], atol=1e-6)
    assert posterior.model.fixed.coarse is posterior.model.fixed.coarse
    assert posterior.model.fixed.coarse == posterior.model.fixed


def test_gradients_at_a_point(posterior):
    point = candidates(posterior, 1)
    d = point.frame.shape[1]
    gradients = posterior.at(point)[2]
    found = np.hstack([gradients.frame, gradients.stock])
    flat = np.hstack([point.frame, point.stock])[0]
    for row, moment in enumerate(found):
        numeric = numeric_gradient(
            lambda z, r=row: float(posterior.moments(Points(z[None, :d], z[None, d:]))[r][0]), flat
        )
        assert np.allclose(moment, numeric, rtol=1e-5, atol=1e-7)
