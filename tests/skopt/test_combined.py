"""Covariances of several tables in scikit-optimize: the brute-force sum, hyperparameters, and a search."""

import numpy as np
import pytest
from sklearn.base import clone
from skopt import gp_minimize
from skopt.space import Real

from mkbo_plugins.skopt import pretrained_regressor
from tests.several_tables import assert_close, brute_force_sum, combined
from tests.skopt.conftest import normalised

FORMS = ("transfer_link", "similarity_link", "moment", "two_layer", "product", "normalised", "reweighted")
DIMENSIONS = [
    Real(-4.0, 5.0, name="r"),
    Real(1.0, 10.0, name="p"),
    Real(1e-3, 0.5, prior="log-uniform", name="q"),
]


def columns(found):
    return normalised(DIMENSIONS).transform([[point[d.name] for d in DIMENSIONS] for point in found])


def inside(n):
    """Return points within the dimensions."""
    space = normalised(DIMENSIONS)
    return [dict(zip("rpq", row, strict=True)) for row in space.rvs(n, random_state=0)]


def test_the_gram_matrix_is_the_brute_force_sum_in_raw_units():
    kernel = pretrained_regressor(combined(), DIMENSIONS, "reweighted").kernel
    kernel = clone(kernel).set_params(output_scale=(1.7, 0.4))
    X = inside(5)
    expected = brute_force_sum([1.7, 0.4], X, X)
    assert_close(kernel(columns(X)), expected, np.diag(expected))
    assert_close(kernel(columns(X[:2]), columns(X)), expected[:2], np.diag(expected))
    assert_close(np.diag(kernel.diag(columns(X))), np.diag(np.diag(expected)), np.diag(expected))


@pytest.mark.parametrize("form", FORMS)
def test_hyperparameters_are_set_one_by_one(form):
    kernel = pretrained_regressor(combined(), DIMENSIONS, form).kernel
    theta = np.random.default_rng(0).normal(0, 0.4, len(kernel.theta))
    other = kernel.clone_with_theta(theta)
    np.testing.assert_allclose(other.theta, theta, rtol=1e-12)
    assert [h.name for h in other.hyperparameters][: len(other.model.form.hyperparameters)] == list(
        other.model.form.hyperparameters
    )
    assert clone(other) == other != kernel
    for name, value in zip(other.model.form.hyperparameters, theta, strict=False):
        assert f"{name}={np.exp(value):.3g}" in repr(other)


@pytest.mark.parametrize("form", FORMS)
def test_gradients(form):
    kernel = pretrained_regressor(combined(), DIMENSIONS, form).kernel
    X, step = columns(inside(4)), 1e-6
    _, gradient = kernel(X, eval_gradient=True)
    for i in range(len(kernel.theta)):
        moved = [kernel.clone_with_theta(kernel.theta + s * step * np.eye(len(kernel.theta))[i])(X) for s in (1, -1)]
        np.testing.assert_allclose(gradient[:, :, i], (moved[0] - moved[1]) / (2 * step), rtol=1e-5, atol=1e-7)
    found = kernel.gradient_x(X[0], X[1:])
    for j in range(X.shape[1]):
        moved = [kernel(X[:1] + s * step * np.eye(X.shape[1])[j], X[1:])[0] for s in (1, -1)]
        np.testing.assert_allclose(found[:, j], (moved[0] - moved[1]) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_predicts(form):
    X = inside(8)
    y = combined().members[0].predict([{name: point[name] for name in ("p", "q")} for point in X])
    regressor = pretrained_regressor(combined(), DIMENSIONS, form).fit(columns(X), y)
    mean, std = regressor.predict(columns(inside(3)), return_std=True)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()


def test_a_search():
    regressor = pretrained_regressor(combined(), DIMENSIONS)
    result = gp_minimize(
        lambda row: -float(combined().members[1].predict([{"q": row[2], "r": row[0]}])[0]),
        DIMENSIONS,
        base_estimator=regressor,
        n_calls=3,
        n_initial_points=2,
        random_state=0,
    )
    assert len(result.func_vals) == 3
    assert "moment_scale_2=" in repr(result.models[-1].kernel_)
