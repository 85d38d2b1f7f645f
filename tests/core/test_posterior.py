"""A form conditioned on data: hyperparameters of greatest posterior density, and predictions."""

from dataclasses import replace

import numpy as np
import pytest

from mkbo_plugins.core.components.components import ROUGH
from mkbo_plugins.core.components.directed_mean import DirectedMean
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.posterior import BLOCK, MANY, PosteriorDensity, prior_mean
from mkbo_plugins.core.priors import NOISE, log_bounds, log_prior
from tests.core.helpers import numeric_gradient


@pytest.fixture(params=[None, -1.0], ids=["constant", "directed"])
def posterior(cov, request):
    rng = np.random.default_rng(0)
    data = Points(rng.uniform(-1, 1, (9, cov.support.shape[1])), rng.uniform(0, 1, (9, 2)))
    directed = None if request.param is None else DirectedMean(cov.fixed, (request.param,))
    density = PosteriorDensity(FormModel(cov.fixed, "transfer", 2), data, rng.normal(size=9), None, directed)
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


@pytest.mark.parametrize(("m", "coarse"), [(MANY, False), (MANY + 1, True)])
def test_coarse_parts_are_for_many_points_only(posterior, m, coarse):
    fixed = posterior.model.fixed

    class Components:
        tables, coarse_used = fixed.tables, False
        components, rough = staticmethod(fixed.components), staticmethod(fixed.rough)

        @property
        def coarse(self):
            self.coarse_used = True
            return fixed.coarse

    components = Components()
    replace(posterior, model=replace(posterior.model, fixed=components)).mean(candidates(posterior, m))
    assert components.coarse_used is coarse


def test_many_points_ranked_by_few_features_are_close_and_of_one_gaussian_process(posterior, monkeypatch):
    points = candidates(posterior, MANY + 1)
    few = Points(points.frame[:50], points.stock[:50])
    fine = posterior.moments(few)
    monkeypatch.setattr("mkbo_plugins.core.components.components.FEW_FEATURES", 0)
    mean, variance = (moment[:50] for moment in posterior.moments(points))
    model, data, n = posterior.model, posterior.data, len(posterior.data.frame)
    model = replace(model, fixed=model.fixed.rough(model.form.parts, data.frame, few.frame))
    both = Points(np.vstack([data.frame, few.frame]), np.vstack([data.stock, few.stock]))
    covariance = model.value(model.pairs(both), posterior.theta)
    weights = np.linalg.solve(covariance[:n, :n] + posterior.noise * np.eye(n), covariance[:n, n:])
    expected = posterior.process.mean + posterior.process.residual @ weights + prior_mean(posterior.directed, few)
    assert np.allclose(mean, expected, rtol=0, atol=1e-10)
    assert np.allclose(
        variance, np.diag(covariance)[n:] - (weights * covariance[:n, n:]).sum(axis=0), rtol=0, atol=1e-10
    )
    assert np.allclose(mean, fine[0], atol=ROUGH)
    assert np.allclose(variance, fine[1], atol=ROUGH)
    assert not np.allclose(mean, fine[0], rtol=0, atol=1e-8)


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


def test_a_directed_mean_is_taken_off_the_values_and_added_back(density):
    directed = DirectedMean(density.model.fixed, (1.0,))
    with_mean, theta = replace(density, directed=directed), density.usual_start
    rest = replace(density, y=density.y - directed(density.data.frame))
    assert with_mean.log_evidence(theta)[0] == rest.log_evidence(theta)[0]
    posterior, expected = with_mean.posterior(theta), rest.posterior(theta)
    points = candidates(posterior, 5)
    mean, variance = posterior.moments(points)
    assert np.allclose(mean, expected.mean(points) + directed(points.frame), rtol=0, atol=1e-12)
    assert np.array_equal(variance, expected.moments(points)[1])


@pytest.fixture(params=[None, 0.01])
def density(request, cov):
    rng = np.random.default_rng(0)
    frame = rng.uniform(-1, 1, (12, cov.support.shape[1]))
    data = Points(frame, rng.uniform(0, 1, (12, 2)))
    y = cov.fixed.standardised_decision(frame) + 0.3 * rng.normal(size=12)
    return PosteriorDensity(FormModel(cov.fixed, "transfer", 2), data, (y - y.mean()) / y.std(ddof=1), request.param)


def test_gradient_of_the_evidence(density):
    theta = np.random.default_rng(1).normal(0, 0.3, len(density.priors)) - 0.5
    value, gradient = density.log_evidence(theta)
    assert value == pytest.approx(density.posterior(theta).process.log_evidence)
    assert np.allclose(gradient, numeric_gradient(lambda t: density.log_evidence(t)[0], theta), rtol=1e-5, atol=1e-6)


def test_maximum_is_stationary_and_the_best_of_the_starts(density):
    bounds = log_bounds(density.priors)
    starts = [np.full(len(bounds), value) for value in (-2.0, 0.0)]

    def posterior(theta):
        return density.log_evidence(theta)[0] + log_prior(theta, density.priors)[0]

    best = density.maximise(starts)
    assert ((best >= bounds[:, 0]) & (best <= bounds[:, 1])).all()
    gradient = density.log_evidence(best)[1] + log_prior(best, density.priors)[1]
    inside = (best > bounds[:, 0] + 1e-6) & (best < bounds[:, 1] - 1e-6)
    assert np.abs(gradient[inside]).max() < 1e-2
    assert posterior(best) == pytest.approx(max(posterior(density.maximise([start])) for start in starts))


def test_known_noise_is_kept(density):
    theta = density.maximise([np.zeros(len(density.priors))])
    of_form, noise = density.split(theta)
    assert len(of_form) == len(density.model.priors)
    if density.noise is None:
        assert NOISE.lower <= noise <= NOISE.upper
    else:
        assert noise == 0.01


def test_searches_begin_at_median_scales_and_most_likely_length_scales_and_noise(density):
    start = density.usual_start
    slope = log_prior(start, density.priors)[1]
    assert start[:3] == pytest.approx([prior.log_mean for prior in density.priors[:3]])
    assert slope[3:] == pytest.approx(0, abs=1e-9)
    assert len(start) == len(density.priors)
    assert density.priors == (*density.model.priors, *([NOISE] if density.noise is None else []))


def test_noise_may_differ_from_value_to_value(cov):
    rng = np.random.default_rng(0)
    data = Points(rng.uniform(-1, 1, (6, cov.support.shape[1])), rng.uniform(0, 1, (6, 2)))
    noise = np.linspace(0.1, 1, 6)
    density = PosteriorDensity(FormModel(cov.fixed, "transfer", 2), data, rng.normal(size=6), noise)
    theta = density.usual_start
    covariance = density.model.value(density.pairs, theta) + np.diag(noise)
    factor = density.posterior(theta).process.factor
    assert np.allclose(factor @ factor.T, covariance)
