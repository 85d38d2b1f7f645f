"""Ready models: fitting, prediction, limits in which a form becomes the stock model, and reproducibility."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.risk_measures import VaR
from botorch.exceptions import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.models.transforms.input import (
    ChainedInputTransform,
    FilterFeatures,
    InputPerturbation,
    Log10,
    Normalize,
    Warp,
)
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.warnings import NumericalWarning

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.botorch import NamedFrame, PretrainedGP, PretrainedKernel, pretrained_gp
from mkbo_plugins.core.forms import DEFAULT_FORM, HYPERPARAMETERS
from mkbo_plugins.errors import ArtefactError, KernelError, MkboError, TableError, TableWarning
from tests.botorch.conftest import PRETRAINED_FORMS


def fit(model, iterations=15):
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": iterations}})
    return model


def set_scales(model, **scales):
    for name, value in scales.items():
        model.covar_module.set_scale(name, value)


def copy_stock(model, stock, outputs=None):
    """Give a model the length scales, mean and noise of a stock model."""
    model.covar_module.stock.lengthscale = stock.covar_module.lengthscale.detach().clone()
    model.mean_module.load_state_dict(stock.mean_module.state_dict())
    model.likelihood.noise = stock.likelihood.noise.detach().clone()
    return model


def assert_same_posterior(one, other, X, tolerance):
    p, q = one.posterior(X), other.posterior(X)
    spread = q.variance.sqrt().max().item() + q.mean.std().item()
    assert (p.mean - q.mean).abs().max().item() < tolerance * spread
    covariance, expected = p.distribution.covariance_matrix, q.distribution.covariance_matrix
    assert (covariance - expected).abs().max().item() < tolerance * spread**2


@pytest.fixture
def candidates(cov):
    return torch.tensor(cov.space.sobol(7, seed=11))


@pytest.mark.parametrize("form", [*PRETRAINED_FORMS, "stock"])
def test_every_form_fits_and_predicts_raw_inputs_in_their_own_units(cov, target, form):
    X, Y = target
    model = pretrained_gp(cov, X, Y, form=form)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    before = mll(model(*model.train_inputs), model.train_targets).item()
    fit(model)
    model.train()
    assert mll(model(*model.train_inputs), model.train_targets).item() > before
    posterior = model.eval().posterior(X)
    assert posterior.mean.shape == Y.shape
    assert (posterior.variance > 0).all()
    assert (posterior.mean - Y).pow(2).mean() < 0.5 * Y.var()


def test_a_form_left_out_is_the_default_one(cov, target):
    assert pretrained_gp(cov, *target).covar_module.form_name == DEFAULT_FORM


def unit_inputs(X):
    """Scale raw rows of the mixed space by hand."""
    power, rate, layers, gas = X.T
    levels = torch.nn.functional.one_hot(gas.long(), 3).to(X)
    numbers = torch.stack([(power - 100) / 5400, (torch.log10(rate) + 5) / 4, (layers - 1) / 5], dim=-1)
    return torch.cat([numbers, levels], dim=-1)


def test_stock_is_botorchs_own_model_on_unit_inputs(cov, target, candidates):
    X, Y = target
    ours = fit(pretrained_gp(cov, X, Y, form="stock"))
    by_hand = SingleTaskGP(unit_inputs(X), Y)
    by_hand.load_state_dict(ours.state_dict())
    p, q = ours.posterior(candidates), by_hand.posterior(unit_inputs(candidates))
    assert torch.allclose(p.mean, q.mean, rtol=1e-10)
    assert torch.allclose(p.variance, q.variance, rtol=1e-10, atol=1e-10 * Y.var().item())


@pytest.mark.parametrize("form", ["transfer", "moment", "transfer_link"])
def test_a_refused_prior_leaves_the_stock_model(cov, target, candidates, form):
    stock = fit(pretrained_gp(cov, *target, form="stock"))
    model = copy_stock(pretrained_gp(cov, *target, form=form), stock)
    set_scales(model, output_scale=1.0, moment_scale=1e-14)
    if form != "moment":
        set_scales(model, feature_scale=1e12)
    if form == "transfer_link":
        set_scales(model, link_scale=1e-14)
    assert_same_posterior(model, stock, candidates, 1e-6)
    set_scales(model, moment_scale=1.0)
    assert (model.posterior(candidates).mean - stock.posterior(candidates).mean).abs().max() > 0.01


def test_standardised_with_ddof_1_and_measured_noise(cov, target, candidates):
    X, Y = target
    Yvar = torch.linspace(0.01, 0.5, 10, dtype=torch.double).unsqueeze(-1)
    model = pretrained_gp(cov, X, Y, train_Yvar=Yvar)
    assert isinstance(model.likelihood, FixedNoiseGaussianLikelihood)
    kernel, constant = model.covar_module, model.mean_module.constant.item()
    with torch.no_grad():
        K, k = kernel(X).to_dense().numpy(), kernel(candidates, X).to_dense().numpy()
        prior = kernel(candidates, diag=True).numpy()
    mean, spread = Y.numpy().mean(), Y.numpy().std(ddof=1)
    noisy = K + np.diag(Yvar.numpy().ravel() / spread**2)
    weights = np.linalg.solve(noisy, (Y.numpy().ravel() - mean) / spread - constant)
    expected = mean + spread * (constant + k @ weights)
    variance = spread**2 * (prior - np.einsum("ij,ji->i", k, np.linalg.solve(noisy, k.T)))
    posterior = model.posterior(candidates)
    assert np.allclose(posterior.mean.detach().numpy().ravel(), expected, rtol=1e-8)
    assert np.allclose(posterior.variance.detach().numpy().ravel(), variance, rtol=1e-6)


@pytest.mark.parametrize("form", ["transfer", "two_layer"])
def test_two_outputs_equal_two_models(cov, target, candidates, form):
    X, Y = target
    both = torch.cat([Y, torch.sin(3 * Y) - 10], dim=-1)
    joint = pretrained_gp(cov, X, both, form=form)
    assert joint.covar_module.batch_shape == (2,)
    fit(joint, iterations=5)
    kernel = joint.covar_module
    assert all(len(set(kernel.scale(name).tolist())) == 2 for name in kernel.form.hyperparameters)
    posterior = joint.posterior(candidates)
    for j in range(2):
        single = pretrained_gp(cov, X, both[:, j : j + 1], form=form)
        set_scales(single, **{name: kernel.scale(name)[j].detach() for name in kernel.form.hyperparameters})
        if kernel.stock is not None:
            single.covar_module.stock.lengthscale = kernel.stock.lengthscale[j].detach()
        single.mean_module.constant = joint.mean_module.constant[j].detach()
        single.likelihood.noise = joint.likelihood.noise[j].detach()
        alone = single.posterior(candidates)
        assert torch.allclose(posterior.mean[:, j], alone.mean[:, 0], rtol=1e-7)
        assert torch.allclose(posterior.variance[:, j], alone.variance[:, 0], rtol=1e-5)


@pytest.mark.parametrize("form", ["transfer", "two_layer"])
def test_batched_training_rows_equal_separate_models(cov, target, candidates, form):
    X, Y = target
    rows = torch.stack([X[:6], X[4:]]), torch.stack([Y[:6], Y[4:]])
    together = pretrained_gp(cov, *rows, form=form)
    assert together.batch_shape == (2,)
    posterior = together.posterior(candidates)
    assert posterior.mean.shape == (2, 7, 1)
    for b in range(2):
        alone = pretrained_gp(cov, rows[0][b], rows[1][b], form=form).posterior(candidates)
        assert torch.allclose(posterior.mean[b], alone.mean, rtol=1e-8)
        assert torch.allclose(posterior.variance[b], alone.variance, rtol=1e-6)


@pytest.mark.parametrize("form", [DEFAULT_FORM, "stock"])
def test_covariances_between_many_points_are_evaluated_when_they_are_asked_for(cov, target, form, monkeypatch):
    X, Y = target
    model = fit(pretrained_gp(cov, X, Y, form=form))
    entries = []
    forward = type(model.covar_module).forward

    def counted(self, x1, x2, **kwargs):
        result = forward(self, x1, x2, **kwargs)
        entries.append(result.numel())
        return result

    monkeypatch.setattr(type(model.covar_module), "forward", counted)
    many = torch.as_tensor(cov.space.sobol(700, 3))
    with torch.no_grad():
        posterior = model.posterior(many)
        moments = posterior.mean[:, 0], posterior.variance[:, 0]
        assert max(entries) < 700 * 100
        one_by_one = model.posterior(many[:, None])
        covariance = posterior.distribution.covariance_matrix
        few = [5, 300, 699]
        joint = model.posterior(many[few]).distribution.covariance_matrix
    scale = moments[1].max().item()
    assert max(entries) >= 700 * 700
    assert torch.allclose(moments[0], one_by_one.mean.flatten(), rtol=0, atol=1e-9 * (1 + scale))
    assert torch.allclose(moments[1], one_by_one.variance.flatten(), rtol=0, atol=1e-9 * scale)
    assert torch.allclose(covariance[few][:, few], joint, rtol=0, atol=1e-9 * scale)


def test_model_list_of_different_forms(cov, target, candidates):
    models = [pretrained_gp(cov, *target, form=form) for form in ("transfer", "base", "stock")]
    posterior = ModelListGP(*models).posterior(candidates)
    assert posterior.mean.shape == (7, 3)
    for j, model in enumerate(models):
        assert torch.allclose(posterior.mean[:, j], model.posterior(candidates).mean[:, 0])


@pytest.mark.parametrize("form", ["transfer", "two_layer", "stock"])
def test_conditioning_equals_starting_with_all_rows(cov, target, candidates, form):
    X, Y = target
    settings = {"form": form, "outcome_transform": None}
    model = pretrained_gp(cov, X[:6], Y[:6], **settings)
    model.posterior(candidates)
    conditioned = model.condition_on_observations(X[6:], Y[6:])
    whole = pretrained_gp(cov, X, Y, **settings)
    assert_same_posterior(conditioned, whole, candidates, 1e-6)


@pytest.mark.parametrize("form", ["stock", "two_layer", DEFAULT_FORM])
def test_what_fantasies_have_in_common_changes_nothing_but_time(cov, target, candidates, form):
    model = pretrained_gp(cov, *target, form=form).eval()
    seen = candidates[:6].reshape(3, 2, -1).requires_grad_()
    fantasies = model.fantasize(seen, SobolQMCNormalSampler(torch.Size([4]), seed=0))
    apart = copy.copy(fantasies)
    apart._observed = None
    test = candidates[3:].reshape(2, 1, 2, -1)[:, :, None].requires_grad_()  # the same for all fantasies

    def predicted(of):
        posterior = of.posterior(test.expand(2, 4, 3, *test.shape[-2:]))
        value = posterior.mean.sum() + (posterior.distribution.covariance_matrix**2).sum()
        return posterior, torch.autograd.grad(value, (test, seen), retain_graph=True)

    for known in (True, False):
        (ours, gradients), (expected, of_expected) = predicted(fantasies), predicted(apart)
        torch.testing.assert_close(ours.mean, expected.mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(ours.variance, expected.variance, rtol=1e-8, atol=1e-9)
        for one, other in zip(gradients, of_expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8 * other.abs().max().item())
        if known:  # inputs that are no longer those of the model that the fantasies are of
            moved = fantasies.train_inputs[0].flip(-2)
            for each in (fantasies, apart):
                each.set_train_data(moved, each.train_targets.flip(-1), strict=False)


@pytest.mark.parametrize("form", ["transfer", "normalised"])
def test_fantasies_believe_what_they_saw(cov, target, candidates, form):
    model = pretrained_gp(cov, *target, form=form)
    seen = candidates[:2]
    fantasies = model.fantasize(seen, SobolQMCNormalSampler(torch.Size([4]), seed=0))
    assert fantasies.posterior(candidates).mean.shape == (4, 7, 1)
    before, after = model.posterior(seen).variance, fantasies.posterior(seen).variance
    assert (after < before).all()


def test_single_precision_model_is_close(cov, target, candidates):
    X, Y = target
    with pytest.warns(InputDataWarning, match="double precision"):
        single = pretrained_gp(cov, X.float(), Y.float())
    assert single.covar_module.dtype == torch.float32
    mean = single.posterior(candidates.float()).mean
    assert mean.dtype == torch.float32
    assert torch.allclose(mean.double(), pretrained_gp(cov, X, Y).posterior(candidates).mean, atol=1e-2)


def test_set_train_data_leaves_nothing_stale(cov, target, candidates):
    X, Y = target
    model = pretrained_gp(cov, X, Y, outcome_transform=None)
    model.posterior(candidates)
    model.set_train_data(candidates, Y[:7, 0], strict=False)
    fresh = pretrained_gp(cov, candidates, Y[:7], outcome_transform=None)
    assert_same_posterior(model, fresh, X, 1e-9)


def test_state_dict_of_a_whole_model(cov, gp_cov, target, candidates):
    model = fit(pretrained_gp(cov, *target), iterations=5)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    fresh = pretrained_gp(cov, *target)
    fresh.load_state_dict(state)
    assert_same_posterior(fresh.eval(), model, candidates, 1e-12)
    with pytest.raises(ArtefactError, match="saved with the pre-trained covariance"):
        pretrained_gp(gp_cov, *target).load_state_dict(state)


def test_copies_predict_the_same(cov, target, candidates):
    model = pretrained_gp(cov, *target)
    assert_same_posterior(copy.deepcopy(model), model, candidates, 1e-12)


def suggest(cov, X, Y, bounds, seed):
    torch.manual_seed(seed)
    model = fit(pretrained_gp(cov, X, Y), iterations=10)
    acquisition = LogExpectedImprovement(model, best_f=Y.max())
    return optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=8, options={"maxiter": 10, "seed": seed})


def test_seeds_reproduce_the_fit_and_the_candidate(small_cov, target, bounds):
    first, again = (suggest(small_cov, *target, bounds, seed=5) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])


def test_minimising_is_maximising_the_negated_target(cov, target):
    X, Y = target
    pool = torch.tensor(cov.space.sobol(64, seed=2)).unsqueeze(1)
    down = fit(pretrained_gp(cov, X, Y))
    up = fit(pretrained_gp(cov, X, -Y))
    low = LogExpectedImprovement(down, best_f=Y.min(), maximize=False)(pool)
    high = LogExpectedImprovement(up, best_f=(-Y).max(), maximize=True)(pool)
    assert torch.allclose(low, high, rtol=1e-4, atol=1e-4)
    assert low.argmax() == high.argmax()


@pytest.mark.parametrize("form", ["transfer", "two_layer"])
def test_a_table_of_opposite_sign_helps_as_much(cov, table, space, target, candidates, form):
    opposite = pretrain(
        table.assign(strength=-table["strength"]),
        target="strength",
        space=space,
        C=5.0,
        epsilon=0.05,
        sigma=2.0,
        progress=False,
    )
    assert np.corrcoef(opposite.predict(space.sobol(8)), cov.predict(space.sobol(8)))[0, 1] < -0.99
    one, other = (fit(pretrained_gp(c, *target, form=form), iterations=5) for c in (cov, opposite))
    other.load_state_dict({**other.state_dict(), **dict(one.named_parameters())})
    assert_same_posterior(one, other.eval(), candidates, 1e-5)


@pytest.mark.parametrize(
    "form", ["transfer", "moment", "link", "two_layer", "normalised", "reweighted", "base", "stock"]
)
def test_a_parameter_the_table_lacks_still_counts(cov, target, form):
    X, Y = target
    space = ParameterSpace((*cov.space.parameters, *ParameterSpace.from_dict({"pressure": (0.5, 3.0)}).parameters))
    pressure = torch.linspace(0.5, 3.0, 10, dtype=torch.double).unsqueeze(-1)
    model = pretrained_gp(cov, torch.cat([X, pressure], dim=-1), Y + 2 * pressure, form=form, space=space)
    at = torch.cat([X[:1].expand(2, 4), torch.tensor([[0.5], [3.0]], dtype=torch.double)], dim=-1)
    posterior = model.posterior(at)
    assert (posterior.mean[0] - posterior.mean[1]).abs() > 1e-2
    prior = model.covar_module
    if form != "stock":
        assert prior(at).to_dense()[0, 1] < prior(at).to_dense()[0, 0] - 1e-3
        assert prior.stock_dims >= 1


def test_columns_by_name_and_constants(cov, target, candidates):
    X, Y = target
    whole = pretrained_gp(cov, X, Y, form="two_layer")
    order = [3, 0, 2, 1]
    names = [cov.space.names[j] for j in order]
    permuted = pretrained_gp(cov, X[:, order], Y, form="two_layer", names=names)
    assert torch.allclose(permuted.posterior(candidates[:, order]).mean, whole.posterior(candidates).mean, rtol=1e-9)
    air = X.clone()
    air[:, 3] = 2.0
    constant = pretrained_gp(cov, X[:, :3], Y, form="two_layer", fixed={"gas": "Air"})
    with_column = pretrained_gp(cov, air, Y, form="two_layer")
    at = torch.cat([candidates[:, :3], torch.full((7, 1), 2.0, dtype=torch.double)], dim=-1)
    assert torch.allclose(constant.posterior(at[:, :3]).mean, with_column.posterior(at).mean, rtol=1e-9)


def test_no_rows_point_to_starting_points(cov):
    empty = torch.empty(0, 4).double(), torch.empty(0, 1).double()
    for form in ("transfer", "stock"):
        with pytest.raises(TableError, match=r"no target data yet.*cov\.starting_points"):
            pretrained_gp(cov, *empty, form=form)


def test_arguments_without_meaning_are_refused(cov, target):
    X, Y = target
    with pytest.raises(KernelError, match="'transfr'"):
        pretrained_gp(cov, X, Y, form="transfr")
    with pytest.raises(TableError, match=r"shape.*10"):
        pretrained_gp(cov, X, Y[:, 0])
    with pytest.raises(TableError, match="ndarray"):
        pretrained_gp(cov, X.numpy(), Y)
    with pytest.raises(TableError, match="int64"):
        pretrained_gp(cov, X.long(), Y)
    with pytest.raises(MkboError, match="covar_module"):
        pretrained_gp(cov, X, Y, covar_module=PretrainedKernel(cov, "base"))
    with pytest.raises(KernelError, match=r"\(10, 1\).*train_Yvar=") as caught:
        pretrained_gp(cov, X, Y, torch.full_like(Y, 0.1))
    assert "tensor([[" not in str(caught.value)
    with pytest.raises(KernelError, match=r"'stock'.*got list"):
        pretrained_gp(cov, X, Y, form=["stock"])


def test_own_outcome_transform_and_likelihood_are_used(cov, target):
    likelihood = FixedNoiseGaussianLikelihood(torch.full((10,), 0.25, dtype=torch.double))
    model = pretrained_gp(cov, *target, likelihood=likelihood, outcome_transform=Standardize(1, min_stdv=1e3))
    assert model.likelihood is likelihood
    assert model.outcome_transform._min_stdv == 1e3


def warped(d, column, low, high):
    """Return a warp of a column, by x^2 of its share of the range, which puts out its units."""
    bounds = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.double)
    bounds[:, column] = torch.tensor([low, high])
    warp = Warp(d, [column], bounds=bounds).double()
    warp._set_concentration(0, 1.0)
    warp._set_concentration(1, 2.0)
    back = Normalize(d, [column], bounds=bounds, reverse=True)
    return ChainedInputTransform(warp=warp, back=back)


@pytest.mark.parametrize("form", ["stock", "similarity_link", "two_layer"])
def test_an_input_transform_comes_before_the_frame(cov, target, candidates, form):
    X, Y = target
    wider = ParameterSpace.from_dict({**cov.space.to_dict(), "humidity": (20.0, 60.0)})
    X = torch.cat([X, torch.linspace(25, 50, 10).double()[:, None]], dim=-1)
    at = torch.cat([candidates, torch.linspace(20, 60, 7).double()[:, None]], dim=-1)
    model = pretrained_gp(cov, X, Y, form=form, space=wider, input_transform=warped(5, 4, 20, 60))

    def by_hand(x):
        return torch.cat([x[:, :4], 20 + 40 * ((x[:, 4:] - 20) / 40) ** 2], dim=-1)

    assert_same_posterior(model, Behind(pretrained_gp(cov, by_hand(X), Y, form=form, space=wider), by_hand), at, 1e-5)
    before = [value.detach().clone() for value in model.input_transform.parameters()]
    learned = list(fit(model).input_transform.parameters())
    assert len(learned) == 2
    assert not any(torch.equal(value, old) for value, old in zip(learned, before, strict=True))
    copied = copy.deepcopy(model)
    assert_same_posterior(copied, model, at, 1e-12)


class Behind:
    """A model asked at transformed inputs."""

    def __init__(self, model, transform):
        self.model, self.transform = model, transform

    def posterior(self, X):
        return self.model.posterior(self.transform(X))


@pytest.mark.parametrize("form", ["stock", "similarity_link", "two_layer"])
@pytest.mark.parametrize("direction", ["unknown", "same"])
def test_perturbed_inputs(cov, target, candidates, form, direction):
    if form == "stock" and direction == "same":
        pytest.skip("the stock model knows no direction")
    shifts = torch.tensor([[0.0, 0, 0, 0], [300.0, 0, 0, 0], [-40.0, 0, 0, 0]], dtype=torch.double)
    settings = {"form": form, "direction": direction}
    model = pretrained_gp(cov, *target, **settings, input_transform=InputPerturbation(shifts))
    plain = pretrained_gp(cov, *target, **settings)
    rows = (candidates[:, None] + shifts).reshape(-1, 4)
    assert model.posterior(candidates).mean.shape == (21, 1)
    assert_same_posterior(model, Behind(plain, lambda _: rows), candidates, 1e-8)
    risk = qLogNoisyExpectedImprovement(
        model, target[0], objective=VaR(alpha=0.5, n_w=3), sampler=SobolQMCNormalSampler(torch.Size([8]), seed=0)
    )
    assert torch.isfinite(risk(candidates[:2])).all()


@pytest.mark.parametrize("form", ["stock", "similarity_link"])
@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (Normalize(4), "'power'.*reverse=True"),
        (Normalize(4, [1], bounds=torch.tensor([[0, 1e-5, 0, 0], [1, 1e-1, 1, 1.0]]).double()), "'rate'"),
        (Log10(indices=[0]), "moves the bounds of 'power'"),
        (FilterFeatures(torch.tensor([0, 1])), "puts out 2 columns.*'power', 'rate', 'layers', 'gas'"),
        (torch.nn.Identity(), "InputTransform of BoTorch, got Identity"),
    ],
)
def test_an_input_transform_out_of_raw_units_is_refused(cov, target, form, transform, words):
    with pytest.raises(MkboError, match=words):
        pretrained_gp(cov, *target, form=form, input_transform=transform)


@pytest.mark.parametrize("form", [*PRETRAINED_FORMS, "stock"])
@pytest.mark.parametrize("batched", [False, True])
def test_some_of_several_outcomes(cov, target, candidates, form, batched):
    X, Y = target
    Y = torch.cat([Y, Y.sin(), Y.cos()], dim=-1)
    if batched:
        X, Y = torch.stack([X, X.flip(0)]), torch.stack([Y, Y.cos()])
    model = pretrained_gp(cov, X, Y, form=form)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data *= 1 + 0.1 * torch.rand(parameter.shape, generator=generator, dtype=parameter.dtype)
    whole = model.posterior(candidates)
    for outcomes in ([0], [1], [2, 0], [0, 1, 2]):
        part = model.subset_output(outcomes)
        assert part.covar_module.batch_shape == part._aug_batch_shape
        found = part.posterior(candidates)
        torch.testing.assert_close(found.mean, whole.mean[..., outcomes], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.variance, whole.variance[..., outcomes], rtol=1e-9, atol=1e-9)


def test_some_of_several_outcomes_of_known_noise_and_direction(cov, target, candidates):
    X, Y = target
    Y = torch.cat([Y, Y.sin()], dim=-1)
    model = pretrained_gp(cov, X, Y, train_Yvar=torch.rand_like(Y), direction="same")
    part = model.subset_output([1]).posterior(candidates)
    torch.testing.assert_close(part.mean, model.posterior(candidates).mean[..., 1:], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(part.variance, model.posterior(candidates).variance[..., 1:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["stock", "transfer"])
def test_the_class_makes_the_same_model(cov, target, candidates, form):
    X, Y = target
    Yvar = torch.full_like(Y, 0.1)
    by_class = PretrainedGP(X, Y, Yvar, cov=cov, form=form)
    assert_same_posterior(by_class, pretrained_gp(cov, X, Y, form, train_Yvar=Yvar), candidates, 1e-12)
    assert pickle.loads(pickle.dumps(by_class)).posterior(candidates).mean.shape == (7, 1)
    with pytest.raises(TableError, match="no target data yet"):
        PretrainedGP(X[:0], Y[:0], cov=cov)


@pytest.mark.parametrize("form", ["transfer", "moment", "two_layer"])
def test_a_covariance_at_the_bounds_of_its_scales_can_still_be_factorised(cov, form):
    """The first long step of an optimiser may land there; a failed factorisation would end the fit."""
    X = torch.as_tensor(cov.space.sobol(16, seed=3))
    Y = torch.sin(torch.arange(16.0).double())[:, None]
    model = pretrained_gp(cov, X, Y, form=form)
    model.likelihood.noise = 1e-4
    for name in model.covar_module.form.hyperparameters:
        model.covar_module.set_scale(name, HYPERPARAMETERS[name].upper * (1 - 1e-9))
    model.train()
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        log_likelihood = ExactMarginalLogLikelihood(model.likelihood, model)(
            model(*model.train_inputs), model.train_targets
        )
    assert torch.isfinite(log_likelihood)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cov": "file.mkbo.json"}, "PretrainedCovariance.load"),
        ({"space": {"power": (0, 1)}}, "ParameterSpace.from_dict"),
        ({"train_Yvar": 0.1}, "torch.full_like"),
        ({"train_Yvar": torch.ones(3, 1)}, "shape"),
        ({"train_Y": torch.ones(4, dtype=torch.double)}, r"use train_Y\[:, None\]"),
        ({"train_X": torch.ones(4, 5, dtype=torch.double)}, "expected 4 columns"),
        ({"train_X": torch.tensor([[200.0, 1e-3, 2, 7]] * 4, dtype=torch.double)}, "level indices"),
    ],
)
@pytest.mark.parametrize("form", ["stock", "transfer"])
def test_wrong_arguments_are_refused_at_once(cov, form, changed, words):
    X = torch.as_tensor(cov.space.sobol(4))
    arguments = {"cov": cov, "train_X": X, "train_Y": torch.arange(4.0).double()[:, None], **changed}
    with pytest.raises(MkboError, match=words):
        pretrained_gp(**arguments, form=form)


def test_unit_cube_inputs_are_noticed(cov):
    X = torch.tensor([[u, 0.05, 1, 1] for u in (0.1, 0.3, 0.5, 0.7, 0.9)], dtype=torch.double)
    with pytest.warns(TableWarning, match=r"'power'.*raw units") as caught:
        pretrained_gp(cov, X, torch.arange(5.0).double()[:, None], form="moment")
    assert caught[0].filename == __file__


def test_the_named_frame_as_input_transform_gives_the_same_model(cov):
    X = torch.as_tensor(cov.space.sobol(12, seed=4))
    Y = torch.sin(X[:, :1] / 1500)
    frame = NamedFrame(cov)
    kernel = PretrainedKernel(cov, stock_dims=frame.num_stock_columns)
    outside = SingleTaskGP(X, Y, covar_module=kernel, input_transform=frame)
    inside = pretrained_gp(cov, X, Y)
    points = torch.as_tensor(cov.space.sobol(8, seed=5))
    with torch.no_grad():
        one, other = outside.posterior(points), inside.posterior(points)
    torch.testing.assert_close(one.mean, other.mean, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(one.variance, other.variance, rtol=1e-10, atol=1e-10)


def test_multi_task_models_take_the_kernel(cov):
    X = torch.as_tensor(cov.space.sobol(10, seed=4))
    tasks = torch.cat([torch.zeros(10, 1), torch.ones(10, 1)]).double()
    Y = torch.sin(X[:, :1] / 1500)
    frame = NamedFrame(cov)
    columns = tuple(range(len(cov.space.names)))
    kernel = PretrainedKernel(cov, "transfer", stock_dims=frame.num_stock_columns, frame=frame, active_dims=columns)
    model = MultiTaskGP(
        torch.cat([torch.cat([X, X]), tasks], dim=-1), torch.cat([Y, 2 * Y]), task_feature=-1, covar_module=kernel
    )
    fit(model)
    assert model.posterior(X[:3]).mean.shape == (3, 2)


@pytest.mark.parametrize("form", ["transfer", "moment"])
def test_without_stock_columns_the_stock_covariance_sees_the_frame_scaled_to_unit(cov, form):
    X = torch.as_tensor(cov.space.sobol(9, seed=4))
    bare, frame = NamedFrame(cov, stock_columns="none"), NamedFrame(cov)
    alone = PretrainedKernel(cov, form).double()
    beside = PretrainedKernel(cov, form, stock_dims=frame.num_stock_columns).double()
    with torch.no_grad():
        torch.testing.assert_close(alone(bare(X)).to_dense(), beside(frame(X)).to_dense(), rtol=1e-12, atol=1e-12)


def test_outcomes_that_hardly_vary_are_warned_of(cov, target):
    X, Y = target
    with pytest.warns(TableWarning, match="cuts off variances"):
        pretrained_gp(cov, X, 1e-9 * Y)
