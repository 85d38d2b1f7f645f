"""Feature distance and the profiles on it."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import Matern

from mkbo_plugins.core import Exponential, Linear, SquaredExponential, TwoLayerKernel, reweight
from mkbo_plugins.core.reweighted.gram import gram
from mkbo_plugins.core.reweighted.reweighting import undamped
from mkbo_plugins.core.reweighted.two_layer import FeatureDistance, matern52_profile, squared_exponential_profile
from mkbo_plugins.errors import KernelError
from tests.core.helpers import FAMILIES, dimensions, few, kernels, make_reweighted, seeds, smallest_eigenvalue


def distance(kernel, X, Y=None, *, elementwise=False):
    return gram(FeatureDistance(), undamped(kernel, X.shape[-1]), X, Y, elementwise=elementwise).value


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_equals_the_definition(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng, weighted=weighted)
    X, Y = rng.uniform(-1, 1, (5, dimension)), rng.uniform(-1, 1, (5, dimension))
    of_x, of_y = kernel(X, X), kernel(Y, Y)
    tolerance = 1e-12 * max(of_x.max(), of_y.max())
    expected = np.add.outer(of_x, of_y) - 2 * kernel.gram(X, Y)
    np.testing.assert_allclose(distance(kernel, X, Y), expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(distance(kernel, X, Y, elementwise=True), np.diag(expected), rtol=0, atol=tolerance)
    within = np.add.outer(of_x, of_x) - 2 * kernel.gram(X)
    np.testing.assert_allclose(distance(kernel, X), within, rtol=0, atol=tolerance)


@few
@given(kernels, dimensions, seeds)
def test_is_zero_for_equal_points_and_never_negative(family, dimension, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng)
    X = rng.uniform(-1, 1, (6, dimension))
    Y = X * (1 + rng.choice([0, 1e-16, 1e-9], X.shape))
    squared = distance(kernel, X)
    np.testing.assert_array_equal(np.diag(squared), 0)
    np.testing.assert_array_equal(squared, squared.T)
    assert (distance(kernel, X, Y) >= 0).all()
    np.testing.assert_array_equal(distance(kernel, X, elementwise=True), 0)
    moved = X + np.array([[0.0], [0.1]] * 3)
    np.testing.assert_array_equal(distance(kernel, X, moved, elementwise=True)[::2], 0)


def test_of_the_linear_kernel_is_the_plain_distance():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    expected = ((X[:, None] - Y) ** 2).sum(axis=-1)
    np.testing.assert_allclose(distance(Linear(), X, Y), expected, rtol=1e-12)


@few
@given(kernels, dimensions, st.sampled_from(["se", "matern52"]), st.floats(0.01, 100), seeds)
def test_two_layer_kernels_are_correlations(family, dimension, profile, scale, seed):
    rng = np.random.default_rng(seed)
    kernel = TwoLayerKernel(make_reweighted(family, dimension, rng), scale=scale, profile=profile)
    X = rng.uniform(-1, 1, (15, dimension))
    gram = kernel.gram(X)
    np.testing.assert_allclose(np.diag(gram), 1, rtol=0, atol=1e-14)
    assert gram.min() >= 0
    assert gram.max() <= 1 + 1e-14
    assert smallest_eigenvalue(gram) > -1e-8
    np.testing.assert_allclose(kernel(X[:, None, :], X), kernel.gram(X, X), rtol=1e-10, atol=1e-12)


@few
@given(kernels, st.floats(0.1, 10), seeds)
def test_profiles_of_the_distance(family, scale, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, 2, rng)
    X, Y = rng.uniform(-1, 1, (4, 2)), rng.uniform(-1, 1, (3, 2))
    squared = distance(kernel, X, Y)
    se, matern = (TwoLayerKernel(kernel, scale=scale, profile=name).gram(X, Y) for name in ("se", "matern52"))
    np.testing.assert_allclose(se, np.exp(-squared / (2 * scale)), rtol=1e-12)
    r = np.sqrt(5 * squared / scale)
    np.testing.assert_allclose(matern, (1 + r + r**2 / 3) * np.exp(-r), rtol=1e-12)


def test_matern_profile_is_that_of_scikit_learn():
    X = np.random.default_rng(1).normal(size=(8, 3))
    squared = ((X[:, None] - X) ** 2).sum(axis=-1)
    np.testing.assert_allclose(matern52_profile(squared, 1.7**2), Matern(1.7, nu=2.5)(X), rtol=1e-12)


def test_se_profile_at_an_infinite_scale_is_one():
    np.testing.assert_array_equal(squared_exponential_profile(np.array([0.0, 3.0, 1e9]), np.inf), 1.0)


@pytest.mark.parametrize("profile", [matern52_profile, squared_exponential_profile])
def test_gradient_of_a_profile_is_finite_at_zero(profile):
    torch = pytest.importorskip("torch")
    squared = torch.tensor([0.0, 1e-40, 1e-8, 0.3], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    profile(squared, scale).sum().backward()
    assert torch.isfinite(squared.grad).all()
    assert torch.isfinite(scale.grad)
    step = 1e-6
    numeric = (profile(np.array(0.3 + step), 2.0) - profile(np.array(0.3 - step), 2.0)) / (2 * step)
    assert squared.grad[3].item() == pytest.approx(float(numeric), rel=1e-6)


def test_matern_profile_never_rises_with_distance():
    torch = pytest.importorskip("torch")
    squared = torch.tensor([0.0, 1e-30, 1e-12, 1e-8, 1e-2, 1.0], dtype=torch.float64, requires_grad=True)
    matern52_profile(squared, 1.0).sum().backward()
    assert (squared.grad <= 0).all()


@pytest.mark.parametrize("family", [Exponential, SquaredExponential])
def test_far_points_have_no_undefined_distance(family):
    kernel = reweight(family(sigma=1e-3), [[0.5, 0.2], [-1.0, 0.7]], [1.0, -0.4])
    X = np.array([[50.0, 50.0], [50.0, -50.0], [0.0, 0.0], [0.1, 0.1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "overflow", RuntimeWarning)
        squared = distance(kernel, X)
        gram = TwoLayerKernel(kernel, scale=1.0).gram(X)
    assert not np.isnan(squared).any()
    np.testing.assert_array_equal(np.diag(gram), 1)
    assert np.isfinite(gram).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_torch_gives_the_same_values(family):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    X, Y = rng.uniform(-1, 1, (4, 2)), rng.uniform(-1, 1, (3, 2))
    for profile in ("se", "matern52"):
        kernel = TwoLayerKernel(make_reweighted(family, 2, rng), scale=1.0, profile=profile)
        for ours, theirs in (
            (kernel.gram(X), kernel.gram(torch.from_numpy(X))),
            (kernel.gram(X, Y), kernel.gram(torch.from_numpy(X), torch.from_numpy(Y))),
        ):
            np.testing.assert_allclose(theirs.numpy(), ours, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0.0},
        {"scale": float("inf")},
        {"scale": "1"},
        {"scale": 1.0, "profile": "rbf"},
        {"scale": 1.0, "kernel": "linear"},
    ],
)
def test_bad_settings_are_refused(options):
    with pytest.raises(KernelError):
        TwoLayerKernel(**{"kernel": Linear(), **options})


def test_a_far_point_leaves_other_entries_as_they_are():
    kernel = reweight(Exponential(1.0), np.array([[0.5], [-0.8]]), np.array([1.0, -0.6]))
    near, all_three = np.array([[0.1], [0.8]]), np.array([[0.1], [0.8], [40.0]])
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(distance(kernel, all_three)[:2, :2], distance(kernel, near), rtol=1e-9)
    assert distance(kernel, near)[0, 1] > 0
