"""The host's optimisers with the regressor in them: acquisitions, strategies, searches, saving and plots."""

import pickle
import warnings

import joblib
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import skopt
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from skopt import BayesSearchCV, Optimizer, gp_minimize
from skopt.acquisition import _gaussian_acquisition
from skopt.callbacks import CheckpointSaver
from skopt.plots import plot_convergence, plot_evaluations, plot_objective
from skopt.space import Categorical, Integer, Real, Space

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.skopt import parameter_space, pretrained_regressor
from tests.skopt.conftest import mixed_dimensions, real_coordinates, real_dimensions, related

mpl.use("Agg")

QUICK = {"n_points": 300, "n_restarts_optimizer": 2}


@pytest.fixture
def objective(small_cov):
    return lambda row: related(small_cov, mixed_dimensions(), row)


def minimise(cov, objective, form="transfer_link", **settings):
    dimensions = mixed_dimensions()
    chosen = {"n_calls": 6, "n_initial_points": 4, "random_state": 0, **QUICK, **settings}
    return gp_minimize(objective, dimensions, base_estimator=pretrained_regressor(cov, dimensions, form), **chosen)


@pytest.fixture(scope="module")
def result(small_cov):
    return minimise(small_cov, Target(small_cov))


class Target:
    """An objective that can be pickled."""

    def __init__(self, cov):
        self.cov = cov

    def __call__(self, row):
        return related(self.cov, mixed_dimensions(), row)


@pytest.mark.parametrize("acquisition", ["EI", "LCB", "PI", "gp_hedge", "EIps", "PIps"])
@pytest.mark.parametrize("search", ["lbfgs", "sampling", "auto"])
def test_every_acquisition_with_every_search(small_cov, objective, acquisition, search):
    timed = (lambda row: (objective(row), 1.0 + row[1])) if acquisition.endswith("ps") else objective
    found = minimise(small_cov, timed, acq_func=acquisition, acq_optimizer=search)
    assert len(found.models) == 3
    assert all(row in found.space for row in found.x_iters)


def test_the_same_seed_gives_the_same_points(small_cov, objective):
    one, same, other = (minimise(small_cov, objective, acq_func="EI", random_state=seed) for seed in (0, 0, 1))
    assert one.x_iters == same.x_iters
    assert one.x_iters != other.x_iters


def test_it_finds_what_the_table_knows(small_cov, objective):
    known = minimise(small_cov, objective, n_calls=9, n_points=2000, acq_func="EI").fun
    rows = Space(mixed_dimensions()).rvs(500, random_state=1)
    assert known < np.quantile([objective(row) for row in rows], 0.01)


@pytest.mark.parametrize("strategy", ["cl_min", "cl_mean", "cl_max"])
def test_several_points_at_once(small_cov, objective, strategy):
    dimensions = mixed_dimensions()
    optimiser = Optimizer(
        dimensions, pretrained_regressor(small_cov, dimensions), n_initial_points=3, random_state=0,
        acq_optimizer_kwargs=QUICK,
    )  # fmt: skip
    for _ in range(2):
        rows = optimiser.ask(n_points=4, strategy=strategy)
        assert len({tuple(row) for row in rows}) == 4
        optimiser.tell(rows, [objective(row) for row in rows])
    assert len(optimiser.models) == 2


@pytest.mark.parametrize(("acquisition", "same"), [("LCB", True), ("EI", False), ("PI", False)])
def test_lcb_alone_does_not_improve_on_the_luckiest_value(small_cov, objective, acquisition, same):
    dimensions = mixed_dimensions()
    optimiser = Optimizer(
        dimensions, pretrained_regressor(small_cov, dimensions), n_initial_points=3, acq_optimizer_kwargs=QUICK
    )
    rows = Space(mixed_dimensions()).rvs(6, random_state=1)
    optimiser.tell(rows, [objective(row) for row in rows])
    points, model = optimiser.space.transform(Space(mixed_dimensions()).rvs(50, random_state=2)), optimiser.models[-1]
    lowest = min(optimiser.yi)
    one, other = (_gaussian_acquisition(points, model, y, acquisition) for y in (lowest, lowest - np.ptp(optimiser.yi)))
    assert np.array_equal(one, other) == same


@pytest.mark.parametrize("acquisition", ["EI", "gp_hedge"])
def test_only_noise_makes_a_best_point_at_a_bound_worth_repeating(acquisition):
    """The host's own model, which learns next to no noise here, repeats nothing either."""
    dimensions = real_dimensions(2)
    exact = [pretrained_regressor(real_coordinates(2), dimensions, form, noise=0.0) for form in ("stock", DEFAULT_FORM)]
    assert [repeated(model, dimensions, acquisition) for model in ("GP", *exact)] == [0, 0, 0]
    assert repeated(clone(exact[0]).set_params(noise="gaussian"), dimensions, acquisition) > 0


def repeated(model, dimensions, acquisition):
    """Return how often the best corner of a plane, or another known point, is to be measured again."""
    optimiser = Optimizer(
        dimensions, model, n_initial_points=5, acq_func=acquisition, random_state=0, acq_optimizer_kwargs=QUICK
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(14):
            row = optimiser.ask()
            optimiser.tell(row, row[0] + 2 * row[1])
    return sum("has been evaluated at" in str(warning.message) for warning in caught)


def raw_optimiser(cov, dimensions, **settings):
    estimator = pretrained_regressor(cov, dimensions, **settings)
    return Optimizer(
        dimensions, estimator, n_initial_points=4, acq_func="EIps", random_state=0, acq_optimizer_kwargs=QUICK
    )


@pytest.mark.parametrize("settings", [{}, {"inputs": "raw"}])
def test_raw_inputs_of_acquisitions_per_second(small_cov, objective, settings):
    # With another base than 10 the host's own bounds of its search are wrong.
    optimiser = raw_optimiser(small_cov, mixed_dimensions(base=10), **settings)
    assert isinstance(optimiser.base_estimator_, MultiOutputRegressor)
    rows = Space(mixed_dimensions()).rvs(6, random_state=1)
    optimiser.tell(rows, [(objective(row), 1.0 + row[1]) for row in rows])
    model = optimiser.models[-1].estimators_[0]
    assert model.kernel_.inputs == "raw"
    # The same data through the host's other route.
    dimensions = mixed_dimensions()
    other = Optimizer(
        dimensions, pretrained_regressor(small_cov, dimensions), n_initial_points=4, acq_optimizer_kwargs=QUICK
    )
    other.tell(rows, [objective(row) for row in rows])
    mean = model.predict(optimiser.space.transform(rows), return_std=True)
    expected = other.models[-1].predict(other.space.transform(rows), return_std=True)
    assert np.allclose(mean, expected, rtol=1e-6, atol=1e-8)
    assert optimiser.ask() in optimiser.space


def test_raw_inputs_that_a_first_fit_took_for_normalised_ones_are_noticed(small_cov):
    dimensions = [*mixed_dimensions()[:4], Real(1e-4, 1e-1, name="rate"), Real(0.0, 50.0, name="extra")]
    narrow = [dimensions[0], Categorical([1, 2, 3], name="layers"), *dimensions[3:]]
    estimator = pretrained_regressor(small_cov, narrow, fixed={"power": 900.0})
    space = Space(narrow)
    rows = [["Air", 1, "new", 1e-3, 0.2], ["Argon", 2, "used", 1e-2, 0.8]]
    model = estimator.fit(space.transform(rows), [0.0, 1.0])
    with pytest.raises(SpaceError, match=r"'extra'.*inputs='raw'"):
        model.predict(space.transform([["Air", 1, "new", 1e-3, 40.0]]))


def test_bayes_search_on_a_real_model():
    X, y = load_iris(return_X_y=True)
    spaces = {
        "svc__gamma": Real(1e-4, 1e1, prior="log-uniform"),
        "svc__C": Real(1e-2, 1e3, prior="log-uniform", base=2),
        "svc__kernel": Categorical(["rbf", "sigmoid"]),
        "svc__max_iter": Integer(50, 500),
    }
    own = {"svc__gamma": "gamma", "svc__C": "C", "svc__kernel": "kernel", "svc__max_iter": "max_iter"}
    space = parameter_space(spaces, own)
    assert space.names == ("C", "gamma", "kernel", "max_iter")
    model = make_pipeline(StandardScaler(), SVC())
    settings = space.from_raw(space.sobol(16))
    scores = [
        cross_val_score(
            model.set_params(**{f"svc__{name}": value for name, value in setting.items()}), X[::2], y[::2], cv=3
        ).mean()
        for setting in settings
    ]
    cov = pretrain((space.to_raw(settings), np.array(scores)), "accuracy", space, trainer="gp")
    search = BayesSearchCV(
        model,
        spaces,
        n_iter=6,
        cv=3,
        random_state=0,
        optimizer_kwargs={
            "base_estimator": pretrained_regressor(cov, spaces, names=own),
            "n_initial_points": 3,
            "acq_optimizer_kwargs": QUICK,
        },
    ).fit(X, y)
    fitted = search.optimizer_results_[0].models[-1]
    assert fitted.kernel_.columns.names == ("C", "gamma", "kernel", "max_iter")
    row = search.optimizer_results_[0].x_iters[0]
    record = dict(zip(space.names, row, strict=True))
    points = fitted.kernel_.points(search.optimizers_[0].space.transform([row]))
    assert np.allclose(points.frame, cov.to_coordinates([record]))
    assert search.best_score_ > 0.9


def test_sub_spaces_of_bayes_search_with_other_columns_are_refused(small_cov):
    """One model serves all of them: it is refused as soon as it sees the columns of another."""
    X, y = load_iris(return_X_y=True)
    spaces = [{"C": Real(1e-2, 1e3), "gamma": Real(1e-3, 1e1)}, {"C": Real(1e-2, 1e3)}]
    space = parameter_space(spaces[0])
    cov = pretrain((space.sobol(8), np.arange(8.0)), "score", space, trainer="gp", progress=False)
    with pytest.raises(SpaceError, match=r"2 sub-spaces of one BayesSearchCV.*one BayesSearchCV for each"):
        pretrained_regressor(cov, spaces)
    settings = {"base_estimator": pretrained_regressor(cov, [(spaces[0], 3)]), "n_initial_points": 2}
    search = BayesSearchCV(
        SVC(), spaces, n_iter=3, cv=2, optimizer_kwargs={**settings, "acq_optimizer_kwargs": QUICK}, random_state=0
    )
    with pytest.raises(SpaceError, match=r"expected 2 columns, those of the dimensions C, gamma, got 1"):
        search.fit(X, y)


def test_saving_and_loading(result, tmp_path):
    X = result.space.transform(result.x_iters)
    expected = result.models[-1].predict(X, return_std=True)
    skopt.dump(result, tmp_path / "result.gz")
    skopt.dump(result, tmp_path / "without.gz", store_objective=False)
    joblib.dump(result, tmp_path / "result.joblib")
    copies = [
        skopt.load(tmp_path / "result.gz"),
        skopt.load(tmp_path / "without.gz"),
        joblib.load(tmp_path / "result.joblib"),
        pickle.loads(pickle.dumps(result)),
    ]
    for copy in copies:
        assert np.array_equal(copy.models[-1].predict(X, return_std=True), expected)


def test_checkpoints_and_continuing(small_cov, tmp_path):
    path = tmp_path / "checkpoint.pkl"
    first = minimise(small_cov, Target(small_cov), callback=[CheckpointSaver(path)])
    stored = skopt.load(path)
    assert stored.x_iters == first.x_iters
    calls = []
    more = minimise(
        small_cov,
        lambda row: calls.append(row) or Target(small_cov)(row),
        x0=stored.x_iters,
        y0=stored.func_vals.tolist(),
        n_calls=2,
        n_initial_points=0,
    )
    assert len(calls) == 2
    assert more.x_iters[:6] == first.x_iters


def test_an_optimiser_goes_on_after_pickling(small_cov, objective):
    dimensions = mixed_dimensions()
    optimiser = Optimizer(
        dimensions, pretrained_regressor(small_cov, dimensions), n_initial_points=3, random_state=0,
        acq_optimizer_kwargs=QUICK,
    )  # fmt: skip
    optimiser.run(objective, 4)
    copy = pickle.loads(pickle.dumps(optimiser))
    assert copy.ask() == optimiser.ask()
    for one in (optimiser, copy):
        one.run(objective, 2)
    assert copy.Xi == optimiser.Xi


def test_plots_of_mixed_spaces(result):
    assert plot_convergence(result) is not None
    for plot in (plot_evaluations, lambda result: plot_objective(result, n_points=3, n_samples=5)):
        plt.figure()
        plot(result)
        assert len(plt.gcf().axes) >= 25
    plt.close("all")


def test_an_earlier_result_is_a_table(result, small_cov):
    space = parameter_space(mixed_dimensions())
    cov = pretrain(result, space=space, trainer="gp")
    assert cov.record.target == "objective"
    assert cov.record.rows == len(result.x_iters)
    rows = [dict(zip(space.names, row, strict=True)) for row in result.x_iters]
    expected = pretrain((space.to_raw(rows), result.func_vals), "objective", space, trainer="gp")
    assert cov.fingerprint == expected.fingerprint
    dimensions = mixed_dimensions()
    assert gp_minimize(
        Target(small_cov), dimensions, base_estimator=pretrained_regressor(cov, dimensions), n_calls=4,
        n_initial_points=3, **QUICK,
    ).models  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_the_best_of_three_levels_is_found(seed):
    """Between two levels the covariance can promise more than at any; the host would round to the first of the two."""
    base = {"Pd": -1.0, "Pt": 0.0, "Ni": 1.0}

    def loss(x):
        return float(((x[0] - 450) / 100) ** 2 + base[x[1]])

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"T": rng.uniform(300, 600, 30), "metal": rng.choice(list(base), 30)})
    table["y"] = [loss(row) for row in table.to_numpy()]
    space = ParameterSpace.from_dict({"T": (300, 600), "metal": list(base)})
    cov = pretrain(table, "y", space, trainer="gp", progress=False)
    dimensions = [Real(300.0, 600.0, name="T"), Categorical(["Pt", "Ni", "Pd"], name="metal")]
    regressor = pretrained_regressor(cov, dimensions)
    found = gp_minimize(loss, dimensions, regressor, n_calls=9, n_initial_points=3, random_state=seed, acq_func="EI")
    assert found.fun < -0.99
