"""Models for the search of an acquisition function."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from botorch import settings
from botorch.acquisition import LogExpectedImprovement, qKnowledgeGradient, qLogNoisyExpectedImprovement
from botorch.acquisition.joint_entropy_search import qJointEntropySearch
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.botorch import for_search, pretrained_gp
from mkbo_plugins.botorch.models import LogNoiseGP
from mkbo_plugins.core.components.components import SEARCHED
from mkbo_plugins.errors import MkboError
from tests.core.helpers import numeric_gradient

FORMS = ("similarity_link", "transfer_link", "two_layer", "base")


@pytest.fixture(scope="module")
def data(small_cov):
    X = torch.tensor(small_cov.space.sobol(12, seed=3))
    return X, torch.tensor(small_cov.predict(X.numpy())).unsqueeze(-1) + 0.05 * torch.cos(X[:, :1])


def made(small_cov, data, form="similarity_link", **kwargs):
    model = pretrained_gp(small_cov, *data, form=form, **kwargs)
    if "train_Yvar" not in kwargs:
        model.likelihood.noise = 1e-3
    return model.eval()


@pytest.fixture(scope="module", params=FORMS)
def model(request, small_cov, data):
    return made(small_cov, data, request.param)


def batches(small_cov, b=3, q=1, seed=11):
    return torch.tensor(small_cov.space.sobol(b * q, seed=seed)).reshape(b, q, -1)


def by_host(searched, X):
    """Return the posterior of the same covariance as the host computes it."""
    return BatchedMultiOutputGPyTorchModel.posterior(searched, X)


def assert_same_moments_and_gradients(searched, X, full):
    """Check the posterior at points made of X by `full` against the host's."""
    X = X.requires_grad_()
    found, expected = searched.posterior(full(X)), by_host(searched, full(X))
    torch.testing.assert_close(found.mean, expected.mean, rtol=1e-8, atol=1e-8)
    covariance, host = (posterior.distribution.covariance_matrix for posterior in (found, expected))
    torch.testing.assert_close(covariance, host, rtol=1e-7, atol=1e-8)
    torch.manual_seed(0)
    weights = torch.randn_like(found.mean), torch.randn_like(covariance)
    values = [(weights[0] * p.mean).sum() + (weights[1] * c).sum() for p, c in ((found, covariance), (expected, host))]
    gradients = [torch.autograd.grad(value, X, retain_graph=True)[0] for value in values]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-7 * gradients[1].abs().max().item())


@pytest.mark.parametrize("q", [1, 3])
def test_moments_and_gradients_are_those_of_the_host(model, small_cov, q):
    searched = for_search(model)
    assert searched.process is not None
    assert_same_moments_and_gradients(searched, batches(small_cov, q=q), lambda X: X)


@pytest.mark.parametrize("target", [None, {"extra": (0.0, 3.0), "b": (-2.0, 6.0), "a": (1e-3, 2.0, "log")}])
def test_raw_numbers_are_mapped_with_their_gradients(target):
    space = ParameterSpace.from_dict({"a": (1e-3, 1.0, "log"), "b": (0.0, 5.0)})
    table = pd.DataFrame(space.to_raw(space.from_raw(space.sobol(20))), columns=["a", "b"])
    table["y"] = np.sin(table["b"]) + np.log(table["a"])
    cov = pretrain(table, "y", space, C=5.0, epsilon=0.1, sigma=1.0, progress=False)
    of_target = None if target is None else ParameterSpace.from_dict(target)
    drawn = torch.tensor((of_target or space).sobol(12, seed=2))
    model = pretrained_gp(cov, drawn[:9], drawn[:9].sum(dim=-1, keepdim=True), space=of_target)
    model.likelihood.noise = 1e-3
    searched = for_search(model)
    assert searched._raw_columns is not None
    assert_same_moments_and_gradients(searched, drawn[9:, None], lambda X: X)
    front = drawn[1:3]
    assert_same_moments_and_gradients(
        searched, drawn[9:, None], lambda X: torch.cat([front.expand(3, *front.shape), X], dim=-2)
    )


def test_points_put_in_front_are_the_same_for_all_batches(model, small_cov, data):
    front = torch.cat([data[0][2:5], torch.tensor(small_cov.space.sobol(2, seed=17))])

    def full(X):
        return torch.cat([front.expand(len(X), *front.shape), X], dim=-2)

    searched = for_search(model)
    assert_same_moments_and_gradients(searched, batches(small_cov), full)
    # A point equal to one in front is moved all the same.
    assert_same_moments_and_gradients(searched, front[:1].clone()[None], full)
    with torch.no_grad():
        X = full(batches(small_cov))
        torch.testing.assert_close(searched.posterior(X).mean, by_host(searched, X).mean, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "options", [{"direction": "same"}, {"train_Yvar": 0.01}, {"outcome_transform": None}], ids=lambda o: next(iter(o))
)
def test_every_kind_of_model_is_searched(small_cov, data, options):
    if "train_Yvar" in options:
        options = {"train_Yvar": torch.linspace(0.01, 0.03, len(data[1])).double()[:, None]}
    searched = for_search(made(small_cov, data, **options))
    assert searched.process is not None
    assert_same_moments_and_gradients(searched, batches(small_cov), lambda X: X)


def test_predictions_are_near_those_of_the_model(model, small_cov):
    X = batches(small_cov, b=64)
    with torch.no_grad():
        exact, searched = (m.posterior(X) for m in (model, for_search(model)))
    spread = exact.variance.max().sqrt().item()
    torch.testing.assert_close(searched.mean, exact.mean, rtol=0, atol=SEARCHED * spread)
    torch.testing.assert_close(searched.variance, exact.variance, rtol=0, atol=SEARCHED * spread**2)


@pytest.mark.parametrize("kind", ["analytic", "noisy"])
def test_acquisition_functions_agree_with_those_of_the_model(small_cov, data, kind):
    model = made(small_cov, data)

    def acquisition(m):
        if kind == "analytic":
            return LogExpectedImprovement(m, best_f=data[1].max())
        sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
        return qLogNoisyExpectedImprovement(m, X_baseline=data[0], sampler=sampler, prune_baseline=False)

    exact, searched = acquisition(model), acquisition(for_search(model))
    X = batches(small_cov, b=512, seed=5)
    with torch.no_grad():
        assert exact(X).argmax() == searched(X).argmax()
    X = torch.tensor([[[2000.0, 1e-3, 3.2, 1.0]], [[900.0, 1e-2, 2.4, 1.0]]]).double().requires_grad_()
    (gradient,) = torch.autograd.grad(searched(X).sum(), X)
    scale = torch.tensor([1000.0, 1e-3, 1.0, 1.0]).double()
    start = (X / scale).detach().numpy()
    with torch.no_grad():
        expected = numeric_gradient(lambda Z: searched(torch.tensor(Z) * scale).sum().item(), start)
    torch.testing.assert_close((gradient * scale)[..., :3], torch.tensor(expected)[..., :3], rtol=1e-4, atol=1e-6)


def test_a_search_finds_what_the_model_finds(four_cov):
    X = torch.tensor(four_cov.space.sobol(12, seed=1))
    Y = torch.tensor(four_cov.predict(X.numpy()))[:, None] + 0.2 * X[:, :1]
    model = pretrained_gp(four_cov, X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    bounds = torch.tensor([[-1.0] * 4, [1.0] * 4]).double()
    values = []
    for m in (model, for_search(model)):
        point, _ = optimize_acqf(
            LogExpectedImprovement(m, Y.max()), bounds, 1, num_restarts=2, raw_samples=32, options={"seed": 0}
        )
        values.append(LogExpectedImprovement(model, Y.max())(point[:, None]).item())
    assert values[1] > values[0] - 1e-3


def test_points_beyond_the_box_widen_it(small_cov, data):
    X = data[0]
    searched = for_search(made(small_cov, data, "two_layer"))
    before = searched.covar_module._fixed
    far = X[:2].clone()
    far[:, 0] = 9000.0
    exact = made(small_cov, data, "two_layer").posterior(far)
    torch.testing.assert_close(searched.posterior(far).mean, exact.mean, rtol=1e-2, atol=1e-3)
    after = searched.covar_module._fixed
    assert after is not before or before.radius is None
    searched.posterior(X)
    assert searched.covar_module._fixed is after


def test_bounds_in_single_precision_are_in_the_box(small_cov, data):
    """Or a search would silently take many times as long."""
    searched = for_search(made(small_cov, data, "two_layer"))
    before = searched.covar_module._fixed
    assert before.radius == 1.0
    ends = torch.tensor(small_cov.space.sobol(512)).amax(dim=0)
    ends[0], ends[1] = 5500.0 * (1 + 6e-8), 0.1 * (1 + 6e-8)
    searched.posterior(ends[None])
    assert searched.covar_module._fixed is before


def test_bounds_a_little_wider_than_the_tables_have_a_box_of_their_own(small_cov, data):
    searched = for_search(made(small_cov, data, "two_layer"))
    far = data[0][:2].clone()
    far[:, 0] = 5700.0
    exact = made(small_cov, data, "two_layer").posterior(far)
    torch.testing.assert_close(searched.posterior(far).mean, exact.mean, rtol=1e-2, atol=1e-3)
    assert searched.covar_module._fixed.radius == 1.1


def test_other_models_are_as_they_are(small_cov, data):
    stock = made(small_cov, data, "stock")
    assert for_search(stock) is stock
    model = made(small_cov, data)
    searched = for_search(model)
    assert for_search(searched) is searched
    both = for_search(ModelListGP(model, stock))
    assert type(both.models[0]) is type(searched)
    assert both.models[1] is stock


def test_a_searched_model_stays_as_it_was_and_is_not_fitted(small_cov, data):
    model = made(small_cov, data)
    searched, X = for_search(model), batches(small_cov)
    before = searched.posterior(X).mean
    with pytest.raises(MkboError, match="is not fitted"):
        searched.train()
    model.covar_module.set_scale("moment_scale", 7.0)
    model.likelihood.noise = 0.5
    torch.testing.assert_close(searched.posterior(X).mean, before)
    torch.testing.assert_close(by_host(searched, X).mean, before)
    for other in (copy.deepcopy(searched), pickle.loads(pickle.dumps(searched))):
        torch.testing.assert_close(other.posterior(X).mean, before)


def test_several_outcomes_and_other_questions_go_the_way_of_the_host(small_cov, data):
    X, Y = data
    model = made(small_cov, (X, torch.cat([Y, Y.square()], dim=-1)))
    points = batches(small_cov, q=2)
    searched = for_search(model)
    assert searched.process is None
    torch.testing.assert_close(searched.posterior(points).mean, model.posterior(points).mean, rtol=1e-3, atol=1e-2)
    one = for_search(made(small_cov, data))
    noisy, plain = (one.posterior(points, observation_noise=flag).variance for flag in (True, False))
    assert (noisy > plain).all()


def as_host(searched):
    """Return a model of the same covariance, all of whose ways are the host's."""
    plain = copy.deepcopy(searched)
    plain.__class__ = LogNoiseGP
    SingleTaskGP.set_train_data(plain)
    return plain


ADDED = {
    "one set": ((2,), (2,), (3, 2)),
    "draws at one set": ((2,), (4, 2), (4, 3)),
    "draws at several sets": ((3, 2), (4, 3, 2), (4, 3, 1)),
    "several sets beside batches": ((5, 1), (5, 1), (3, 1, 2)),
}
"""Shapes of added points, what was observed there, and points asked for."""


@pytest.mark.parametrize("shapes", ADDED.values(), ids=ADDED)
@pytest.mark.parametrize("noise", [None, 0.02])
def test_added_data_are_conditioned_on_as_by_the_host(model, small_cov, shapes, noise):
    searched = for_search(model)
    of_z, of_y, of_x = shapes
    drawn = torch.tensor(small_cov.space.sobol(40, seed=23))
    Z, X = (part.clone().requires_grad_() for part in (drawn[:20], drawn[20:]))
    inputs, points = (P[: math.prod(size)].reshape(*size, -1) for P, size in ((Z, of_z), (X, of_x)))
    Y = torch.randn(of_y, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    options = {} if noise is None else {"noise": torch.full(of_z, noise).double()}
    found = []
    with settings.propagate_grads(True):
        for fantasies in (searched.get_fantasy_model(inputs, Y, **options), searched.by_host(inputs, Y, **options)):
            for noisy in (False, True):
                posterior = fantasies.posterior(points, observation_noise=noisy)
                mean, covariance = posterior.mean, posterior.distribution.covariance_matrix
                values = [(torch.linspace(-1, 1, P.numel()) * P.reshape(-1)).sum() for P in (mean, covariance)]
                of_mean = torch.autograd.grad(values[0], (Z, X), retain_graph=True)
                # GPyTorch drops a part of the covariance's gradient in added points.
                found.append((mean, covariance, *of_mean, *torch.autograd.grad(values[1], X, retain_graph=True)))
    assert type(fantasies) is LogNoiseGP
    for ours, host in zip(found[:2], found[2:], strict=True):
        for part, expected in zip(ours, host, strict=True):
            torch.testing.assert_close(part, expected, rtol=1e-6, atol=1e-7 * expected.abs().max().item())


def test_covariances_have_gradients_in_added_points(small_cov, data):
    searched, X = for_search(made(small_cov, data)), batches(small_cov, b=2, q=2)
    scale = torch.tensor([1000.0, 1e-3, 1.0, 1.0]).double()
    start = (batches(small_cov, b=2, seed=31) / scale).detach()
    start[..., 3] = 1.0

    def value(Z):
        fantasies = searched.get_fantasy_model(Z * scale, torch.zeros(2, 1, dtype=torch.double))
        return (fantasies.posterior(X).distribution.covariance_matrix * torch.tensor([[1.0, 2.0], [0.5, 1.0]])).sum()

    (gradient,) = torch.autograd.grad(value(Z := start.clone().requires_grad_()), Z)
    with torch.no_grad():
        expected = torch.tensor(numeric_gradient(lambda P: value(torch.tensor(P)).item(), start.numpy()))
    torch.testing.assert_close(gradient[..., :3], expected[..., :3], rtol=1e-4, atol=1e-6)


def test_added_data_may_be_added_to(small_cov, data):
    searched, (Z, more) = for_search(made(small_cov, data)), batches(small_cov, b=2, q=2)[:, None]
    Y = torch.ones(1, 2, 1, dtype=torch.double)
    twice = searched.condition_on_observations(Z, Y).condition_on_observations(more, 2 * Y)
    at_once = searched.condition_on_observations(torch.cat([Z, more], dim=-2), torch.cat([Y, 2 * Y], dim=-2))
    assert twice.train_inputs[0].shape == at_once.train_inputs[0].shape
    X = batches(small_cov, seed=5)
    for found, expected in zip(
        *([p.mean, p.variance] for p in (m.posterior(X) for m in (twice, at_once))), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


def test_added_data_may_lie_beyond_the_box(small_cov, data):
    searched, far = for_search(made(small_cov, data, "two_layer")), data[0][:2].clone()
    far[:, 0] = 9000.0
    fantasies = searched.condition_on_observations(far[None], torch.zeros(1, 2, 1, dtype=torch.double))
    known = fantasies.posterior(far).variance
    assert (known < searched.posterior(far).variance).all()


def knowledge_gradient(model, data):
    sampler = SobolQMCNormalSampler(torch.Size([4]), seed=1)
    return qKnowledgeGradient(model, num_fantasies=4, sampler=sampler), 5


def max_value_entropy(model, data):
    torch.manual_seed(0)
    pool = model.train_inputs[0]
    return qMaxValueEntropy(model, pool, X_pending=pool[:1] + 0.01), 1


def joint_entropy(model, data):
    return qJointEntropySearch(model, data[0][:3] + 0.01, data[1][:3] + 1.0), 2


@pytest.mark.parametrize("made_of", [knowledge_gradient, max_value_entropy, joint_entropy])
def test_acquisition_functions_of_added_data_agree_with_the_host(small_cov, data, made_of):
    model = made(small_cov, data)
    searched, values = for_search(model), []
    for each in (searched, as_host(searched), model):
        acquisition, q = made_of(each, data)
        X = batches(small_cov, b=3, q=q).requires_grad_()
        value = acquisition(X)
        values.append((value.detach(), torch.autograd.grad(value.sum(), X)[0]))
    for found, expected in zip(values[0], values[1], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7 * expected.abs().max().item())
    torch.testing.assert_close(values[0][0], values[2][0], rtol=0, atol=10 * SEARCHED)
