"""Fixtures of the Optuna adapter's tests: a covariance over mixed parameters, and studies of values related to it."""

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from mkbo_plugins import ParameterSpace, pretrain

optuna.logging.set_verbosity(optuna.logging.ERROR)

DISTRIBUTIONS = {
    "power": FloatDistribution(200.0, 5000.0, step=50.0),
    "rate": FloatDistribution(1e-4, 1e-1, log=True),
    "layers": IntDistribution(1, 5),
    "gas": CategoricalDistribution(["Air", "Argon", "Nitrogen"]),
    "tip": CategoricalDistribution(["new", "used", None]),
}
"""Those of the mixed space in another order of levels, with steps, narrower bounds and one more parameter."""


def suggested(trial, distributions=DISTRIBUTIONS):
    return {name: trial._suggest(name, distribution) for name, distribution in distributions.items()}


def value_of(cov, point):
    """Return a value related to the table's target, to be large."""
    return float(2 * cov.predict([point])[0] - (0.3 if point.get("tip") == "used" else 0.0))


def objective(cov, sign=1.0, distributions=DISTRIBUTIONS):
    return lambda trial: sign * value_of(cov, suggested(trial, distributions))


def with_trials(study, cov, n, sign=1.0, seed=0):
    """Add completed random trials to a study."""
    before, study.sampler = study.sampler, optuna.samplers.RandomSampler(seed=seed)
    study.optimize(objective(cov, sign), n_trials=n)
    study.sampler = before
    return study


@pytest.fixture(scope="session")
def small_cov(table, space):
    """Return a covariance over mixed parameters with few support vectors."""
    return pretrain(table, target="strength", space=space, C=5.0, epsilon=0.3, sigma=2.0, progress=False)


@pytest.fixture(scope="session")
def plane_cov():
    """Return a covariance over two real parameters, whose target is largest at the upper end of the first."""
    space = ParameterSpace.from_dict({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    X = space.sobol(16)
    return pretrain((X, 2 * X[:, 0] + np.sin(3 * X[:, 1])), space=space, C=5.0, epsilon=0.1, sigma=2.0, progress=False)


PLANE = {"a": FloatDistribution(0.0, 1.0), "b": FloatDistribution(0.0, 1.0)}
