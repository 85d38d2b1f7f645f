"""Evidence with hyperparameters integrated out, against quadrature and closed forms."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.laplace import laplace_evidence
from mkbo_plugins.core.gp.map_fit import map_fit
from mkbo_plugins.core.gp.posterior import PosteriorDensity
from mkbo_plugins.core.priors import Hyperparameter


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
    assert laplace_evidence(density).log == pytest.approx(integral(density, points), abs=0.5)


def test_hyperparameters_that_the_data_say_nothing_of_cost_nothing(cov):
    same = Points(np.empty((2, 0)), np.full((2, 3), 0.5))
    density = PosteriorDensity(FormModel(cov.fixed, "stock", 3), same, np.array([-1.0, 1.0]), 0.1)
    alone = density.log_evidence(density.usual_start)[0]
    assert laplace_evidence(density).log == pytest.approx(alone, abs=1e-6)


class Toy:
    """A density of one hyperparameter with a known evidence."""

    priors = (Hyperparameter(0.5, 2.0, 1e-9, 1e9),)

    def __init__(self, log_evidence, start):
        self.log_evidence, self.usual_start = log_evidence, np.array([start])

    def maximise(self, starts, prior):
        return map_fit(self.log_evidence, self.priors, starts, prior).x


def bumps(*centres, width=0.3):
    """Return the logarithm of a sum of normal bumps of height 1, and its gradient."""

    def log_evidence(theta):
        logs = -((theta[0] - np.array(centres)) ** 2) / (2 * width**2)
        shares = np.exp(logs - logsumexp(logs))
        return float(logsumexp(logs)), np.array([shares @ (np.array(centres) - theta[0]) / width**2])

    return log_evidence


@pytest.mark.parametrize(("centres", "start"), [((1.0,), 0.0), ((1.0, -3.0), -2.5)])
def test_every_maximum_that_a_search_finds_counts_once(centres, start):
    integrals = norm(0.5, np.hypot(2.0, 0.3)).pdf(centres) * 0.3 * np.sqrt(2 * np.pi)
    found = laplace_evidence(Toy(bumps(*centres), start)).log
    assert found == pytest.approx(np.log(integrals.sum()), abs=1e-4)


def test_directions_in_which_the_evidence_grows_cost_and_gain_nothing():
    def growing(theta):
        u = (theta - 0.5) / 2
        return float(u @ u) / 4, u / 4

    assert laplace_evidence(Toy(growing, 0.4)).log == pytest.approx(0.0, abs=1e-6)
