"""Re-weighted kernels: Theorem 3, chaining, scaling and equality."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins.core import (
    Linear,
    ReweightedKernel,
    SquaredExponential,
    TwoLayerKernel,
    WeightedPoints,
    normalise,
    reweight,
)
from mkbo_plugins.core.evaluation.features import monomial_exponents, monomial_weights, monomials
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
    weights_of,
)

CONVERGED_DEGREE = 24


def scale_of(kernel, m):
    """Return a size that values at m points of the frame may reach, for tolerances."""
    ones = np.ones(kernel.dimension)
    return sum(np.prod([np.abs(t.alpha).sum() for t in kernel.tables]) ** 2 * kernel.base(ones, ones) for _ in range(m))


@few
@given(kernels, st.integers(1, 4), st.integers(1, 2), st.booleans(), seeds)
def test_equals_the_definition(family, m, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    base = make_kernel(family, dimension, rng, weighted=weighted)
    X, alpha = make_table(dimension, rng)
    points = rng.uniform(-1, 1, (m, dimension))
    kernel = reweight(base, X, alpha)
    pairs = itertools.product(zip(X, alpha, strict=True), repeat=2)
    expected = sum(a * b * base(x, y, *points) for (x, a), (y, b) in pairs)
    np.testing.assert_allclose(kernel(*points), expected, rtol=0, atol=1e-13 * scale_of(kernel, m))


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_weights_enter_products_and_norms(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    base = make_kernel(family, dimension, rng, weighted=weighted)
    X, alpha = make_table(dimension, rng)
    x, y = rng.uniform(-1, 1, (2, dimension))
    weights = weights_of(base, dimension)
    damping = np.exp(-base.damping_rate * (X**2 @ weights))
    total = sum(
        a * b * base.series(np.asarray((weights * u * v * x * y).sum()))
        for (u, a), (v, b) in itertools.product(zip(X, alpha * damping, strict=True), repeat=2)
    )
    total *= np.exp(-base.damping_rate * ((x**2 + y**2) @ weights))
    kernel = reweight(base, X, alpha)
    np.testing.assert_allclose(kernel(x, y), total, rtol=0, atol=1e-13 * scale_of(kernel, 1))


@few
@given(kernels, st.integers(1, 5), st.integers(1, 2), st.booleans(), st.integers(1, 2), seeds)
def test_pair_sum_is_the_sum_over_features(family, m, dimension, weighted, tables, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    for _ in range(tables):
        kernel = reweight(kernel, *make_table(dimension, rng, rows=4))
    points = rng.uniform(-0.9, 0.9, (m, dimension))
    exponents = monomial_exponents(dimension, CONVERGED_DEGREE)
    damping = np.exp(kernel.base.log_damping(points).sum())
    squared = monomial_weights(kernel.base, kernel.tables, exponents).value ** 2
    expected = (squared * monomials(points, exponents).prod(axis=1)).sum() * damping
    np.testing.assert_allclose(kernel(*points), expected, rtol=0, atol=1e-12 * scale_of(kernel, m))


@few
@given(kernels, st.integers(2, 5), dimensions, seeds)
def test_arguments_commute(family, m, dimension, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng)
    points = rng.uniform(-1, 1, (m, dimension))
    np.testing.assert_allclose(
        kernel(*rng.permutation(points)), kernel(*points), rtol=0, atol=1e-14 * scale_of(kernel, m)
    )


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_gram_holds_values_of_pairs(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng, weighted=weighted)
    X, Y = rng.uniform(-1, 1, (4, dimension)), rng.uniform(-1, 1, (3, dimension))
    tolerance = 1e-14 * scale_of(kernel, 2)
    pairs = [[float(kernel(x, y)) for y in Y] for x in X]
    np.testing.assert_allclose(kernel.gram(X, Y), pairs, rtol=0, atol=tolerance)
    np.testing.assert_allclose(kernel.gram(X), kernel.gram(X, X), rtol=0, atol=tolerance)
    np.testing.assert_array_equal(kernel.gram(X), kernel.gram(X).T)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_gram_is_positive_semidefinite(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng, weighted=weighted)
    assert smallest_eigenvalue(kernel.gram(rng.uniform(-1, 1, (25, dimension)))) > -1e-12


def composed(first, second, damping):
    """Return the one table that stands for two: products of points, damping each point by its own norm."""
    (X, alpha), (Z, beta) = first, second
    points = (X[:, None, :] * Z).reshape(-1, X.shape[1])
    coefficients = np.multiply.outer(alpha * damping(X), beta * damping(Z)).ravel() / damping(points)
    return points, coefficients


@few
@given(kernels, st.integers(1, 4), st.integers(1, 2), st.booleans(), seeds)
def test_two_reweightings_are_one_by_products_of_points(family, m, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    base = make_kernel(family, dimension, rng, weighted=weighted)
    first, second = make_table(dimension, rng, rows=4), make_table(dimension, rng, rows=3)
    weights = weights_of(base, dimension)
    chained = reweight(reweight(base, *first), *second)
    one = reweight(base, *composed(first, second, lambda X: np.exp(-base.damping_rate * (X**2 @ weights))))
    swapped = reweight(reweight(base, *second), *first)
    points = rng.uniform(-1, 1, (m, dimension))
    tolerance = 1e-13 * scale_of(chained, m)
    np.testing.assert_allclose(chained(*points), one(*points), rtol=0, atol=tolerance)
    np.testing.assert_allclose(chained(*points), swapped(*points), rtol=0, atol=tolerance)


@few
@given(kernels, st.integers(1, 3), dimensions, seeds)
def test_a_second_reweighting_sums_the_first_over_pairs(family, m, dimension, seed):
    rng = np.random.default_rng(seed)
    inner = make_reweighted(family, dimension, rng, rows=4)
    Z, beta = make_table(dimension, rng, rows=3)
    points = rng.uniform(-1, 1, (m, dimension))
    pairs = itertools.product(zip(Z, beta, strict=True), repeat=2)
    expected = sum(a * b * inner(x, y, *points) for (x, a), (y, b) in pairs)
    outer = reweight(inner, Z, beta)
    np.testing.assert_allclose(outer(*points), expected, rtol=0, atol=1e-13 * scale_of(outer, m))


@few
@given(kernels, dimensions, st.floats(-50, 50).filter(lambda c: abs(c) > 1e-3), seeds)
def test_scaled_coefficients_scale_the_kernel_by_the_square(family, dimension, c, seed):
    rng = np.random.default_rng(seed)
    base = make_kernel(family, dimension, rng, weighted=True)
    support, alpha = make_table(dimension, rng)
    X = rng.uniform(-1, 1, (4, dimension))
    kernel, scaled = reweight(base, support, alpha), reweight(base, support, c * alpha)
    np.testing.assert_allclose(scaled.gram(X), c**2 * kernel.gram(X), rtol=0, atol=1e-13 * scale_of(scaled, 1))


@few
@given(kernels, dimensions, seeds)
def test_order_zeros_and_repeats_in_the_table_do_not_matter(family, dimension, seed):
    rng = np.random.default_rng(seed)
    base = make_kernel(family, dimension, rng, weighted=False)
    support, alpha = make_table(dimension, rng)
    X = rng.uniform(-1, 1, (4, dimension))
    kernel = reweight(base, support, alpha)
    order = rng.permutation(len(alpha))
    split = np.concatenate([0.3 * alpha, 0.7 * alpha])
    tolerance = 1e-13 * scale_of(kernel, 1)
    for points, coefficients in (
        (support[order], alpha[order]),
        (np.vstack([support, np.ones(dimension)]), np.append(alpha, 0.0)),
        (np.vstack([support, support]), split),
    ):
        np.testing.assert_allclose(reweight(base, points, coefficients).gram(X), kernel.gram(X), rtol=0, atol=tolerance)


def test_large_coefficients_are_read_on_a_log_scale():
    kernel = reweight(SquaredExponential(), [[0.5], [-0.5]], [1e200, -1e200])
    assert float(normalise(kernel)([0.2], [0.3])) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("family", FAMILIES)
def test_torch_gives_the_same_values(family):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    kernel = make_reweighted(family, 2, rng, weighted=True)
    X, Y = rng.uniform(-1, 1, (4, 2)), rng.uniform(-1, 1, (3, 2))
    left, right = torch.from_numpy(X), torch.from_numpy(Y)
    tolerance = 1e-14 * scale_of(kernel, 1)
    np.testing.assert_allclose(kernel.gram(left, right).numpy(), kernel.gram(X, Y), rtol=0, atol=tolerance)
    np.testing.assert_allclose(kernel.gram(left).numpy(), kernel.gram(X), rtol=0, atol=tolerance)
    np.testing.assert_allclose(kernel(left, left, left).numpy(), kernel(X, X, X), rtol=0, atol=tolerance)


def test_results_keep_the_precision_of_the_points():
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(1))
    X = np.random.default_rng(2).uniform(-1, 1, (4, 2))
    for built in (kernel, normalise(kernel), TwoLayerKernel(kernel, scale=1.0)):
        gram = built.gram(X.astype(np.float32))
        assert gram.dtype == np.float32
        np.testing.assert_allclose(gram, built.gram(X), rtol=1e-4, atol=1e-5)


def test_tables_are_compared_by_value():
    table = WeightedPoints([[0.0, 1.0]], [2.0])
    same, other = WeightedPoints([[-0.0, 1.0]], [2.0]), WeightedPoints([[0.0, 1.0]], [3.0])
    assert table == same
    assert hash(table) == hash(same)
    assert table != other
    assert table != "table"
    assert ReweightedKernel(Linear(), (table,)) == ReweightedKernel(Linear(), (same,))


def test_tables_keep_their_own_copy():
    points, alpha = np.ones((2, 1)), np.ones(2)
    table = WeightedPoints(points, alpha)
    points[:], alpha[:] = 7, 7
    assert table == WeightedPoints([[1.0], [1.0]], [1.0, 1.0])
    with pytest.raises(ValueError, match="read-only"):
        table.alpha[0] = 3


@pytest.mark.parametrize(
    ("kernel", "support", "alpha"),
    [
        (Linear(), [[1.0, 2.0]], [1.0, 2.0]),
        (Linear(), [1.0, 2.0], [1.0, 2.0]),
        (Linear(), [[np.nan]], [1.0]),
        (Linear(), [[1.0]], [np.inf]),
        (Linear(), [[1.0], [2.0]], [0.0, 0.0]),
        (Linear(), np.empty((0, 2)), []),
        (Linear(weights=(1.0, 2.0)), [[1.0]], [1.0]),
        (normalise(Linear()), [[0.0], [0.0]], [1.0, -2.0]),
        (TwoLayerKernel(Linear(), scale=1.0), [[1.0]], [1.0]),
        (reweight(Linear(), [[1.0, 1.0]], [1.0]), [[1.0]], [1.0]),
    ],
)
def test_bad_tables_and_kernels_are_refused(kernel, support, alpha):
    with pytest.raises(KernelError):
        reweight(kernel, support, alpha)


@pytest.mark.parametrize(
    ("support", "alpha"),
    [
        ("ab", [1.0, 1.0]),
        ([[1.0], [2.0, 3.0]], [1.0, 1.0]),
        ([[1.0], [2.0]], "ab"),
        ([[1.0], [2.0]], [[1.0], [1.0, 2.0]]),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(support, alpha):
    with pytest.raises(KernelError, match="must hold numbers"):
        reweight(Linear(), support, alpha)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mean_diagonal_is_that_of_the_values(family, monkeypatch):
    rng = np.random.default_rng(0)
    kernel = reweight(make_kernel(family, 3, rng, weighted=True), *make_table(3, rng))
    points = rng.uniform(-1, 1, (9, 3))
    expected = np.mean(kernel(points, points))
    assert kernel.mean_diagonal(points) == pytest.approx(expected, rel=1e-9)
    monkeypatch.setattr("mkbo_plugins.core.reweighted.reweighting.FEW_TERMS", 0)
    assert kernel.mean_diagonal(points) == expected
