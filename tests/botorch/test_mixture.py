"""The kernel mixture in BoTorch's models."""

import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf_discrete
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins import ParameterSpace, pretrain_mixture
from mkbo_plugins.botorch import pretrained_gp
from mkbo_plugins.errors import KernelError

SPACE = ParameterSpace.from_dict({"a": (0.0, 5.0), "b": (1e-3, 1.0, "log")})
X = torch.tensor(SPACE.sobol(12, seed=1))
Y = (X[:, :1] - 2) ** 2 - X[:, 1:].log()


@pytest.fixture(scope="module")
def mixture():
    points = SPACE.sobol(32)
    return pretrain_mixture((points, points[:, 0] + np.log(points[:, 1])), "y", SPACE)


def test_values_are_those_of_the_mixture(mixture):
    kernel = pretrained_gp(mixture, X, Y, form="base").covar_module
    kernel.set_scale("output_scale", 2.5)
    np.testing.assert_allclose(kernel(X).to_dense().detach(), 2.5 * mixture.gram(X.numpy()), rtol=1e-10)


def test_a_model_with_it_is_fitted_and_asked(mixture):
    model = pretrained_gp(mixture, X, Y, form="base")
    before = model.covar_module.scale("output_scale").item()
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert model.covar_module.scale("output_scale").item() != before
    choices = torch.tensor(SPACE.sobol(64, seed=2))
    chosen, value = optimize_acqf_discrete(LogExpectedImprovement(model, best_f=Y.max()), q=1, choices=choices)
    assert (choices == chosen).all(dim=1).any()
    assert torch.isfinite(value).all()


def test_forms_that_need_a_machine_are_refused(mixture):
    with pytest.raises(KernelError, match="kernel mixture"):
        pretrained_gp(mixture, X, Y, form="transfer")
