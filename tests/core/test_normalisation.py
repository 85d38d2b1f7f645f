"""Normalised kernels: diagonal, bounds, vanishing diagonals, far points and small length scales."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins.core import Exponential, Linear, Polynomial, SquaredExponential, TaylorSeries, normalise, reweight
from mkbo_plugins.errors import KernelError
from tests.core.helpers import (
    FAMILIES,
    dimensions,
    few,
    kernels,
    make_kernel,
    make_reweighted,
    make_table,
    seeds,
    smallest_eigenvalue,
)


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@few
@given(kernels, dimensions, st.booleans(), st.booleans(), seeds)
def test_equals_the_quotient(family, dimension, weighted, free, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    if not free:
        kernel = make_reweighted(family, dimension, rng, weighted=weighted)
    X, Y = rng.uniform(0.2, 1, (4, dimension)), rng.uniform(-1, -0.2, (3, dimension))
    norms = np.sqrt(np.multiply.outer(kernel(X, X), kernel(Y, Y)))
    np.testing.assert_allclose(normalise(kernel).gram(X, Y), kernel.gram(X, Y) / norms, rtol=0, atol=1e-9)


@few
@given(kernels, st.integers(1, 5), dimensions, seeds)
def test_many_arguments_are_divided_by_every_norm(family, m, dimension, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng)
    points = rng.uniform(0.3, 1, (m, dimension)) * rng.choice([-1, 1], (m, dimension))
    norms = math.prod(math.sqrt(kernel(x, x)) for x in points)
    np.testing.assert_allclose(normalise(kernel)(*points), kernel(*points) / norms, rtol=1e-8, atol=1e-8)


@few
@given(st.integers(1, 5), dimensions, seeds)
def test_squared_and_plain_exponential_normalise_to_the_same_kernel(m, dimension, seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (m, dimension))
    squared, plain = SquaredExponential(sigma=0.5), Exponential(sigma=0.5)
    np.testing.assert_allclose(normalise(squared)(*points), squared(*points), rtol=1e-12)
    np.testing.assert_allclose(normalise(plain)(*points), squared(*points), rtol=1e-12)


@few
@given(kernels, dimensions, st.booleans(), st.floats(-3, 1), seeds)
def test_is_a_correlation(family, dimension, weighted, log_width, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng, weighted=weighted)
    X = rng.uniform(-1, 1, (20, dimension)) * 10**log_width
    gram = normalise(kernel).gram(X)
    np.testing.assert_array_equal(np.diag(gram), 1.0)
    np.testing.assert_array_equal(gram, gram.T)
    assert np.abs(gram).max() <= 1
    assert smallest_eigenvalue(gram) > -1e-6
    moved = X + np.array([[0.0], [0.1]] * 10)
    np.testing.assert_array_equal(normalise(kernel)(X, moved)[::2], 1.0)


@pytest.mark.parametrize("sign", [-1, 1])
def test_rounding_leads_to_no_more_than_full_correlation(sign):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    values = sign * normalise(Linear())(X, sign * rng.uniform(0.1, 10, (200, 1)) * X)
    np.testing.assert_allclose(values, 1.0, rtol=1e-14)
    assert values.max() <= 1


@pytest.mark.parametrize("sigma", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("family", [Exponential, SquaredExponential])
def test_is_positive_semidefinite_in_the_whole_frame(family, sigma):
    rng = np.random.default_rng(0)
    corners = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=2)))
    X = np.vstack([corners, rng.uniform(-1, 1, (20, 2))])
    for _ in range(5):
        kernel = reweight(family(sigma=sigma), *make_table(2, rng))
        assert smallest_eigenvalue(normalise(kernel).gram(X)) > -1e-6


ORIGIN = np.zeros((1, 2))
AWAY = np.array([[0.3, -0.4], [0.5, 0.1]])


def vanishing():
    """Return kernels whose diagonal is zero at the origin and nowhere else nearby."""
    rng = np.random.default_rng(1)
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    balanced = np.array([1.0, -1.0, 2.5, -2.5])
    return {
        "linear": Linear(),
        "series": TaylorSeries(coefficients=(0.0, 1.0, 2.0)),
        "reweighted linear": reweight(Linear(), *make_table(2, rng)),
        "reweighted exponential": reweight(Exponential(sigma=0.7), *make_table(2, rng)),
        "reweighted polynomial": reweight(Polynomial(), *make_table(2, rng)),
        "chained": reweight(reweight(Exponential(), *make_table(2, rng)), *make_table(2, rng)),
        "squared exponential of a design": reweight(SquaredExponential(sigma=0.7), corners, balanced),
        "tiny sigma": reweight(SquaredExponential(sigma=1e-3), corners, balanced),
    }


@pytest.mark.parametrize("name", vanishing())
def test_where_the_diagonal_vanishes_only_equal_points_correlate(name):
    kernel = normalise(vanishing()[name])
    X = np.vstack([ORIGIN, AWAY, ORIGIN])
    gram = kernel.gram(X)
    np.testing.assert_array_equal(gram[0], [1, 0, 0, 1])
    np.testing.assert_array_equal(gram[:, 3], [1, 0, 0, 1])
    np.testing.assert_array_equal(kernel.gram(ORIGIN, X), [[1, 0, 0, 1]])
    np.testing.assert_array_equal(kernel.gram(X, -ORIGIN), [[1], [0], [0], [1]])
    np.testing.assert_array_equal(kernel(ORIGIN, X), [1, 0, 0, 1])
    assert smallest_eigenvalue(gram) > -1e-12


@pytest.mark.parametrize("name", vanishing())
@pytest.mark.parametrize("m", [1, 3, 4, 6])
def test_many_arguments_of_which_one_vanishes_give_zero(name, m):
    kernel = normalise(vanishing()[name])
    assert kernel(*[ORIGIN] * m) == 0
    assert kernel(ORIGIN, *[AWAY[:1]] * (m - 1)) == 0


def test_two_different_points_with_vanishing_diagonals_do_not_correlate():
    kernel = normalise(reweight(Linear(), [[1.0, 0.0], [3.0, 0.0]], [1.0, 1.0]))
    X = np.array([[0.0, 0.3], [0.0, 0.7], [0.5, 0.1]])
    np.testing.assert_array_equal(kernel.gram(X), np.eye(3))
    np.testing.assert_array_equal(kernel.gram(X, X[1:]), np.eye(3)[:, 1:])


@pytest.mark.parametrize("family", [*FAMILIES, "tiny exponential", "tiny squared exponential", "high degree"])
@pytest.mark.parametrize("reach", [1e-9, 1.0, 50.0])
def test_far_points_and_small_length_scales_stay_finite(family, reach):
    tiny = {
        "tiny exponential": Exponential(sigma=1e-3),
        "tiny squared exponential": SquaredExponential(sigma=1e-3),
        "high degree": Polynomial(degree=60),
    }
    base = tiny.get(family) or FAMILIES[family]()
    rng = np.random.default_rng(2)
    X = np.vstack([np.full((1, 2), reach), np.zeros((1, 2)), rng.uniform(-reach, reach, (6, 2))])
    for kernel in (base, reweight(base, *make_table(2, rng))):
        gram = normalise(kernel).gram(X)
        assert np.isfinite(gram).all()
        assert np.abs(gram).max() <= 1
        np.testing.assert_array_equal(np.diag(gram), 1.0)


def test_values_near_the_smallest_number_keep_their_angle():
    X = np.array([[1e-100, 0.0], [1e-100, 1e-100]])
    assert normalise(Linear()).gram(X)[0, 1] == pytest.approx(math.sqrt(0.5), rel=1e-12)


def test_far_points_have_the_limit_of_the_farthest_pair():
    """Far out, one pair of support vectors dominates, whose term alone can be written down."""
    sigma = 1e-3
    kernel = normalise(reweight(SquaredExponential(sigma=sigma), [[0.5], [1.0]], [0.3, -0.7]))
    x, y = 50.0, 50.001
    assert float(kernel([x], [y])) == pytest.approx(math.exp(-((x - y) ** 2) / (2 * sigma)), rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_torch_gives_the_same_values(family):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    kernel = normalise(make_reweighted(family, 2, rng))
    X = np.vstack([ORIGIN, rng.uniform(-1, 1, (4, 2))])
    tensor = torch.from_numpy(X)
    np.testing.assert_allclose(kernel.gram(tensor).numpy(), kernel.gram(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel.gram(tensor, tensor[:2]).numpy(), kernel.gram(X, X[:2]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel(tensor, tensor, tensor).numpy(), kernel(X, X, X), rtol=1e-11, atol=1e-12)


def test_only_free_and_reweighted_kernels_are_normalised():
    with pytest.raises(KernelError):
        normalise(normalise(Linear()))
