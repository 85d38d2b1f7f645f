"""The kernel mixture: its values, gradients and fit by leave-one-out error."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.gaussian_process.kernels import RBF, Matern

from mkbo_plugins.core import KernelMixture, fit_kernel_mixture
from mkbo_plugins.core.mixture.kernel_mixture import leave_one_out_loss
from mkbo_plugins.errors import FitError, KernelError
from tests.core.helpers import numeric_gradient, smallest_eigenvalue

MIXTURE = KernelMixture(variances=(0.5, 0.3, 0.9), scales=(0.7, 1.3, 0.4))


def make_points(n=12, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3))


def make_table(n=25):
    X = make_points(n, seed=3)
    return X, np.sin(3 * X[:, 0]) + np.abs(X[:, 1]) + 0.05 * np.random.default_rng(1).normal(size=n)


def test_is_the_sum_of_the_kernels_of_scikit_learn():
    X, Y = make_points(), make_points(5, seed=1)
    expected = 0.5 * RBF(0.7)(X, Y) + 0.3 * Matern(1.3, nu=0.5)(X, Y) + 0.9 * Matern(0.4, nu=1.5)(X, Y)
    np.testing.assert_allclose(MIXTURE.gram(X, Y), expected, rtol=1e-12)
    np.testing.assert_allclose(MIXTURE(X[:, None], Y), expected, rtol=1e-12)
    np.testing.assert_allclose(np.diag(MIXTURE.gram(X)), 1.7, rtol=1e-15)
    assert smallest_eigenvalue(MIXTURE.gram(X)) > 0


def test_pulled_gradients_are_those_of_differences():
    X, Y = make_points(4), make_points(3, seed=1)
    upstream = np.random.default_rng(2).normal(size=(4, 3))
    of_x, of_y = MIXTURE.pull(X, Y, upstream)
    np.testing.assert_allclose(of_x, numeric_gradient(lambda x: np.sum(upstream * MIXTURE.gram(x, Y)), X), atol=1e-8)
    np.testing.assert_allclose(of_y, numeric_gradient(lambda y: np.sum(upstream * MIXTURE.gram(X, y)), Y), atol=1e-8)


def test_equal_points_have_a_finite_gradient_in_both_worlds():
    torch = pytest.importorskip("torch")
    X = make_points(4)
    upstream = np.random.default_rng(2).normal(size=(4, 4))
    of_x, of_y = MIXTURE.pull(X, X, upstream)
    tensor = torch.tensor(X, requires_grad=True)
    (MIXTURE.gram(tensor) * torch.from_numpy(upstream)).sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), of_x + of_y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_loss(seed):
    X, y = make_table()
    squared = ((X[:, None] - X) ** 2).sum(axis=-1)
    parameters = np.random.default_rng(seed).normal(size=6) * 0.5
    value, gradient = leave_one_out_loss(parameters, squared, y)
    error = check_grad(
        lambda p: leave_one_out_loss(p, squared, y)[0], lambda p: leave_one_out_loss(p, squared, y)[1], parameters
    )
    assert error <= 1e-5 * np.linalg.norm(gradient)
    assert value > 0


def test_error_is_that_of_holding_each_row_out():
    X, y = make_table()
    fit = fit_kernel_mixture(X, y)
    squares = []
    for i in range(len(y)):
        kept = np.arange(len(y)) != i
        inverse = np.linalg.inv(fit.mixture.gram(X[kept]) + fit.mixture.noise * np.eye(kept.sum()))
        mean = inverse.sum(axis=0) @ y[kept] / inverse.sum()
        squares.append((mean + fit.mixture.gram(X[[i]], X[kept])[0] @ inverse @ (y[kept] - mean) - y[i]) ** 2)
    assert fit.loo_mse == pytest.approx(np.mean(squares), rel=1e-6)
    assert sum(fit.mixture.variances) == pytest.approx(1)
    assert fit.loo_mse < 0.2 * np.var(y)


def test_fit_follows_units_of_the_target():
    X, y = make_table()
    fit, scaled = fit_kernel_mixture(X, y), fit_kernel_mixture(X, 1000 * y + 7)
    assert scaled.loo_mse == pytest.approx(1e6 * fit.loo_mse, rel=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"variances": (1.0, 1.0)},
        {"variances": (0.0, 0.0, 0.0)},
        {"variances": (1.0, -1.0, 0.0)},
        {"scales": (1.0, 0.0, 1.0)},
        {"scales": 1.0},
        {"noise": 0.0},
    ],
)
def test_bad_settings_are_refused(options):
    with pytest.raises(KernelError):
        KernelMixture(**{"variances": (1.0, 1.0, 1.0), "scales": (1.0, 1.0, 1.0), **options})


def test_unusable_tables_are_refused():
    X, y = make_table()
    for bad in ((X[:2], y[:2]), (X, y[:-1]), (X, np.full_like(y, 2.0)), (X, np.where(y > 1, np.nan, y))):
        with pytest.raises(FitError):
            fit_kernel_mixture(*bad)
