"""Nyström features of the kernel, from which sample paths are drawn."""

import pytest
import torch
from botorch.models import ModelListGP
from botorch.sampling.pathwise import draw_kernel_feature_paths, draw_matheron_paths, get_matheron_path_model
from botorch.sampling.pathwise.features.generators import gen_kernel_features

from mkbo_plugins import ParameterSpace
from mkbo_plugins.botorch import NamedFrame, PretrainedKernel, pretrained_gp
from mkbo_plugins.core.forms import DEFAULT_FORM
from tests.botorch.conftest import PRETRAINED_FORMS


def relative_error(features, kernel, x, y):
    approximate, exact = features(x) @ features(y).mT, kernel(x, y).to_dense()
    norms = kernel(x, diag=True)[..., :, None] * kernel(y, diag=True)[..., None, :]
    return ((approximate - exact).abs() / norms.sqrt()).max().item()


def framed_kernel(cov, form, **kwargs):
    frame = NamedFrame(cov)
    return PretrainedKernel(cov, form, stock_dims=frame.num_stock_columns, frame=frame, **kwargs).double()


@torch.no_grad()
@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_exact_between_landmarks(small_cov, form):
    kernel = framed_kernel(small_cov, form)
    features = gen_kernel_features(kernel, num_inputs=4, num_outputs=64)
    assert features.num_outputs == 64
    assert features(features.points).shape == (64, 64)
    assert relative_error(features, kernel, features.points, features.points) < 1e-6


@torch.no_grad()
@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_close_to_the_kernel_inside_the_domain(small_cov, form):
    kernel = framed_kernel(small_cov, form)
    x = torch.tensor(small_cov.space.sobol(40, seed=17))
    errors = [
        relative_error(gen_kernel_features(kernel, num_inputs=4, num_outputs=n), kernel, x[:20], x[20:])
        for n in (16, 512)
    ]
    assert errors[1] < 1e-3
    assert errors[1] < max(errors[0], 1e-6)


@torch.no_grad()
def test_frame_coordinates_without_a_frame(four_cov):
    kernel = PretrainedKernel(four_cov, "transfer", stock_dims=2).double()
    features = gen_kernel_features(kernel, num_inputs=6, num_outputs=512)
    x = 2 * torch.rand(30, 6, generator=torch.Generator().manual_seed(0), dtype=torch.double) - 1
    x[:, 4:] = (x[:, 4:] + 1) / 2
    assert relative_error(features, kernel, x[:15], x[15:]) < 1e-2


@torch.no_grad()
def test_active_columns(four_cov):
    active = [1, 3, 4, 7]
    kernel = PretrainedKernel(four_cov, "two_layer", active_dims=active).double()
    features = gen_kernel_features(kernel, num_inputs=9, num_outputs=64)
    x = torch.rand(6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    assert relative_error(features, kernel, features.points, features.points) < 1e-6
    alone = gen_kernel_features(PretrainedKernel(four_cov, "two_layer").double(), num_inputs=4, num_outputs=64)
    assert torch.allclose(features(x), alone(x[:, active]), atol=1e-10)


@torch.no_grad()
def test_batched_kernels_and_inputs(four_cov):
    kernel = PretrainedKernel(four_cov, "two_layer", batch_shape=torch.Size([2])).double()
    kernel.set_scale("feature_scale", torch.tensor([0.5, 2.0]))
    features = gen_kernel_features(kernel, num_inputs=4, num_outputs=64)
    assert features.batch_shape == (2,)
    x = torch.rand(3, 1, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    assert features(x).shape == (3, 2, 5, 64)
    assert relative_error(features, kernel, features.points, features.points) < 1e-6
    for b in range(2):
        alone = gen_kernel_features(kernel[b], num_inputs=4, num_outputs=64)
        assert torch.allclose(features(x)[:, b], alone(x[:, 0]), atol=1e-8)


@torch.no_grad()
@pytest.mark.parametrize("form", ["transfer", "normalised", "stock"])
def test_prior_paths_have_the_kernels_covariance(small_cov, target, form):
    torch.manual_seed(0)
    model = pretrained_gp(small_cov, *target, form=form, outcome_transform=None)
    x = torch.tensor(small_cov.space.sobol(4, seed=17))
    features = 1024 if form == "stock" else 256  # Fourier features are random, Nyström's are not
    paths = draw_kernel_feature_paths(model, torch.Size([8192]), num_features=features)
    samples = paths(x) - model.mean_module.constant
    covariance = samples.mT @ samples / len(samples)
    assert torch.allclose(covariance, model.covar_module(model.transform_inputs(x)).to_dense(), atol=0.08)


@torch.no_grad()
@pytest.mark.parametrize("form", [DEFAULT_FORM, "stock"])
def test_posterior_paths_have_the_posteriors_moments(small_cov, target, form):
    torch.manual_seed(0)
    model = pretrained_gp(small_cov, *target, form=form)
    x = torch.tensor(small_cov.space.sobol(4, seed=17))
    samples = draw_matheron_paths(model, torch.Size([4096]))(x)
    posterior = model.posterior(x)
    spread = posterior.variance.sqrt().squeeze(-1)
    assert ((samples.mean(dim=0) - posterior.mean.squeeze(-1)).abs() < 0.1 * spread).all()
    assert torch.allclose(samples.std(dim=0), spread, rtol=0.1)


@torch.no_grad()
@pytest.mark.parametrize("form", [*PRETRAINED_FORMS, "stock"])
def test_paths_of_levels_that_the_table_lacks_of_outcomes_and_of_batches(small_cov, space, target, form):
    """BoTorch counts raw columns, of which a categorical has one and the covariance sees one for each level."""
    X, Y = target
    wider = ParameterSpace.from_dict({**space.to_dict(), "solvent": ["water", "ethanol", "toluene", "none"]})
    X = torch.cat([X, torch.arange(10.0).double().remainder(4).unsqueeze(-1)], dim=-1)
    two = pretrained_gp(small_cov, X, torch.cat([Y, Y.sin()], dim=-1), form=form, space=wider)
    assert draw_matheron_paths(two, torch.Size([3]))(X).shape == (3, 2, 10)
    folds = pretrained_gp(small_cov, torch.stack([X, X]), torch.stack([Y, -Y]), form=form, space=wider)
    assert draw_matheron_paths(folds, torch.Size([3]))(X).shape == (3, 2, 10)
    several = ModelListGP(folds, two)
    assert [path.shape for path in draw_matheron_paths(several, torch.Size([3]))(X)] == [(3, 2, 10)] * 2
    assert get_matheron_path_model(two)(X).shape == (10, 2)
