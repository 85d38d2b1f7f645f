"""The GPyTorch kernel of a kernel mixture."""

import unittest

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase

from mkbo_plugins.botorch import MixtureKernel
from mkbo_plugins.core import KernelMixture

MIXTURE = KernelMixture(variances=(0.5, 0.2, 0.3), scales=(0.7, 1.3, 0.4))


class TestContract(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **kwargs):
        return MixtureKernel(MIXTURE, **kwargs)


def test_values_are_those_of_the_mixture():
    X = np.random.default_rng(0).uniform(-1, 1, (6, 2))
    kernel = MixtureKernel(MIXTURE).double()
    kernel.initialize(raw_output_scale=torch.tensor(2.5, dtype=torch.double).log())
    np.testing.assert_allclose(
        kernel(torch.from_numpy(X)).to_dense().detach().numpy(), 2.5 * MIXTURE.gram(X), rtol=1e-12
    )


def test_a_model_with_it_is_fitted_and_asked():
    torch.manual_seed(0)
    X = torch.rand(10, 2, dtype=torch.double) * 2 - 1
    Y = (X**2).sum(dim=-1, keepdim=True)
    model = SingleTaskGP(X, Y, covar_module=MixtureKernel(MIXTURE))
    before = model.covar_module.output_scale.item()
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert model.covar_module.output_scale.item() != before
    candidate, _ = optimize_acqf(
        LogExpectedImprovement(model, best_f=Y.max()),
        torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.double),
        q=1,
        num_restarts=2,
        raw_samples=16,
    )
    assert candidate.abs().max() <= 1
