"""Every kind of acquisition function runs on raw inputs, with finite values and gradients."""

from functools import partial

import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    ProbabilityOfImprovement,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.joint_entropy_search import qJointEntropySearch
from botorch.acquisition.max_value_entropy_search import qLowerBoundMaxValueEntropy, qMaxValueEntropy
from botorch.acquisition.predictive_entropy_search import qPredictiveEntropySearch
from botorch.acquisition.utils import get_optimal_samples
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.pathwise import draw_kernel_feature_paths, draw_matheron_paths, get_matheron_path_model
from botorch.utils.transforms import unnormalize

from mkbo_plugins import ParameterSpace
from mkbo_plugins.botorch import pretrained_gp

FEATURES = 64


@pytest.fixture(scope="module")
def data(small_cov):
    X = torch.tensor(small_cov.space.sobol(8, seed=3))
    return X, torch.tensor(small_cov.predict(X.numpy())).unsqueeze(-1) + 0.05 * torch.cos(X[:, :1])


@pytest.fixture(scope="module", params=["transfer_link", "similarity_link", "two_layer"])
def model(request, small_cov, data):
    model = pretrained_gp(small_cov, *data, form=request.param)
    model.likelihood.noise = 1e-3
    return model.eval()


def few_features(model, sample_shape):
    """Draw prior paths from fewer features than the host's default, to keep tests short."""
    return draw_kernel_feature_paths(model, sample_shape=sample_shape, num_features=FEATURES)


@pytest.fixture(scope="module")
def optima(model, bounds):
    """Return inputs and values of two sampled optima, maximised with few restarts."""
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "botorch.sampling.pathwise.draw_matheron_paths",
            partial(draw_matheron_paths, prior_sampler=few_features),
        )
        inputs, values = get_optimal_samples(model, bounds, num_optima=2, raw_samples=8, num_restarts=1)
    return inputs.detach(), values.detach()


def test_sampled_optima_are_raw_rows_within_the_bounds(optima, bounds):
    inputs, values = optima
    assert inputs.shape == (2, 4)
    assert values.shape == (2, 1)
    assert torch.isfinite(values).all()
    assert ((inputs >= bounds[0]) & (inputs <= bounds[1])).all()


def thompson(model, X, Y, pool, optima):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "botorch.sampling.pathwise.draw_matheron_paths",
            partial(draw_matheron_paths, prior_sampler=few_features),
        )
        return PosteriorMean(get_matheron_path_model(model))


ACQUISITIONS = {
    "LogEI": lambda model, X, Y, pool, optima: LogExpectedImprovement(model, best_f=Y.max()),
    "PI": lambda model, X, Y, pool, optima: ProbabilityOfImprovement(model, best_f=Y.max()),
    "UCB": lambda model, X, Y, pool, optima: UpperConfidenceBound(model, beta=2.0),
    "qLogNEI": lambda model, X, Y, pool, optima: qLogNoisyExpectedImprovement(model, X_baseline=X),
    "qMES": lambda model, X, Y, pool, optima: qMaxValueEntropy(model, pool, num_mv_samples=4),
    "GIBBON": lambda model, X, Y, pool, optima: qLowerBoundMaxValueEntropy(model, pool, num_mv_samples=4),
    "qKG": lambda model, X, Y, pool, optima: qKnowledgeGradient(model, num_fantasies=2),
    "PES": lambda model, X, Y, pool, optima: qPredictiveEntropySearch(model, optima[0]),
    "JES": lambda model, X, Y, pool, optima: qJointEntropySearch(model, *optima),
    "Thompson": thompson,
}
BATCHES = {"qLogNEI": 2, "JES": 2}


@pytest.fixture
def acquisition_of(model, data, optima, small_cov):
    torch.manual_seed(0)
    pool = torch.tensor(small_cov.space.sobol(16, seed=9))
    return lambda name: ACQUISITIONS[name](model, *data, pool, optima)


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_values_and_gradients_are_finite_and_the_optimiser_runs(acquisition_of, name, bounds):
    acquisition = acquisition_of(name)
    q = 3 if name == "qKG" else BATCHES.get(name, 1)
    unit = torch.rand(5, q, 4, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    x = unnormalize(unit, bounds).requires_grad_()
    values = acquisition(x)
    (slope,) = torch.autograd.grad(values.sum(), x)
    assert values.shape == (5,)
    assert torch.isfinite(values).all()
    assert torch.isfinite(slope).all()
    assert values.std() > 0
    assert (slope != 0).any(dim=(0, 1)).all()
    candidate, value = optimize_acqf(
        acquisition,
        bounds,
        q=BATCHES.get(name, 1),
        num_restarts=2,
        raw_samples=4,
        options={"maxiter": 2, "seed": 0},
        retry_on_optimization_warning=False,
    )
    assert candidate.shape == (BATCHES.get(name, 1), 4)
    assert torch.isfinite(value).all()
    assert ((candidate >= bounds[0]) & (candidate <= bounds[1])).all()


@pytest.mark.parametrize("name", ["LogEI", "UCB", "PES", "JES", "Thompson"])
def test_gradients_are_those_of_the_values(acquisition_of, name, bounds):
    acquisition = acquisition_of(name)
    unit = torch.tensor([[[0.31, 0.62, 0.45, 0.2]]], dtype=torch.double)
    assert torch.autograd.gradcheck(
        lambda u: acquisition(unnormalize(u, bounds)), (unit.requires_grad_(),), rtol=1e-3, atol=1e-5
    )


def test_noisy_expected_improvement_of_a_batch_is_that_of_each_candidate(model, data, small_cov, bounds):
    """Observed and pending points are the same in every batch, and evaluated once."""
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    pending = torch.tensor(small_cov.space.sobol(2, seed=5))
    acquisition = qLogNoisyExpectedImprovement(model, data[0], sampler=sampler, X_pending=pending)
    x = unnormalize(torch.rand(3, 1, 4, generator=torch.Generator().manual_seed(2), dtype=torch.double), bounds)
    x.requires_grad_()
    values = acquisition(x)
    alone = torch.cat([acquisition(point[None]) for point in x])
    assert torch.allclose(values, alone, rtol=1e-9, atol=1e-9)
    slopes = (torch.autograd.grad(found.sum(), x)[0] for found in (values, alone))
    ours, theirs = (slope * (bounds[1] - bounds[0]) for slope in slopes)
    assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-8 * theirs.abs().max().item())


def test_entropy_searches_condition_on_optima_in_raw_units(model, data, optima):
    """An optimum that was conditioned on is certain, which holds only if it went through the frame exactly once."""
    acquisition = qJointEntropySearch(model, *optima)
    at = optima[0].unsqueeze(1)
    before, after = model.posterior(at).variance, acquisition.conditional_model.posterior(at).variance
    assert (after < 0.05 * before).all()
    training_rows = qPredictiveEntropySearch(model, optima[0]).augmented_X[0, :-1]
    assert torch.equal(training_rows, data[0])


@pytest.mark.parametrize("form", ["transfer", "two_layer"])
def test_entropy_search_where_frame_and_raw_widths_agree(four_cov, form):
    """With real parameters only, nothing but the values would tell raw from transformed inputs."""
    space = ParameterSpace.from_dict(dict.fromkeys("abcd", (-3.0, 1.0)))
    X = torch.tensor(space.sobol(8))
    model = pretrained_gp(four_cov, X, torch.sin(X).sum(dim=-1, keepdim=True), form=form, space=space).eval()
    at = torch.tensor(space.sobol(2, seed=5))
    acquisition = qJointEntropySearch(model, at, torch.full((2, 1), 2.0, dtype=torch.double))
    conditional = acquisition.conditional_model.posterior(at.unsqueeze(1))
    assert (conditional.variance < 0.05 * model.posterior(at.unsqueeze(1)).variance).all()
