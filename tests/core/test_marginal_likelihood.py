"""Evidence with hyperparameters integrated out, against quadrature."""

import numpy as np
import pytest
from scipy.special import logsumexp

from mkbo_plugins.core.form_model import FormModel, Points
from mkbo_plugins.core.marginal_likelihood import log_marginal
from mkbo_plugins.core.posterior_fit import PosteriorDensity


def test_it_is_the_integral_over_a_length_scale(cov):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (25, 1))
    z = np.sin(6 * x[:, 0]) + rng.normal(0, 0.3, 25)
    z = (z - z.mean()) / z.std(ddof=1)
    density = PosteriorDensity(FormModel(cov.fixed, "stock", 1), Points(np.empty((25, 0)), x), z, 0.1)
    theta = density.maximise([density.usual_start])
    prior = density.priors[0]
    grid = np.linspace(np.log(prior.lower), prior.log_mean + 8 * prior.log_spread, 4000)
    prior_density = -(((grid - prior.log_mean) / prior.log_spread) ** 2) / 2 - np.log(2 * np.pi) / 2
    logs = [density.log_evidence(np.array([t]))[0] for t in grid] + prior_density - np.log(prior.log_spread)
    exact = logsumexp(logs) + np.log(grid[1] - grid[0])
    assert log_marginal(density, theta) == pytest.approx(exact, abs=0.5)
