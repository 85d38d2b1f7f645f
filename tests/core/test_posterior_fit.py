"""Hyperparameters of greatest posterior density: priors, gradients and optima."""

import numpy as np
import pytest
from scipy.stats import lognorm

from mkbo_plugins.core.forms import Hyperparameter
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.posterior_fit import NOISE, PosteriorDensity, log_bounds, log_prior, prior_mode
from tests.core.helpers import numeric_gradient


@pytest.fixture(params=[None, 0.01])
def density(request, cov):
    rng = np.random.default_rng(0)
    frame = rng.uniform(-1, 1, (12, cov.support.shape[1]))
    data = Points(frame, rng.uniform(0, 1, (12, 2)))
    y = cov.fixed.standardised_decision(frame) + 0.3 * rng.normal(size=12)
    return PosteriorDensity(FormModel(cov.fixed, "transfer", 2), data, (y - y.mean()) / y.std(ddof=1), request.param)


def test_prior_is_log_normal_in_the_hyperparameters_themselves():
    priors = [Hyperparameter(0.5, 1.5, 1e-9, 1e9), NOISE]
    theta = np.array([0.2, -3.0])

    def expected(at):
        return sum(
            lognorm(p.log_spread, scale=np.exp(p.log_mean)).logpdf(np.exp(t)) for p, t in zip(priors, at, strict=True)
        )

    value, gradient = log_prior(theta, priors)
    moved, _ = log_prior(theta + 0.7, priors)
    assert moved - value == pytest.approx(expected(theta + 0.7) - expected(theta))
    assert np.allclose(gradient, numeric_gradient(expected, theta), rtol=1e-6)
    for prior in priors:
        at_mode = log_prior(np.log([prior_mode(prior)]), [prior])
        assert at_mode[1][0] == pytest.approx(0, abs=1e-9)
    assert prior_mode(Hyperparameter(0.0, 1.0, lower=5.0, upper=9.0)) == 5.0


def test_noise_prior_is_that_of_the_hosts_default():
    modules = pytest.importorskip("botorch.models.utils.gpytorch_modules")
    noise = modules.get_gaussian_likelihood_with_lognormal_prior().noise_covar
    assert (float(noise.noise_prior.loc), float(noise.noise_prior.scale)) == (NOISE.log_mean, NOISE.log_spread)
    assert float(noise.raw_noise_constraint.lower_bound) == pytest.approx(NOISE.lower)


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

    found = density.maximise(starts)
    assert ((found >= bounds[:, 0]) & (found <= bounds[:, 1])).all()
    gradient = density.log_evidence(found)[1] + log_prior(found, density.priors)[1]
    inside = (found > bounds[:, 0] + 1e-6) & (found < bounds[:, 1] - 1e-6)
    assert np.abs(gradient[inside]).max() < 1e-2
    assert posterior(found) == pytest.approx(max(posterior(density.maximise([start])) for start in starts))


def test_known_noise_is_kept(density):
    theta = density.maximise([np.zeros(len(density.priors))])
    of_form, noise = density.split(theta)
    assert len(of_form) == len(density.model.priors)
    if density.noise is None:
        assert NOISE.lower <= noise <= NOISE.upper
    else:
        assert noise == 0.01
