"""Log-normal priors: their densities, modes and bounds, and that they are those of the hosts."""

import numpy as np
import pytest
from scipy.stats import lognorm, norm

from mkbo_plugins.core.priors import (
    NOISE,
    Hyperparameter,
    length_scale_prior,
    log_bounds,
    log_prior,
    log_prior_of_logarithms,
    prior_mode,
    table_priors,
)
from tests.core.helpers import numeric_gradient

PRIORS = [Hyperparameter(0.5, 1.5, 1e-9, 1e9), NOISE]


def of_scales(theta):
    return sum(
        lognorm(p.log_spread, scale=np.exp(p.log_mean)).logpdf(np.exp(t)) for p, t in zip(PRIORS, theta, strict=True)
    )


def of_logarithms(theta):
    return sum(norm(p.log_mean, p.log_spread).logpdf(t) for p, t in zip(PRIORS, theta, strict=True))


@pytest.mark.parametrize(("prior", "expected"), [(log_prior, of_scales), (log_prior_of_logarithms, of_logarithms)])
def test_densities_are_log_normal_in_scales_and_normal_in_logarithms(prior, expected):
    theta = np.array([0.2, -3.0])
    value, gradient = prior(theta, PRIORS)
    moved, _ = prior(theta + 0.7, PRIORS)
    assert moved - value == pytest.approx(expected(theta + 0.7) - expected(theta))
    assert np.allclose(gradient, numeric_gradient(expected, theta), rtol=1e-6)


def test_the_mode_is_the_most_likely_value_within_the_bounds():
    for prior in PRIORS:
        at_mode = log_prior(np.log([prior_mode(prior)]), [prior])
        assert at_mode[1][0] == pytest.approx(0, abs=1e-9)
    assert prior_mode(Hyperparameter(0.0, 1.0, lower=5.0, upper=9.0)) == 5.0


def test_bounds_are_those_of_the_logarithms():
    assert np.allclose(log_bounds(PRIORS), np.log([[1e-9, 1e9], [1e-4, 1e2]]))
    assert log_bounds([]).shape == (0, 2)


def test_noise_prior_is_that_of_the_hosts_default():
    modules = pytest.importorskip("botorch.models.utils.gpytorch_modules")
    noise = modules.get_gaussian_likelihood_with_lognormal_prior().noise_covar
    assert (float(noise.noise_prior.loc), float(noise.noise_prior.scale)) == (NOISE.log_mean, NOISE.log_spread)
    assert float(noise.raw_noise_constraint.lower_bound) == pytest.approx(NOISE.lower)


def test_length_scale_prior_is_that_of_the_hosts_default():
    modules = pytest.importorskip("botorch.models.utils.gpytorch_modules")
    stock = modules.get_covar_module_with_dim_scaled_prior(ard_num_dims=3)
    assert float(stock.lengthscale_prior.loc) == pytest.approx(length_scale_prior(3).log_mean)
    assert float(stock.lengthscale_prior.scale) == pytest.approx(length_scale_prior(3).log_spread)
    assert float(stock.raw_lengthscale_constraint.lower_bound) == pytest.approx(length_scale_prior(3).lower)


def test_weights_of_a_table_have_the_length_scale_prior_in_units_of_their_width():
    ranges = np.array([2.0, 0.5, 3.0])
    *weights, amplitude, noise = table_priors(ranges, ard=True)
    rng, length = np.random.default_rng(0), length_scale_prior(3)
    logs = rng.normal(length.log_mean, length.log_spread, 100_000)
    for prior, width in zip(weights, ranges, strict=True):
        drawn = -2 * (logs + np.log(width))
        assert (prior.log_mean, prior.log_spread) == pytest.approx((drawn.mean(), drawn.std()), abs=0.05)
        assert (prior.lower, prior.upper) == pytest.approx((1e3**-2, 2.5e-2**-2))
    assert np.allclose(log_bounds([amplitude, noise]), [[-8, 8], [-14, 4]])
    assert (amplitude.log_mean, amplitude.log_spread) == (0.0, 1.0)
    assert (noise.log_mean, noise.log_spread) == (NOISE.log_mean, NOISE.log_spread)
    shared, *others = table_priors(ranges, ard=False)
    assert shared.log_mean == pytest.approx(np.mean([prior.log_mean for prior in weights]))
    assert (shared.log_spread, others) == (weights[0].log_spread, [amplitude, noise])
