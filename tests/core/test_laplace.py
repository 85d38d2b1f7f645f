"""Evidence with hyperparameters integrated out, against quadrature."""

import numpy as np
import pytest
from scipy.special import logsumexp

from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.laplace import laplace_log_evidence
from mkbo_plugins.core.gp.posterior import PosteriorDensity


def integral(density, points):
    """Return the log integral of the likelihood over a grid of logarithms in all hyperparameters."""
    axes = []
    for prior in density.priors:
        low = max(np.log(prior.lower), prior.log_mean - 8 * prior.log_spread)
        axes.append(np.linspace(low, prior.log_mean + 8 * prior.log_spread, points))
    logs = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    means = np.array([prior.log_mean for prior in density.priors])
    stds = np.array([prior.log_spread for prior in density.priors])
    weights = -((((logs - means) / stds) ** 2) / 2 + np.log(2 * np.pi) / 2 + np.log(stds)).sum(axis=1)
    steps = np.log([axis[1] - axis[0] for axis in axes]).sum()
    return logsumexp([density.log_evidence(row)[0] for row in logs] + weights) + steps


@pytest.mark.parametrize(("inputs", "points", "n"), [(1, 2000, 25), (2, 70, 25), (2, 70, 5)])
def test_it_is_the_integral_also_where_the_data_leave_a_length_scale_open(cov, inputs, points, n):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (n, inputs))
    z = np.sin(6 * x[:, 0]) + rng.normal(0, 0.3, n)
    z = (z - z.mean()) / z.std(ddof=1)
    density = PosteriorDensity(FormModel(cov.fixed, "stock", inputs), Points(np.empty((n, 0)), x), z, 0.1)
    assert laplace_log_evidence(density) == pytest.approx(integral(density, points), abs=0.5)


def test_hyperparameters_that_the_data_say_nothing_of_cost_nothing(cov):
    same = Points(np.empty((2, 0)), np.full((2, 3), 0.5))
    density = PosteriorDensity(FormModel(cov.fixed, "stock", 3), same, np.array([-1.0, 1.0]), 0.1)
    alone = density.log_evidence(density.usual_start)[0]
    assert laplace_log_evidence(density) == pytest.approx(alone, abs=1e-6)
