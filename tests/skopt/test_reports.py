"""Public reports about the host that concern custom or pre-trained models: a user of this package meets none."""

import pickle

import numpy as np
import pytest
import skopt
from sklearn.datasets import load_iris
from sklearn.svm import SVC
from skopt import BayesSearchCV, Optimizer, gp_minimize
from skopt.space import Categorical, Integer, Real

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.errors import TableError
from mkbo_plugins.skopt import PretrainedRegressor, parameter_space, pretrained_regressor
from tests.skopt.conftest import (
    FORM_NAMES,
    mixed_dimensions,
    normalised,
    real_coordinates,
    real_dimensions,
    related,
    sample,
)

QUICK = {"n_points": 300, "n_restarts_optimizer": 2}


@pytest.mark.parametrize("form", FORM_NAMES)
def test_1193_kernels_without_gradients(form):
    """Scikit-learn's kernels gave AttributeError: object has no attribute 'gradient_x'."""
    dimensions = real_dimensions(2)
    result = gp_minimize(
        sum, dimensions, base_estimator=pretrained_regressor(real_coordinates(2), dimensions, form),
        acq_optimizer="lbfgs", n_calls=6, n_initial_points=4, random_state=0, **QUICK,
    )  # fmt: skip
    assert result.models[-1].kernel_.gradient_x(np.full(2, 0.3), np.full((4, 2), 0.5)).shape == (4, 2)


@pytest.mark.parametrize("factor", [2.0, "kernel"])
def test_1142_products_and_sums_of_kernels_lost_their_gradient(factor):
    """A product had None for a gradient; amplitude and stock covariance are parts of this kernel."""
    kernel = pretrained_regressor(real_coordinates(2), real_dimensions(2)).kernel
    factor = (
        pretrained_regressor(real_coordinates(2), real_dimensions(2), "base").kernel if factor == "kernel" else factor
    )
    X = np.random.default_rng(0).uniform(size=(4, 2))
    for combined in (kernel * factor, kernel + factor):
        found, x = combined.gradient_x(X[0] + 0.1, X), X[0] + 0.1
        for j in range(2):
            step = 1e-6 * np.eye(2)[j]
            numeric = (combined((x + step)[None, :], X) - combined((x - step)[None, :], X))[0] / 2e-6
            assert np.allclose(found[:, j], numeric, atol=1e-7)


def categorical_cov():
    space = ParameterSpace.from_dict(
        {"activation": ["relu", "tanh", "gelu"], "norm": ["batch", "layer"], "units": [1, 2, 3]}
    )
    X = space.sobol(18)
    return pretrain((X, X[:, 0] - X[:, 1] + 0.1 * X[:, 2] ** 2), space=space, trainer="gp")


def categorical_dimensions():
    return [
        Categorical(["relu", "tanh", "gelu"], name="activation"),
        Categorical(["batch", "layer"], name="norm"),
        Categorical([1, 2, 3], name="units"),
    ]


@pytest.mark.parametrize("search", ["lbfgs", "auto", "sampling"])
@pytest.mark.filterwarnings("ignore:Some rows repeat", "ignore:.*repeat the inputs", "ignore:The objective has been")
def test_1110_and_589_spaces_of_levels_only(search):
    """They raised NotImplementedError, or compared a normalised with an original point in ask."""
    cov, dimensions = categorical_cov(), categorical_dimensions()
    optimiser = Optimizer(
        dimensions, pretrained_regressor(cov, dimensions), n_initial_points=3, random_state=0, acq_optimizer=search,
        acq_optimizer_kwargs=QUICK,
    )  # fmt: skip
    for _ in range(7):
        row = optimiser.ask()
        assert row in optimiser.space
        optimiser.tell(row, float(["relu", "tanh", "gelu"].index(row[0]) + row[2]))
    assert min(optimiser.yi) == 1.0


@pytest.mark.filterwarnings("ignore:Some rows repeat", "ignore:.*repeat the inputs")
def test_1110_a_search_by_gradient_among_levels_ends_where_it_starts(monkeypatch):
    """Levels are rounded, so that gradients are zero: one prediction at each start, and the best candidate of all."""
    asked, plain = [], PretrainedRegressor._predict_point
    monkeypatch.setattr(
        PretrainedRegressor, "_predict_point", lambda self, *args: asked.append(1) or plain(self, *args)
    )
    cov, found = categorical_cov(), []
    for search in ("lbfgs", "sampling"):
        dimensions = categorical_dimensions()
        optimiser = Optimizer(
            dimensions, pretrained_regressor(cov, dimensions), n_initial_points=6, random_state=0, acq_func="EI",
            acq_optimizer=search, acq_optimizer_kwargs=QUICK,
        )  # fmt: skip
        rows = optimiser.space.rvs(6, random_state=1)
        optimiser.tell(rows, [float(["relu", "tanh", "gelu"].index(row[0]) + row[2]) for row in rows])
        found.append(optimiser._next_x)
    assert found[0] == found[1]
    assert len(asked) == QUICK["n_restarts_optimizer"]


def test_324_leading_minor_not_positive_definite():
    """Ten dimensions and repeated points, without noise."""
    cov, dimensions = real_coordinates(10), real_dimensions(10)
    optimiser = Optimizer(
        dimensions, pretrained_regressor(cov, dimensions, noise=0.0), acq_func="EI", acq_optimizer="lbfgs",
        n_initial_points=5, random_state=0, acq_optimizer_kwargs=QUICK,
    )  # fmt: skip
    optimiser.run(lambda x: float(np.mean(np.sin(x))), 12)
    optimiser.tell([optimiser.Xi[0]] * 3, [optimiser.yi[0]] * 3)
    assert np.isfinite(optimiser.models[-1].predict(optimiser.space.transform(optimiser.Xi))).all()


def test_484_jumping_between_the_ends_of_one_dimension():
    """Two random points and a nearly flat, noisy target: every proposal was one end or the other."""
    space = ParameterSpace.from_dict({"batch": (32.0, 256.0, "log")})
    X = space.sobol(16)
    noise = np.random.default_rng(0)
    curve = lambda batch: 0.35 + 0.02 * np.log2(batch / 90) ** 2  # noqa: E731
    cov = pretrain((X, curve(X[:, 0])), space=space, trainer="gp")
    dimensions = [Real(32.0, 256.0, "log-uniform", name="batch")]
    result = gp_minimize(
        lambda x: curve(x[0]) + noise.normal(0, 0.001), dimensions,
        base_estimator=pretrained_regressor(cov, dimensions), n_calls=10, n_initial_points=2, random_state=0, **QUICK,
    )  # fmt: skip
    proposed = np.array(result.x_iters[2:])[:, 0]
    assert np.mean((proposed > 40) & (proposed < 200)) > 0.5
    assert abs(np.log2(result.x[0] / 90)) < 0.5


def test_399_scales_of_the_covariance_fit_any_units(small_cov):
    """Length scales and amplitude had fixed ranges in units of the user's parameters and values."""
    X, y, _ = sample(small_cov, 12)
    one = pretrained_regressor(small_cov, mixed_dimensions()).fit(X, y)
    for factor in (1e-9, 1e9):
        other = pretrained_regressor(small_cov, mixed_dimensions()).fit(X, factor * y + 3 * factor)
        assert np.allclose(other.predict(X), factor * one.predict(X) + 3 * factor, rtol=1e-4)
        assert np.allclose(other.kernel_.theta, one.kernel_.theta, atol=0.02)


def test_949_and_719_points_given_with_their_values_are_not_evaluated_again(small_cov):
    """Values given were computed again, and points of another order of dimensions were refused or misread."""
    dimensions, calls = mixed_dimensions(), []
    rows = skopt.Space(dimensions).rvs(5, random_state=0)
    values = [related(small_cov, dimensions, row) for row in rows]

    def objective(row):
        calls.append(row)
        return related(small_cov, dimensions, row)

    result = gp_minimize(
        objective, dimensions, base_estimator=pretrained_regressor(small_cov, dimensions), x0=rows, y0=values,
        n_calls=2, n_initial_points=0, random_state=0, **QUICK,
    )  # fmt: skip
    assert len(calls) == 2
    assert not any(row in rows for row in calls)
    assert result.x_iters[:5] == rows
    moved = mixed_dimensions()[::-1]
    other = Optimizer(moved, pretrained_regressor(small_cov, moved), n_initial_points=1, acq_optimizer_kwargs=QUICK)
    other.tell([row[::-1] for row in rows], values)
    model = pretrained_regressor(small_cov, dimensions).fit(normalised(dimensions).transform(rows), values)
    found = other.models[-1].predict(other.space.transform([row[::-1] for row in rows]))
    assert np.allclose(found, model.predict(normalised(dimensions).transform(rows)), atol=1e-3)


@pytest.mark.parametrize("sign", [1, -1])
def test_325_and_446_knowledge_of_similar_problems(small_cov, sign):
    """Earlier runs could only be passed as if they were of the same problem, with the same parameters."""
    dimensions = mixed_dimensions()  # one parameter more than the table, and narrower bounds
    X, _, rows = sample(small_cov, 60, seed=5)
    truth = np.array([sign * related(small_cov, dimensions, row) for row in rows])
    error = {}
    for form in ("transfer", "stock"):
        model = pretrained_regressor(small_cov, mixed_dimensions(), form).fit(X[:8], truth[:8])
        error[form] = np.sqrt(np.mean((model.predict(X[8:]) - truth[8:]) ** 2))
    assert error["transfer"] < 0.6 * error["stock"]


def test_446_an_earlier_result_with_one_parameter_less():
    """A hyperparameter was added, or the model changed a little."""
    first = gp_minimize(
        lambda x: (x[0] - 0.3) ** 2,
        [Real(-1.0, 1.0, name="x0")],
        n_calls=8,
        n_initial_points=6,
        random_state=0,
        **QUICK,
    )
    cov = pretrain(first, space=parameter_space([Real(-1.0, 1.0, name="x0")]), trainer="gp")
    dimensions = [Real(0.0, 5.0, name="new"), Real(-1.0, 1.0, name="x0")]
    result = gp_minimize(
        lambda x: (x[1] - 0.3) ** 2 + 0.1 * x[0], dimensions, base_estimator=pretrained_regressor(cov, dimensions),
        n_calls=8, n_initial_points=3, random_state=1, **QUICK,
    )  # fmt: skip
    assert abs(result.x[1] - 0.3) < 0.2
    first.space.dimensions[0].name = None
    with pytest.raises(TableError, match=r"dimensions \[0\] of the result.*have no name"):
        pretrain(first, space=cov.space)


def test_686_starting_knowledge_in_bayes_search():
    """It takes no starting points; what is known comes with the model."""
    X, y = load_iris(return_X_y=True)
    spaces = {"C": Real(1e-3, 1e3, "log-uniform"), "gamma": Real(1e-5, 1e2, "log-uniform")}
    space = parameter_space(spaces)
    settings = space.sobol(20)
    scores = [SVC(C=C, gamma=gamma).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) for C, gamma in settings]
    cov = pretrain((settings, -np.array(scores)), space=space, trainer="gp")
    search = BayesSearchCV(
        SVC(), spaces, n_iter=7, cv=3, random_state=1,
        optimizer_kwargs={
            "base_estimator": pretrained_regressor(cov, spaces), "n_initial_points": 3, "acq_optimizer_kwargs": QUICK,
        },
    ).fit(X, y)  # fmt: skip
    assert search.cv_results_["mean_test_score"][3:].max() > 0.93


def test_784_saving_results_of_a_local_objective(small_cov, tmp_path):
    """An objective defined in a function cannot be pickled; the model can."""

    def objective(row):
        return related(small_cov, mixed_dimensions(), row)

    dimensions = mixed_dimensions()
    result = gp_minimize(
        objective, dimensions, base_estimator=pretrained_regressor(small_cov, dimensions), n_calls=5,
        n_initial_points=3, random_state=0, **QUICK,
    )  # fmt: skip
    skopt.dump(result, tmp_path / "result.pkl", store_objective=False)
    stored = skopt.load(tmp_path / "result.pkl")
    X = stored.space.transform(stored.x_iters)
    assert np.array_equal(stored.models[-1].predict(X), result.models[-1].predict(X))
    assert len(pickle.dumps(result.models[-1])) < 200_000


def test_1133_a_batch_of_many_points(small_cov):
    """Every point of a batch takes a fit and a search, which must not build features anew."""
    dimensions = [Integer(1, 5, name="layers"), *mixed_dimensions()[2:]]
    cov = small_cov.with_evaluator(tolerance=1e-9)
    estimator = pretrained_regressor(cov, dimensions, fixed={"gas": "Air"})
    optimiser = Optimizer(
        dimensions, estimator, n_initial_points=4, acq_func="EI", random_state=0, acq_optimizer_kwargs=QUICK
    )
    rows = optimiser.ask(4)
    optimiser.tell(rows, [float(row[0]) for row in rows])
    features = cov.evaluator.features()
    batch = optimiser.ask(16)
    assert len({tuple(row) for row in batch}) == 16
    assert cov.evaluator.features() is features
    assert optimiser.models[-1].kernel_.cov is cov
