"""Optuna's own tests of samplers, with ours; most without a model, which they would fit a hundred times."""

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.optuna import PretrainedSampler

pytestmark = [
    pytest.mark.filterwarnings("ignore::mkbo_plugins.errors.MkboWarning"),
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]


@pytest.fixture(scope="module")
def cov():
    """Return a covariance over a number x, the first parameter of the host's studies."""
    space = ParameterSpace.from_dict({"x": (-1.0, 10.0)})
    X = space.sobol(8)
    return pretrain((X, (X[:, 0] - 3) ** 2), space=space, C=5.0, epsilon=0.1, sigma=2.0, progress=False)


class TestNumbers(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    test_conditional_parameter_objective = None  # below
    test_sample_single_distribution = None  # test_sampler.py, as none of its parameters is called x
    test_sample_relative_categorical = None  # asks for more settings than its space has
    test_sample_relative_numerical = None  # 42 pairs; test_sample_relative_mixed has each kind
    test_combination_of_different_distributions_objective = None  # 36 pairs, likewise

    @pytest.fixture
    def sampler(self, cov):
        return lambda: PretrainedSampler(cov, direction="same", initial_trials=50, seed=0)


class TestBranches(BasicSamplerTestCase):
    """Studies in which x decides on what else there is: the table is about y then."""

    @pytest.fixture
    def sampler(self):
        space = ParameterSpace.from_dict({"y": (0.0, 1.0)})
        X = space.sobol(8)
        cov = pretrain((X, X[:, 0]), space=space, C=5.0, epsilon=0.01, sigma=2.0, progress=False)
        return lambda: PretrainedSampler(cov, distributions={"y": FloatDistribution(0, 1)}, initial_trials=3, seed=0)


for name in [name for name in dir(BasicSamplerTestCase) if name.startswith("test_")]:
    if name != "test_conditional_parameter_objective":
        setattr(TestBranches, name, None)


def test_studies_of_constants_alone(cov):
    study = optuna.create_study(sampler=PretrainedSampler(cov, seed=0))
    for _ in range(3):
        study.tell(study.ask({"x": FloatDistribution(2.0, 2.0), "a": FloatDistribution(1.0, 1.0, log=True)}), 1.0)
    assert [trial.params for trial in study.trials] == [{"x": 2.0, "a": 1.0}] * 3
