"""Regressors whose direction is known: the model of the BoTorch adapter, its gradients, and what the words mean."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from skopt import gp_minimize

from mkbo_plugins import pretrain_mixture
from mkbo_plugins.errors import KernelError
from mkbo_plugins.skopt import PretrainedRegressor, mixture_regressor, parameter_space, pretrained_regressor
from tests.several_tables import combined
from tests.skopt.conftest import FORM_NAMES, mixed_dimensions, normalised, real_coordinates, real_dimensions, sample
from tests.skopt.test_combined import DIMENSIONS, columns, inside

INFORMED = [form for form in FORM_NAMES if form != "stock"]


def raw_points(rows):
    space = parameter_space(mixed_dimensions())
    return space, space.to_raw([dict(zip(space.names, row, strict=True)) for row in rows])


def twin_in_botorch(cov, rows, y, form, direction):
    """Return the BoTorch adapter's model of the negated values: there, good experiments have large outcomes."""
    torch = pytest.importorskip("torch")
    from mkbo_plugins.botorch import pretrained_gp

    space, raw = raw_points(rows)
    return pretrained_gp(cov, torch.tensor(raw), -torch.tensor(y)[:, None], form, space=space, direction=direction)


def copy_hyperparameters(twin, model):
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        for name in twin.covar_module.form.hyperparameters:
            twin.covar_module.set_scale(name, getattr(model.kernel_, name))
        twin.covar_module.stock.lengthscale = torch.tensor(model.kernel_.length_scale)
        twin.likelihood.noise = model.noise_
        twin.mean_module.constant.fill_(-model.constant_)


@pytest.mark.parametrize("direction", ["same", "opposite"])
@pytest.mark.parametrize("form", INFORMED)
def test_it_is_the_model_of_the_negated_outcome_in_botorch(cov, form, direction):
    torch = pytest.importorskip("torch")
    X, y, rows = sample(cov, 14)
    model = pretrained_regressor(cov, mixed_dimensions(), form, direction=direction).fit(X, y)
    twin = twin_in_botorch(cov, rows, y, form, direction)
    copy_hyperparameters(twin, model)
    at = normalised(mixed_dimensions()).rvs(9, random_state=3)
    mean, std = model.predict(normalised(mixed_dimensions()).transform(at), return_std=True)
    posterior = twin.posterior(torch.tensor(raw_points(at)[1]))
    spread = y.std(ddof=1)
    assert np.abs(mean + posterior.mean.detach().numpy().ravel()).max() < 1e-8 * spread
    assert np.abs(std - posterior.variance.sqrt().detach().numpy().ravel()).max() < 1e-8 * spread


@pytest.mark.parametrize("form", ["similarity_link", "two_layer"])
def test_fit_reaches_the_posterior_density_of_the_botorch_adapter(cov, form):
    pytest.importorskip("torch")
    from botorch.fit import fit_gpytorch_mll
    from gpytorch.mlls import ExactMarginalLogLikelihood

    X, y, rows = sample(cov, 14)
    model = pretrained_regressor(cov, mixed_dimensions(), form, direction="same").fit(X, y)
    twin = twin_in_botorch(cov, rows, y, form, "same")
    density = ExactMarginalLogLikelihood(twin.likelihood, twin)

    def value():
        twin.train()
        return density(twin(*twin.train_inputs), twin.train_targets).item()

    fit_gpytorch_mll(density)
    theirs = value()
    copy_hyperparameters(twin, model)
    assert theirs - value() < 1e-3


@pytest.mark.parametrize("direction", ["same", "opposite"])
def test_predictions_are_those_of_residuals_plus_the_mean(cov, direction):
    """Calculated by NumPy, the mean falling with the table's target where that speaks for good, small values."""
    X, y, rows = sample(cov, 14)
    model = pretrained_regressor(cov, mixed_dimensions(), direction=direction).fit(X, y)
    at = normalised(mixed_dimensions()).rvs(9, random_state=3)
    points = normalised(mixed_dimensions()).transform(at)
    names = [d.name for d in mixed_dimensions()]

    def half(found):
        g = cov.predict([{n: v for n, v in zip(names, row, strict=True) if n != "tip"} for row in found])
        return (-0.5 if direction == "same" else 0.5) * (g - cov.fixed.decision_mean) / cov.fixed.decision_spread

    z = (y - y.mean()) / y.std(ddof=1)
    K = model.kernel_(X) + model.noise_ * np.eye(len(X))
    ones, residuals = np.linalg.solve(K, np.ones(len(X))), z - half(rows)
    constant = ones @ residuals / ones.sum()
    assert model.constant_ == pytest.approx(constant, abs=1e-8)
    cross = model.kernel_(points, X)
    expected = half(at) + constant + cross @ np.linalg.solve(K, residuals - constant)
    found = (model.predict(points) - y.mean()) / y.std(ddof=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.predict(points, return_cov=True)[0], model.predict(points), rtol=0, atol=1e-9)
    prior = pretrained_regressor(cov, mixed_dimensions(), direction=direction).predict(points)
    np.testing.assert_allclose(prior, half(at), rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", ["transfer_link", "moment", "normalised"])
def test_gradients_of_mean_and_deviation(small_cov, form):
    X, y, _ = sample(small_cov, 14)
    model = pretrained_regressor(small_cov, mixed_dimensions(), form, direction="opposite").fit(X, y)
    x = np.random.default_rng(1).uniform(0.1, 0.9, X.shape[1])
    found = model.predict(x[None], return_std=True, return_mean_grad=True, return_std_grad=True)[2:]
    for j in range(len(x)):
        step = 1e-5 * np.eye(len(x))[j]
        ahead, behind = (model.predict((x + s)[None], return_std=True) for s in (step, -step))
        for gradient, one, other in zip(found, ahead, behind, strict=True):
            assert gradient[j] == pytest.approx((one[0] - other[0]) / 2e-5, rel=1e-5, abs=1e-6 * y.std())


def test_gradient_of_the_marginal_likelihood(small_cov):
    X, y, _ = sample(small_cov, 12)
    model = pretrained_regressor(small_cov, mixed_dimensions(), direction="same").fit(X, y)
    theta = np.append(model.kernel_.theta, np.log(model.noise_)) + 0.1
    gradient = model.log_marginal_likelihood(theta, eval_gradient=True)[1]
    for j in range(len(theta)):
        step = 1e-5 * np.eye(len(theta))[j]
        numeric = (model.log_marginal_likelihood(theta + step) - model.log_marginal_likelihood(theta - step)) / 2e-5
        assert gradient[j] == pytest.approx(numeric, rel=1e-5, abs=1e-6)


def test_an_unknown_direction_changes_nothing(small_cov):
    X, y, _ = sample(small_cov, 10)
    plain, unknown = (
        pretrained_regressor(small_cov, mixed_dimensions(), **settings).fit(X, y)
        for settings in ({}, {"direction": "unknown"})
    )
    assert np.array_equal(plain.predict(X, return_std=True), unknown.predict(X, return_std=True))
    assert unknown._posterior.directed is None


def test_negated_values_of_the_other_direction_are_the_values(small_cov):
    X, y, _ = sample(small_cov, 10)
    models = [
        pretrained_regressor(small_cov, mixed_dimensions(), direction=direction).fit(X, sign * y)
        for direction, sign in (("same", 1), ("opposite", -1))
    ]
    one, other = (model.predict(X) for model in models)
    np.testing.assert_allclose(one, -other, rtol=0, atol=1e-4 * y.std())


def test_it_has_the_meaning_of_starting_points():
    """Where a large table target speaks for a good experiment, the prior has small values at the proposed points."""
    cov = real_coordinates(2)
    for direction in ("same", "opposite"):
        model = pretrained_regressor(cov, real_dimensions(2), direction=direction)
        space = normalised(real_dimensions(2))
        (best,) = cov.starting_points(1, direction)
        proposed = model.predict(space.transform([list(best.values())]))
        assert proposed[0] < np.quantile(model.predict(space.transform(space.rvs(200, random_state=0))), 0.1)


def test_of_several_tables_the_known_ones_share_the_half():
    X, member = columns(inside(6)), combined().members[0]
    regressor = pretrained_regressor(combined(), DIMENSIONS, direction=["same", "unknown"])
    g = member.predict([{name: point[name] for name in ("p", "q")} for point in inside(6)])
    expected = -0.5 * (g - member.fixed.decision_mean) / member.fixed.decision_spread
    np.testing.assert_allclose(regressor.predict(X), expected, rtol=1e-9, atol=1e-10)
    fitted = clone(regressor).fit(X, expected)
    assert fitted.get_params()["direction"] == ["same", "unknown"]


@pytest.mark.parametrize("search", ["lbfgs", "sampling"])
def test_a_search_and_its_copies(small_cov, search):
    dimensions = mixed_dimensions()
    result = gp_minimize(
        lambda row: float(row[2]) / 1000,
        dimensions,
        base_estimator=pretrained_regressor(small_cov, dimensions, direction="same"),
        n_calls=6,
        n_initial_points=4,
        acq_optimizer=search,
        n_points=200,
        n_restarts_optimizer=1,
        random_state=0,
    )
    X = normalised(dimensions).transform(result.x_iters)
    model = result.models[-1]
    assert model.direction == "same"
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X), model.predict(X))
    assert model.verdict() == PretrainedRegressor(model.kernel, model.noise).fit(X, result.func_vals).verdict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"direction": "down"}, "direction must be 'same', 'opposite' or 'unknown', got 'down'"),
        ({"direction": ["same", "same"]}, "one for each of 1 tables, got 2"),
        ({"direction": "same", "form": "stock"}, "form='stock' does without the table.*'unknown'"),
    ],
)
def test_directions_that_cannot_be_used_are_refused(small_cov, settings, message):
    with pytest.raises(KernelError, match=message):
        pretrained_regressor(small_cov, mixed_dimensions(), **settings)
    X, y, _ = sample(small_cov, 6)
    kernel = pretrained_regressor(small_cov, mixed_dimensions(), settings.get("form", "moment")).kernel
    with pytest.raises(KernelError, match=message):
        PretrainedRegressor(kernel, direction=settings["direction"]).fit(X, y)


def test_a_mixture_has_no_direction(table, space):
    mixture = pretrain_mixture(table, target="strength", space=space)
    with pytest.raises(KernelError, match="mixture does not predict what is good"):
        mixture_regressor(mixture, mixed_dimensions(), direction="same")
