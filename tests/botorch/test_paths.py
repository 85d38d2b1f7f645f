"""Sample paths of a model with a pre-trained covariance, beside its posterior and the host's own construction."""

import copy
import math

import pytest
import torch
from botorch.sampling.pathwise import draw_kernel_feature_paths, draw_matheron_paths, gaussian_update
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from gpytorch.models import ExactGP

from mkbo_plugins.botorch import pretrained_gp

PATHS = 4000
DEVIATIONS = 5.0


@pytest.fixture(scope="module")
def model(small_cov):
    X = torch.tensor(small_cov.space.sobol(8, seed=3))
    Y = torch.tensor(small_cov.predict(X.numpy()))[:, None] + 0.05 * torch.cos(X[:, :1])
    model = pretrained_gp(small_cov, X, Y)
    model.likelihood.noise = 1e-3
    return model.eval()


@torch.no_grad()
def test_moments_are_those_of_exact_draws(model, small_cov):
    torch.manual_seed(0)
    X = torch.tensor(small_cov.space.sobol(6, seed=17))
    paths = draw_matheron_paths(model, torch.Size([PATHS]))(X)
    posterior = model.posterior(X).distribution
    covariance = posterior.covariance_matrix
    deviations = covariance.diagonal().sqrt()
    assert ((paths.mean(dim=0) - posterior.mean).abs() < DEVIATIONS * deviations / math.sqrt(PATHS)).all()
    # An entry of a covariance of normal draws varies by the root of (c_ii c_jj + c_ij^2) / n.
    spread = ((torch.outer(deviations, deviations) ** 2 + covariance**2) / PATHS).sqrt()
    assert ((torch.cov(paths.T) - covariance).abs() < DEVIATIONS * spread).all()


def test_a_path_is_the_hosts_sum_of_prior_and_update(model, small_cov):
    """With the same draws, in values and gradients, and with the coarse components that both of them have."""
    torch.manual_seed(1)
    ours = draw_matheron_paths(model, torch.Size([3]))
    coarse = copy.deepcopy(model)
    coarse.covar_module = coarse.covar_module.coarse()
    torch.manual_seed(1)
    theirs = DrawMatheronPaths.dispatch(ExactGP)(
        coarse,
        sample_shape=torch.Size([3]),
        prior_sampler=draw_kernel_feature_paths,
        update_strategy=gaussian_update,
    )
    assert set(theirs.keys()) == {"prior_paths", "update_paths"}
    assert model.covar_module._fixed is small_cov.fixed  # the model itself is as accurate as before
    x = torch.tensor(small_cov.space.sobol(5, seed=4)).requires_grad_()
    values, slopes = zip(*((path(x), torch.autograd.grad(path(x).sum(), x)[0]) for path in (ours, theirs)), strict=True)
    assert torch.allclose(*values, rtol=1e-6, atol=1e-7)
    assert torch.allclose(*slopes, rtol=1e-5, atol=1e-6 * slopes[1].abs().max().item())
