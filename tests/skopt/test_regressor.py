"""The regressor: the model of the BoTorch adapter, right gradients, noise, seeds, and an estimator like any other."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator
from skopt import Optimizer
from skopt.acquisition import gaussian_lcb
from skopt.learning import GaussianProcessRegressor
from skopt.space import Real

from mkbo_plugins.core.gp.posterior import PosteriorDensity
from mkbo_plugins.core.priors import NOISE
from mkbo_plugins.errors import FitError, KernelError, MkboError, SpaceError
from mkbo_plugins.skopt import PretrainedRegressor, parameter_space, pretrained_regressor
from tests.skopt.conftest import (
    FORM_NAMES,
    mixed_dimensions,
    normalised,
    real_coordinates,
    real_dimensions,
    sample,
)


def fitted(cov, form="transfer_link", n=14, seed=0, **settings):
    X, y, _ = sample(cov, n, seed)
    return pretrained_regressor(cov, mixed_dimensions(), form, **settings).fit(X, y)


def same_model(cov, model, rows, y, form):
    """Return the BoTorch adapter's model with the hyperparameters of a regressor."""
    torch = pytest.importorskip("torch")
    from mkbo_plugins.botorch import pretrained_gp

    space = parameter_space(mixed_dimensions())
    raw = torch.tensor(space.to_raw([dict(zip(space.names, row, strict=True)) for row in rows]))
    twin = pretrained_gp(cov, raw, torch.tensor(y).unsqueeze(-1), form, space=space)
    kernel = model.kernel_
    with torch.no_grad():
        if form == "stock":
            twin.covar_module.lengthscale = torch.tensor(kernel.length_scale)
        else:
            for name in twin.covar_module.form.hyperparameters:
                twin.covar_module.set_scale(name, getattr(kernel, name))
            twin.covar_module.stock.lengthscale = torch.tensor(kernel.length_scale)
        twin.likelihood.noise = model.noise_
        twin.mean_module.constant.fill_(model.constant_)
    return twin, space


@pytest.mark.parametrize("form", FORM_NAMES)
def test_posterior_equals_that_of_the_botorch_adapter(cov, form):
    torch = pytest.importorskip("torch")
    X, y, rows = sample(cov, 14)
    model = pretrained_regressor(cov, mixed_dimensions(), form).fit(X, y)
    twin, space = same_model(cov, model, rows, y, form)
    at = normalised(mixed_dimensions()).rvs(9, random_state=3)
    mean, std = model.predict(normalised(mixed_dimensions()).transform(at), return_std=True)
    raw = torch.tensor(space.to_raw([dict(zip(space.names, row, strict=True)) for row in at]))
    posterior = twin.posterior(raw)
    expected = posterior.mean.detach().numpy().ravel(), posterior.variance.sqrt().detach().numpy().ravel()
    assert np.abs(mean - expected[0]).max() < 1e-8 * y.std(ddof=1)
    assert np.abs(std - expected[1]).max() < 1e-8 * y.std(ddof=1)


@pytest.mark.parametrize("form", ["transfer", "two_layer", "stock"])
def test_fit_reaches_the_posterior_density_of_the_botorch_adapter(cov, form):
    pytest.importorskip("torch")
    from botorch.fit import fit_gpytorch_mll
    from gpytorch.mlls import ExactMarginalLogLikelihood

    X, y, rows = sample(cov, 14)
    model = pretrained_regressor(cov, mixed_dimensions(), form).fit(X, y)
    twin, _ = same_model(cov, model, rows, y, form)
    density = ExactMarginalLogLikelihood(twin.likelihood, twin)

    def value():
        twin.train()
        return density(twin(*twin.train_inputs), twin.train_targets).item()

    ours = value()
    fit_gpytorch_mll(density)
    assert value() - ours < 1e-3


@pytest.mark.parametrize("form", FORM_NAMES)
@pytest.mark.parametrize("inputs", ["normalised", "raw"])
def test_gradients_of_mean_and_deviation(small_cov, form, inputs):
    X, y, rows = sample(small_cov, 14)
    if inputs == "raw":
        space = normalised(mixed_dimensions())
        for dimension in space.dimensions:
            dimension.set_transformer("onehot" if hasattr(dimension, "categories") else "identity")
        X = space.transform(rows)
    model = pretrained_regressor(small_cov, mixed_dimensions(), form).fit(X, y)
    assert model.kernel_.inputs == inputs
    width = np.where(np.ptp(X, axis=0) > 0, np.ptp(X, axis=0), 1.0)
    for seed in range(3):
        share = np.random.default_rng(seed).uniform(0.1, 0.9, X.shape[1])
        x = X.min(axis=0) + share * width
        mean, std, of_mean, of_std = model.predict(
            x[None, :], return_std=True, return_mean_grad=True, return_std_grad=True
        )
        assert model.predict(x[None, :], return_mean_grad=True)[1] == pytest.approx(of_mean)
        assert np.allclose([mean, std], model.predict(x[None, :], return_std=True))
        for j in range(len(x)):
            step = 1e-5 * width[j] * np.eye(len(x))[j]
            ahead, behind = (model.predict((x + s)[None, :], return_std=True) for s in (step, -step))
            for found, one, other in zip((of_mean[j], of_std[j]), ahead, behind, strict=True):
                numeric = (one[0] - other[0]) / (2 * step[j])
                assert found * width[j] == pytest.approx(numeric * width[j], rel=1e-5, abs=1e-6 * y.std())


def test_gradient_of_the_marginal_likelihood(small_cov):
    model = fitted(small_cov)
    theta = np.append(model.kernel_.theta, np.log(model.noise_)) + 0.1
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood(theta))
    for j in range(len(theta)):
        step = 1e-5 * np.eye(len(theta))[j]
        numeric = (model.log_marginal_likelihood(theta + step) - model.log_marginal_likelihood(theta - step)) / 2e-5
        assert gradient[j] == pytest.approx(numeric, rel=1e-5, abs=1e-6)
    assert model.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood(theta - 0.1))
    with pytest.raises(KernelError, match="needs theta"):
        model.log_marginal_likelihood(eval_gradient=True)


@pytest.mark.parametrize("form", ["transfer", "moment", "transfer_link"])
def test_a_refused_prior_leaves_the_stock_model(small_cov, form):
    X, y, _ = sample(small_cov, 14)
    stock = pretrained_regressor(small_cov, mixed_dimensions(), "stock").fit(X, y)
    model = pretrained_regressor(small_cov, mixed_dimensions(), form)
    scales = {"output_scale": 0.0, "moment_scale": np.log(1e-14), "feature_scale": np.log(1e14)}
    scales |= {"link_scale": np.log(1e-14), "link_width": 0.0}
    names = model.kernel.model.form.hyperparameters
    theta = np.concatenate([[scales[name] for name in names], stock.kernel_.theta, [np.log(stock.noise_)]])
    found = model.fit(X, y).log_marginal_likelihood(theta)
    assert found == pytest.approx(stock.log_marginal_likelihood_value_, rel=1e-8)


def test_lcb_finds_as_good_points_by_gradients_as_by_sampling():
    """The host's own gradient of the deviation reached worse points in 19 of 20 Gaussian processes."""
    as_good = better = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 4))
        points, values = rng.uniform(-1, 1, (8, d)).tolist(), np.cumsum(rng.normal(size=8)).tolist()
        reached = {}
        for search in ("lbfgs", "sampling"):
            estimator = pretrained_regressor(
                real_coordinates(d), real_dimensions(d), FORM_NAMES[seed % len(FORM_NAMES)]
            )
            optimiser = Optimizer(
                real_dimensions(d),
                estimator,
                n_initial_points=1,
                acq_func="LCB",
                acq_optimizer=search,
                random_state=seed,
            )
            optimiser.tell(points, values)
            x = optimiser.space.transform([optimiser.ask()])
            reached[search] = gaussian_lcb(x, optimiser.models[-1])[0]
        as_good += reached["lbfgs"] <= reached["sampling"] + 1e-9
        better += reached["lbfgs"] < reached["sampling"] - 1e-7
    assert as_good >= 19
    assert better >= 18  # a wrong gradient ends where it starts, at the best candidate


def test_known_noise_is_in_units_of_the_target(small_cov):
    X, y, _ = sample(small_cov, 14)
    one = pretrained_regressor(small_cov, mixed_dimensions(), noise=0.04).fit(X, y)
    other = pretrained_regressor(small_cov, mixed_dimensions(), noise=0.04 * 1e6).fit(X, 1e3 * y - 7)
    assert one.noise_ == pytest.approx(0.04 / y.var(ddof=1), rel=1e-3)
    assert np.allclose(other.predict(X), 1e3 * one.predict(X) - 7, rtol=1e-5)
    assert one.log_marginal_likelihood(one.kernel_.theta) == pytest.approx(one.log_marginal_likelihood_value_)


def test_noise_free_data_keeps_a_sound_deviation(small_cov):
    """The host's inverse of the covariance gives garbage here."""
    X, y, _ = sample(small_cov, 14)
    model = pretrained_regressor(small_cov, mixed_dimensions(), noise=0.0).fit(np.vstack([X, X[:1]]), [*y, y[0]])
    mean, std = model.predict(X, return_std=True)
    assert np.allclose(mean, y, atol=1e-2 * y.std())
    assert (std < 1e-2 * y.std()).all()
    assert (std > 0).all()


def test_learned_noise_stays_within_its_bounds(small_cov):
    X, _, _ = sample(small_cov, 14)
    exact = pretrained_regressor(small_cov, mixed_dimensions()).fit(
        X,
        small_cov.fixed.standardised_decision(
            pretrained_regressor(small_cov, mixed_dimensions()).kernel.points(X).frame
        ),
    )
    pure = pretrained_regressor(small_cov, mixed_dimensions()).fit(X, np.random.default_rng(5).normal(size=14))
    assert NOISE.lower * 0.999 <= exact.noise_ < pure.noise_ < 2


@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0, 3.0]])
def test_one_value_or_equal_ones(small_cov, values):
    X, _, _ = sample(small_cov, len(values))
    model = pretrained_regressor(small_cov, mixed_dimensions()).fit(X, values)
    mean, std = model.predict(sample(small_cov, 5, seed=1)[0], return_std=True)
    assert np.allclose(mean, 3.0)
    assert (std > 0).all()


def test_covariance_and_samples_agree_with_the_deviation(small_cov):
    model = fitted(small_cov)
    X = sample(small_cov, 6, seed=1)[0]
    mean, std = model.predict(X, return_std=True)
    joint = model.predict(X, return_cov=True)
    assert np.allclose(joint[0], mean)
    assert np.allclose(np.sqrt(np.diag(joint[1])), std, rtol=1e-6)
    draws = model.sample_y(X, 4000, random_state=0)
    assert np.allclose(draws.std(axis=1), std, rtol=0.1)


def test_many_points_at_once_are_as_good_as_few(small_cov):
    model = fitted(small_cov)
    X = sample(small_cov, 1500, seed=1)[0]
    mean, std = model.predict(X, return_std=True)
    expected = model.predict(X[:300], return_std=True)
    assert np.allclose(mean[:300], expected[0], atol=1e-6 * mean.std())
    assert np.allclose(std[:300], expected[1], rtol=1e-5)
    assert np.allclose(model.predict(X), mean)


def test_before_a_fit_it_predicts_the_prior(small_cov):
    model = pretrained_regressor(small_cov, mixed_dimensions())
    X = sample(small_cov, 5)[0]
    mean, std = model.predict(X, return_std=True)
    assert (mean == 0).all()
    assert np.allclose(std**2, model.kernel.diag(X))
    assert np.allclose(model.predict(X, return_cov=True)[1], model.kernel(X))


def test_random_state_decides_the_restarts(small_cov):
    X, y, _ = sample(small_cov, 8)
    models = [
        pretrained_regressor(small_cov, mixed_dimensions(), n_restarts_optimizer=2, random_state=seed).fit(X, y)
        for seed in (1, 1, 2)
    ]
    density = models[0]._density()
    starts = [model._restarts(density) for model in models]
    assert np.array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])
    assert np.array_equal(models[0].kernel_.theta, models[1].kernel_.theta)
    assert models[0].get_params()["random_state"] == 1


def test_copies_fit_the_same_data_once(small_cov, monkeypatch):
    """The host clones the model for every fit, and fits again to what it had fitted to."""
    searches, plain = [], PosteriorDensity.maximise
    monkeypatch.setattr(
        PosteriorDensity, "maximise", lambda self, starts: searches.append(len(self.y)) or plain(self, starts)
    )
    X, y, _ = sample(small_cov, 8)
    made = pretrained_regressor(small_cov, mixed_dimensions())
    first = clone(made).fit(X, y)
    assert len(searches) == 1
    again = clone(clone(made)).fit(X.copy(), y.copy())
    assert len(searches) == 1
    assert np.array_equal(again.predict(X, return_std=True), first.predict(X, return_std=True))
    clone(made).fit(X[:7], y[:7])
    clone(made).fit(X, y)
    assert searches == [8, 7]
    near = np.append(y[:-1], np.nextafter(y[-1], np.inf))
    for changed, values in (
        (clone(made), near),
        (clone(made).set_params(noise=0.1), y),
        (clone(made).set_params(kernel__form="link"), y),
        (clone(made).set_params(direction="same"), y),
        (pretrained_regressor(small_cov, mixed_dimensions()), y),
        (pickle.loads(pickle.dumps(made)), y),
    ):
        count = len(searches)
        changed.fit(X, values)
        assert len(searches) == count + 1


def test_random_restarts_of_no_seed_are_drawn_for_each_fit(small_cov):
    X, y, _ = sample(small_cov, 8)
    made = pretrained_regressor(small_cov, mixed_dimensions(), n_restarts_optimizer=1)
    np.random.seed(0)  # noqa: NPY002 - the state that scikit-learn takes where there is none
    clone(made).fit(X, y)
    state = np.random.get_state()[2]  # noqa: NPY002
    clone(made).fit(X, y)
    assert np.random.get_state()[2] != state  # noqa: NPY002


def test_it_is_an_estimator_like_any_other(small_cov):
    X, y, _ = sample(small_cov, 16)
    model = pretrained_regressor(small_cov, mixed_dimensions(), noise=0.01)
    assert is_regressor(model)
    assert isinstance(model, GaussianProcessRegressor)
    assert clone(model).kernel == model.kernel
    assert clone(model).set_params(noise="gaussian", kernel__output_scale=2.0).kernel.output_scale == 2.0
    scores = cross_val_score(make_pipeline(FunctionTransformer(), model), X, y, cv=3)
    assert np.isfinite(scores).all()
    search = GridSearchCV(model, {"noise": [1e-3, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_["noise"] in (1e-3, 1.0)
    model.fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])
    assert "kernel" in repr(model)


def test_wrong_settings_and_columns_are_refused(small_cov):
    X, y, _ = sample(small_cov, 6)
    model = pretrained_regressor(small_cov, mixed_dimensions())
    with pytest.raises(SpaceError, match=r"expected 7 columns.*gas \(3\), layers.*got 2"):
        model.fit(X[:, :2], y)
    with pytest.raises(ValueError, match="X has 2 features, but PretrainedRegressor is expecting 7"):
        model.fit(X, y).predict(X[:, :2])
    with pytest.raises(SpaceError, match=r"'layers' run from 30.* to 31.*inputs='raw'"):
        model.fit(X + 30 * np.eye(7)[3], y)
    with pytest.raises(SpaceError, match=r"'power' run from 100.* to 10"):
        model.fit(X, y).predict(X + 100 * np.eye(7)[4])
    for settings in ({"noise": -1.0}, {"noise": "white"}, {"inputs": "unit"}):
        with pytest.raises(KernelError, match=next(iter(settings))):
            pretrained_regressor(small_cov, mixed_dimensions(), **settings)
    with pytest.raises(KernelError, match="form must be one of"):
        pretrained_regressor(small_cov, mixed_dimensions(), "unknown")
    with pytest.raises(MkboError, match=r"PretrainedCovariance\.load"):
        pretrained_regressor("alloy.mkbo.json", mixed_dimensions())
    with pytest.raises(KernelError, match="PretrainedKernel, got NoneType"):
        PretrainedRegressor(None).fit(X, y)
    with pytest.raises(KernelError, match="at most one"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(KernelError, match=r"one point \(1, size\) at a time"):
        model.predict(X, return_mean_grad=True)
    with pytest.raises(KernelError, match="after a fit"):
        pretrained_regressor(small_cov, mixed_dimensions()).predict(X[:1], return_mean_grad=True)
    with pytest.raises(KernelError, match="needs return_std"):
        model.predict(X[:1], return_std_grad=True)


@pytest.mark.parametrize("form", ["transfer", "transfer_link", "two_layer", "stock"])
def test_a_search_goes_back_from_singular_covariances_of_near_twins(form, monkeypatch):
    rejected = []
    log_evidence = PosteriorDensity.log_evidence

    def watched(density, theta):
        try:
            return log_evidence(density, theta)
        except np.linalg.LinAlgError:
            rejected.append(theta)
            raise

    monkeypatch.setattr(PosteriorDensity, "log_evidence", watched)
    space = normalised(real_dimensions(2))
    twins = 0.3 + 1e-9 * np.random.default_rng(0).standard_normal((116, 2))
    X, y = np.vstack([space.transform(space.rvs(4, random_state=0)), twins]), np.eye(120)[0]
    model = pretrained_regressor(real_coordinates(2), real_dimensions(2), form, inputs="normalised").fit(X, y)
    assert bool(rejected) == (form != "stock")  # the search's long first step
    mean, std = model.predict(X, return_std=True)
    assert np.abs(mean - y).max() < 0.1
    assert np.isfinite(std).all()


def test_a_covariance_that_is_not_positive_definite_is_named(small_cov, monkeypatch):
    X, y, _ = sample(small_cov, 6)
    monkeypatch.setattr("mkbo_plugins.skopt.regressor.NUGGET", -1e3)
    with pytest.raises(FitError, match="noise='gaussian'"):
        pretrained_regressor(small_cov, mixed_dimensions(), noise=0.0).fit(X, y)


def regressor_of(d):
    """Return a regressor of `d` columns that takes any numbers."""
    dimensions = [Real(-1.0, 1.0, name=f"x{j}") for j in range(d)]
    return pretrained_regressor(real_coordinates(d), dimensions, "moment", inputs="normalised")


def checks():
    return [check for _, check in estimator_checks_generator(regressor_of(2))]


@pytest.mark.parametrize("check", checks(), ids=lambda check: check.func.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_checks_of_scikit_learn(check):
    """Run each with the number of columns that it uses; those that vary it are left out."""
    d, tried = 2, set()
    while True:
        try:
            check(regressor_of(d))
            return
        except (SpaceError, AssertionError, NotFittedError) as error:
            needed = columns_asked_for(error)
            if needed is None:
                raise
            tried.add(d)
            if needed in tried:
                pytest.skip(f"varies the number of columns: {sorted(tried)}")
            d = needed


def columns_asked_for(error):
    """Return the number of columns that a refused call had, or None if something else went wrong."""
    while error is not None:
        if isinstance(error, SpaceError) and "columns, those of the dimensions" in str(error):
            return int(str(error).split(", got ")[1].split(";")[0])
        error = error.__cause__ or error.__context__
    return None
