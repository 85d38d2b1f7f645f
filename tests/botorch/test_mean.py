"""Models whose direction is known: predictions from the definition, gradients, and the host's ways to use a mean."""

import copy
import io
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.exceptions import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.pathwise import draw_matheron_paths
from gpytorch.means import ConstantMean
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins import pretrain_mixture
from mkbo_plugins.botorch import PretrainedMean, pretrained_average, pretrained_gp, table_verdict
from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.core import WeightedPoints
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.errors import ArtefactError, KernelError, MkboError
from mkbo_plugins.tables.trials import Trials
from tests.botorch.conftest import PRETRAINED_FORMS, four_coordinates
from tests.several_tables import combined


def fit(model, iterations=15):
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": iterations}})
    return model.eval()


def half(cov, X, direction="same"):
    """Return half the standardised prediction of the table at raw points, (n,)."""
    g = (cov.predict(X.numpy()) - cov.fixed.decision_mean) / cov.fixed.decision_spread
    return (0.5 if direction == "same" else -0.5) * g


@pytest.fixture
def candidates(cov):
    return torch.tensor(cov.space.sobol(7, seed=11))


@pytest.fixture
def directed(cov, target):
    return pretrained_gp(cov, *target, direction="same").eval()


@pytest.mark.parametrize("direction", ["same", "opposite"])
@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_predictions_are_those_of_residuals_plus_the_mean(cov, target, candidates, form, direction):
    X, Y = target
    model = fit(pretrained_gp(cov, X, Y, form=form, direction=direction))
    y, spread = Y.numpy().ravel(), Y.std().item()
    z = (y - y.mean()) / spread
    with torch.no_grad():
        K = model.covar_module(X).to_dense().numpy() + model.likelihood.noise.item() * np.eye(len(X))
        cross = model.covar_module(candidates, X).to_dense().numpy()
        prior = model.covar_module(candidates).to_dense().numpy()
        posterior = model.posterior(candidates)
    constant = model.mean_module.constant.item()
    residual = z - half(cov, X, direction) - constant
    mean = half(cov, candidates, direction) + constant + cross @ np.linalg.solve(K, residual)
    covariance = prior - cross @ np.linalg.solve(K, cross.T)
    np.testing.assert_allclose(posterior.mean.numpy().ravel(), y.mean() + spread * mean, rtol=0, atol=1e-7 * spread)
    found = posterior.distribution.covariance_matrix.numpy()
    np.testing.assert_allclose(found, spread**2 * covariance, rtol=0, atol=1e-7 * spread**2)


def test_a_fit_is_that_of_the_residuals(cov, target, candidates):
    X, Y = target
    z = (Y - Y.mean()) / Y.std()
    mean, at_candidates = (torch.tensor(half(cov, points))[:, None] for points in (X, candidates))
    settings = {"form": "link", "outcome_transform": None}
    ours = fit(pretrained_gp(cov, X, z, direction="same", **settings), 200).posterior(candidates)
    theirs = fit(pretrained_gp(cov, X, z - mean, **settings), 200).posterior(candidates)
    torch.testing.assert_close(ours.mean, theirs.mean + at_candidates, rtol=0, atol=1e-3)
    torch.testing.assert_close(ours.variance, theirs.variance, rtol=1e-2, atol=1e-3)


def test_an_unknown_direction_is_a_constant(cov, target, candidates):
    plain, unknown = fit(pretrained_gp(cov, *target)), fit(pretrained_gp(cov, *target, direction="unknown"))
    assert type(unknown.mean_module) is ConstantMean
    assert plain.state_dict().keys() == unknown.state_dict().keys()
    assert torch.equal(plain.posterior(candidates).mean, unknown.posterior(candidates).mean)


def negated(cov):
    """Return the covariance that the negated table gives where training is exact."""
    g = cov.fixed.decision
    decision = DecisionFunction(g.kernel, WeightedPoints(g.table.points, -g.table.alpha), -g.bias)
    return replace(cov, fixed=replace(cov.fixed, decision=decision, decision_mean=-cov.fixed.decision_mean))


def test_a_negated_table_of_opposite_direction_is_the_table(cov, target, candidates):
    (X, Y), at = target, candidates
    same, opposite, mistaken = (
        pretrained_gp(one, X, Y, direction=direction).posterior(at)
        for one, direction in ((cov, "same"), (negated(cov), "opposite"), (negated(cov), "same"))
    )
    torch.testing.assert_close(same.mean, opposite.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(same.variance, opposite.variance, rtol=1e-8, atol=1e-10)
    assert (same.mean - mistaken.mean).abs().max() > 0.01 * Y.std()


def test_negated_outcomes_of_opposite_direction_are_the_outcomes(cov, target, candidates):
    X, Y = target
    up = fit(pretrained_gp(cov, X, Y, direction="same"), 200).posterior(candidates)
    down = fit(pretrained_gp(cov, X, -Y, direction="opposite"), 200).posterior(candidates)
    torch.testing.assert_close(up.mean, -down.mean, rtol=0, atol=1e-4 * Y.std().item())


def test_of_several_tables_the_known_ones_share_the_half():
    cov = combined()
    X = torch.tensor(cov.space.sobol(6, seed=1))
    views = [(member, X[:, columns]) for member, columns in zip(cov.members, ([0, 1], [1, 2]), strict=True)]
    parts = [half(member, view) for member, view in views]
    cases = {("same", "unknown"): parts[0], ("opposite", "same"): (parts[1] - parts[0]) / 2}
    for direction, expected in cases.items():
        model = pretrained_gp(cov, X, X[:, :1], direction=direction)
        np.testing.assert_allclose(model.mean_module(X).detach().numpy(), expected, rtol=1e-9, atol=1e-10)


def test_derivatives():
    cov = four_coordinates()
    mean = PretrainedMean(cov, "opposite").double()
    x = torch.rand(2, 3, 6, dtype=torch.double, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(mean, (x,))
    assert torch.autograd.gradgradcheck(mean, (x,))
    (slopes,) = torch.autograd.grad(mean(x).sum(), x)
    assert (slopes[..., 4:] == 0).all()


def test_derivatives_in_raw_inputs(cov, directed, candidates):
    numeric = [cov.space.names.index(name) for name in cov.space.names if name != "gas"]
    width = torch.tensor(np.ptp(cov.space.sobol(64), axis=0))[numeric]

    def mean(share):
        x = candidates[0].clone()
        x = torch.cat([(share[i] * width[i])[None] if i < len(width) else x[j : j + 1] for i, j in enumerate(order)])
        return directed.posterior(x[inverse][None]).mean.sum()

    order = [*numeric, cov.space.names.index("gas")]
    inverse = torch.tensor(order).argsort()
    share = (candidates[0][numeric] / width).requires_grad_()
    assert torch.autograd.gradcheck(mean, (share,), rtol=1e-4)


def test_two_outputs_and_batches_equal_single_models(cov, target, candidates):
    X, Y = target
    both = torch.cat([Y, torch.sin(3 * Y) - 10], dim=-1)
    joint = pretrained_gp(cov, X, both, direction="same").posterior(candidates)
    rows = torch.stack([X[:6], X[4:]]), torch.stack([Y[:6], Y[4:]])
    together = pretrained_gp(cov, *rows, direction="same").posterior(candidates)
    several = pretrained_gp(cov, rows[0], torch.cat([rows[1], -rows[1]], dim=-1), direction="same")
    assert several.posterior(candidates).mean.shape == (2, 7, 2)
    for j in range(2):
        single = pretrained_gp(cov, X, both[:, j : j + 1], direction="same").posterior(candidates)
        torch.testing.assert_close(joint.mean[:, j : j + 1], single.mean, rtol=1e-8, atol=1e-9)
        alone = pretrained_gp(cov, rows[0][j], rows[1][j], direction="same").posterior(candidates)
        torch.testing.assert_close(together.mean[j], alone.mean, rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(several.posterior(candidates).mean[j, :, :1], alone.mean, rtol=1e-8, atol=1e-9)


def test_conditioning_equals_starting_with_all_rows(cov, target, candidates):
    X, Y = target
    settings = {"direction": "opposite", "outcome_transform": None}
    model = pretrained_gp(cov, X[:6], Y[:6], **settings)
    model.posterior(candidates)
    conditioned = model.condition_on_observations(X[6:], Y[6:]).posterior(candidates)
    whole = pretrained_gp(cov, X, Y, **settings).posterior(candidates)
    torch.testing.assert_close(conditioned.mean, whole.mean, rtol=0, atol=1e-6 * Y.std().item())
    fantasies = model.fantasize(candidates[:2], SobolQMCNormalSampler(torch.Size([4]), seed=0))
    assert fantasies.posterior(candidates).mean.shape == (4, 7, 1)


def test_copies_and_states(cov, target, directed, candidates):
    expected = directed.posterior(candidates).mean
    assert torch.equal(copy.deepcopy(directed).posterior(candidates).mean, expected)
    assert torch.equal(pickle.loads(pickle.dumps(directed)).posterior(candidates).mean, expected)
    directed.mean_module.constant = 0.3
    file = io.BytesIO()
    torch.save(directed.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    fresh = pretrained_gp(cov, *target, direction="same")
    fresh.load_state_dict(state)
    torch.testing.assert_close(fresh.posterior(candidates).mean, copy.deepcopy(directed).posterior(candidates).mean)
    with pytest.raises(ArtefactError, match=r"directions \[1.0\].*model has \[-1.0\].*direction="):
        pretrained_gp(cov, *target, direction="opposite").load_state_dict(state)


def test_single_precision_is_close(cov, target, directed, candidates):
    X, Y = target
    with pytest.warns(InputDataWarning, match="double precision"):
        single = pretrained_gp(cov, X.float(), Y.float(), direction="same")
    mean = single.posterior(candidates.float()).mean
    assert mean.dtype == torch.float32
    torch.testing.assert_close(mean.double(), directed.posterior(candidates).mean, rtol=0, atol=1e-2)


def test_the_verdict_is_about_the_values_alone(cov, target, directed):
    assert table_verdict(directed) == table_verdict(pretrained_gp(cov, *target))


def test_an_average_of_directed_models(cov, target, candidates):
    average = pretrained_average(cov, *target, forms=("moment", "product"), direction="same")
    assert all(isinstance(member.mean_module, PretrainedMean) for member in average.members)
    assert torch.isfinite(average.posterior(candidates).mixture_mean).all()


def test_suggestions_and_sample_paths(small_cov, bounds):
    X = torch.tensor(small_cov.space.sobol(8, seed=3))
    Y = torch.tensor(small_cov.predict(X.numpy()))[:, None]
    model = pretrained_gp(small_cov, X, Y, direction="same").eval()
    at = torch.tensor(small_cov.space.sobol(5, seed=9))
    acquisition = qLogNoisyExpectedImprovement(model, X_baseline=X, sampler=SobolQMCNormalSampler(torch.Size([16])))
    inputs = at[:, None].clone().requires_grad_()
    (slopes,) = torch.autograd.grad(acquisition(inputs).sum(), inputs)
    assert torch.isfinite(slopes).all()
    with torch.no_grad():
        torch.manual_seed(0)
        samples = draw_matheron_paths(model, torch.Size([2048]))(at).squeeze(-1)
        posterior = model.posterior(at)
    error = (samples.mean(dim=0) - posterior.mean.ravel()).abs() / posterior.variance.sqrt().ravel()
    assert error.max() < 0.15
    listed = ModelListGP(model, pretrained_gp(small_cov, X, Y)).posterior(at).mean
    torch.testing.assert_close(listed[:, :1], posterior.mean)


@pytest.mark.parametrize("minimise", [False, True])
def test_suggest_directs_its_model(cov, target, minimise):
    X, Y = target
    y, sign = Y.numpy().ravel(), -1.0 if minimise else 1.0
    advice = suggest(cov, Trials(X.numpy(), y, X.numpy()[:0]), minimise=minimise, direction="opposite")
    z = torch.tensor(sign * (y - y.mean()) / y.std(ddof=1))[:, None]
    model = pretrained_gp(cov, X, z, direction="opposite")
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    (found,) = advice.suggestions
    mean = model.posterior(torch.tensor(cov.space.to_raw([dict(found.point)]))).mean.item()
    assert found.predicted == pytest.approx(y.mean() + sign * y.std(ddof=1) * mean, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"direction": "up"}, "direction must be 'same', 'opposite' or 'unknown', got 'up'"),
        ({"direction": ["same", "same"]}, "one for each of 1 tables, got 2"),
        ({"direction": "same", "form": "stock"}, "form='stock' does without the table.*'unknown'"),
        ({"direction": "same", "mean_module": ConstantMean()}, "sets mean_module itself"),
    ],
)
def test_directions_that_cannot_be_used_are_refused(cov, target, settings, message):
    with pytest.raises(MkboError, match=message):
        pretrained_gp(cov, *target, **settings)


def test_a_mean_needs_a_known_direction_and_a_machine(cov, table, space, target):
    with pytest.raises(KernelError, match="'unknown' for every table"):
        PretrainedMean(cov, "unknown")
    mixture = pretrain_mixture(table, target="strength", space=space)
    with pytest.raises(KernelError, match="mixture does not predict what is good"):
        pretrained_gp(mixture, *target, form="base", direction="same")
