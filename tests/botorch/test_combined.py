"""Covariances of several tables in BoTorch: the brute-force sum, the stock model, fits and suggestions."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.botorch import PretrainedKernel, pretrained_average, pretrained_gp
from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.tables.trials import Trials
from tests.several_tables import SPACE, assert_close, brute_force_sum, combined, points

FORMS = ("transfer_link", "similarity_link", "moment", "two_layer", "product", "normalised", "reweighted")
TURNED = ("r", "p", "q")


def raw(found):
    return torch.tensor([[point[name] for name in TURNED] for point in found], dtype=torch.double)


def outcomes(n=8, seed=0):
    found = points(n)
    X = [{name: point[name] for name in ("p", "q")} for point in found]
    noise = 0.05 * np.random.default_rng(seed).normal(size=n)
    return raw(found), torch.tensor(combined().members[0].predict(X) + noise)[:, None]


def fitted(cov, X, Y, form, **settings):
    model = pretrained_gp(cov, X, Y, form=form, **settings)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def test_the_gram_matrix_is_the_brute_force_sum_in_raw_units():
    X, Y = outcomes(5)
    kernel = pretrained_gp(combined(), X, Y, form="reweighted", names=TURNED).covar_module
    kernel.set_scale("output_scale_1", 1.7)
    kernel.set_scale("output_scale_2", 0.4)
    expected = brute_force_sum([1.7, 0.4], points(5), points(5))
    with torch.no_grad():
        assert_close(kernel.double()(X).to_dense().numpy(), expected, np.diag(expected))
        assert_close(kernel(X[:2], X).to_dense().numpy(), expected[:2], np.diag(expected))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_fitted_and_predicts(form):
    X, Y = outcomes()
    model = fitted(combined(), X, Y, form, names=TURNED)
    posterior = model.posterior(raw(points(4, seed=8)))
    assert bool(torch.isfinite(posterior.mean).all())
    assert bool((posterior.variance > 0).all())
    numbered = {name for name in model.covar_module.form.hyperparameters if name[-1].isdigit()}
    assert {name[-1] for name in numbered} == {"1", "2"}


@pytest.mark.parametrize("form", FORMS)
def test_gradients_with_respect_to_inputs(form):
    X, Y = outcomes()
    model = pretrained_gp(combined(), X, Y, form=form, names=TURNED)
    model.eval()
    low, high = (torch.tensor([getattr(SPACE[name], end) for name in TURNED]) for end in ("lower", "upper"))
    unit = (
        0.2 + 0.6 * torch.rand(2, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    ).requires_grad_()
    assert torch.autograd.gradcheck(lambda u: model.posterior(low + u * (high - low)).mean, unit, rtol=1e-4, atol=1e-6)


def test_without_the_tables_it_is_the_stock_model():
    X, Y = outcomes()
    stock = pretrained_gp(combined(), X, Y, form="stock", names=TURNED)
    model = pretrained_gp(combined(), X, Y, form="transfer", names=TURNED)
    model.covar_module.set_scale("output_scale", 1.0)
    for name, value in {"moment_scale": 1e-20, "feature_scale": 1e20}.items():
        for number in (1, 2):
            model.covar_module.set_scale(f"{name}_{number}", value)
    model.covar_module.stock.lengthscale = stock.covar_module.lengthscale.detach()
    model.likelihood.noise = stock.likelihood.noise.detach()
    Z = raw(points(4, seed=8))
    found, expected = (each.eval().posterior(Z) for each in (model, stock))
    torch.testing.assert_close(found.mean, expected.mean, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(found.variance, expected.variance, rtol=1e-8, atol=1e-8)
    assert list(stock.state_dict()) == list(SingleTaskGP(X, Y).state_dict())
    assert type(stock.covar_module) is RBFKernel


def informative_and_useless():
    """Return the covariance of a table of the target and of one of noise, both over one parameter."""
    space = ParameterSpace.from_dict({"x": (0.0, 10.0)})
    x = np.linspace(0, 10, 15)
    tables = [
        pd.DataFrame({"x": x, "y": np.sin(x)}),
        pd.DataFrame({"x": x, "y": np.random.default_rng(3).normal(size=15)}),
    ]
    return pretrain(tables, "y", space, C=3.0, epsilon=0.1, sigma=0.05, ard=False, progress=False)


def test_a_useless_table_gets_the_smaller_scale():
    cov = informative_and_useless()
    X = torch.linspace(0.3, 9.7, 12, dtype=torch.double)[:, None]
    kernel = fitted(cov, X, 3 * torch.sin(X) - 1, "moment").covar_module
    assert kernel.scale("moment_scale_2") < kernel.scale("moment_scale_1") / 3


def test_the_average_of_forms():
    X, Y = outcomes()
    model = pretrained_average(combined(), X, Y, ("stock", "moment"), names=TURNED)
    assert model.weights.sum().item() == pytest.approx(1)
    assert bool(torch.isfinite(model.posterior(X).mean).all())


def test_a_state_belongs_to_one_covariance():
    kernel = PretrainedKernel(combined())
    other = PretrainedKernel(combined())
    other.set_scale("moment_scale_2", 3.0)
    kernel.load_state_dict(other.state_dict())
    assert kernel.scale("moment_scale_2").item() == pytest.approx(3)
    assert copy.deepcopy(kernel).cov is kernel.cov
    assert kernel.spread_inputs(5).shape == (5, 3)


@pytest.mark.parametrize("direction", ["same", ("unknown", "opposite")])
def test_first_suggestions_say_what_each_table_says(direction):
    advice = suggest(combined(), Trials.none(SPACE), 3, direction=direction)
    assert len({tuple(s.point.values()) for s in advice.suggestions}) == 3
    for s in advice.suggestions:
        for member, said in zip(combined().members, s.table_says, strict=True):
            assert said == pytest.approx(member.predict([{n: s.point[n] for n in member.space.names}])[0])
        assert "hardness" in s.why
        assert "yield" in s.why
    assert not advice.scales


def test_suggestions_rest_on_fitted_scales_of_each_table():
    X, Y = outcomes(10)
    trials = Trials(X.numpy()[:, [1, 2, 0]], Y[:, 0].numpy(), np.empty((0, 3)))
    advice = suggest(combined(), trials, 1, form="transfer")
    assert {"moment_scale_1", "moment_scale_2", "feature_scale_1", "feature_scale_2"} < set(advice.scales)
    assert advice.verdict is not None
