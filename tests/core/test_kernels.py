"""Free kernels: Theorem 2, symmetry, the link between the exponential and the squared exponential."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from mkbo_plugins.core import Exponential, Linear, Polynomial, SquaredExponential, TaylorSeries
from mkbo_plugins.errors import KernelError
from tests.core.helpers import FAMILIES, dimensions, few, kernels, make_kernel, numeric_gradient, seeds, weights_of

CONVERGED_DEGREE = 30


def monomial_series(kernel, points):
    """Sum kappa_q multinomial(k) prod_j lambda_j^k_j prod_i x_ij^k_j over monomials, by the definition."""
    dimension = points.shape[1]
    weights = weights_of(kernel, dimension)
    terms = []
    for k in itertools.product(range(CONVERGED_DEGREE + 1), repeat=dimension):
        degree = sum(k)
        if degree > CONVERGED_DEGREE:
            continue
        multinomial = math.factorial(degree) // math.prod(math.factorial(n) for n in k)
        terms.append(kernel.coefficient(degree) * multinomial * np.prod((weights * points.prod(axis=0)) ** k))
    damping = np.exp(-kernel.damping_rate * (weights * points**2).sum())
    return math.fsum(terms) * damping


@few
@given(kernels, st.integers(1, 6), dimensions, st.booleans(), seeds)
def test_equals_its_monomial_series(family, m, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    points = rng.uniform(-1, 1, (m, dimension))
    np.testing.assert_allclose(kernel(*points), monomial_series(kernel, points), rtol=1e-12, atol=1e-13)


@few
@given(kernels, st.integers(2, 6), dimensions, st.booleans(), seeds)
def test_arguments_commute(family, m, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    points = rng.uniform(-1.5, 1.5, (m, dimension))
    np.testing.assert_allclose(kernel(*rng.permutation(points)), kernel(*points), rtol=1e-12, atol=1e-14)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_gram_holds_values_of_pairs(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    X, Y = rng.uniform(-1, 1, (4, dimension)), rng.uniform(-1, 1, (3, dimension))
    pairs = [[float(kernel(x, y)) for y in Y] for x in X]
    np.testing.assert_allclose(kernel.gram(X, Y), pairs, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(kernel.gram(X), kernel.gram(X, X), rtol=1e-13, atol=1e-14)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_gram_batches(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    X, Y = rng.uniform(-1, 1, (2, 4, dimension)), rng.uniform(-1, 1, (3, dimension))
    separate = np.stack([kernel.gram(x, Y) for x in X])
    np.testing.assert_allclose(kernel.gram(X, Y), separate, rtol=1e-13, atol=1e-14)


@few
@given(st.integers(1, 6), dimensions, st.booleans(), seeds)
def test_squared_exponential_is_the_normalised_exponential(m, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    weights = tuple(rng.uniform(0.3, 2.0, dimension)) if weighted else None
    exponential, squared = Exponential(sigma=0.6, weights=weights), SquaredExponential(sigma=0.6, weights=weights)
    points = rng.uniform(-1, 1, (m, dimension))
    norms = math.prod(math.sqrt(exponential(x, x)) for x in points)
    np.testing.assert_allclose(squared(*points), exponential(*points) / norms, rtol=1e-12)


@few
@given(st.floats(0.05, 5.0), dimensions, st.booleans(), seeds)
def test_squared_exponential_of_two_points_is_the_radial_basis_function(sigma, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.3, 2.0, dimension) if weighted else np.ones(dimension)
    kernel = SquaredExponential(sigma=sigma, weights=tuple(weights) if weighted else None)
    X, Y = rng.uniform(-1, 1, (6, dimension)), rng.uniform(-1, 1, (5, dimension))
    expected = rbf_kernel(X * np.sqrt(weights), Y * np.sqrt(weights), gamma=1 / (2 * sigma))
    np.testing.assert_allclose(kernel.gram(X, Y), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_derivatives_of_the_series(family):
    kernel = FAMILIES[family]()
    c = np.linspace(-2, 2, 9)
    for function, derivative in ((kernel.series, kernel.derivative), (kernel.derivative, kernel.second_derivative)):
        numeric = [numeric_gradient(lambda value, f=function: f(value).item(), np.array(value)).item() for value in c]
        np.testing.assert_allclose(derivative(c), numeric, rtol=1e-7, atol=1e-8)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_gradients_of_gram_matrices(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    X, Y, upstream = (
        rng.uniform(-1, 1, (2, 4, dimension)),
        rng.uniform(-1, 1, (2, 3, dimension)),
        rng.normal(size=(2, 4, 3)),
    )
    of_x, of_y = kernel.pull(X, Y, upstream)
    expected = numeric_gradient(lambda Z: float((upstream * kernel.gram(Z, Y)).sum()), X)
    np.testing.assert_allclose(of_x, expected, rtol=1e-6, atol=1e-7)
    expected = numeric_gradient(lambda Z: float((upstream * kernel.gram(X, Z)).sum()), Y)
    np.testing.assert_allclose(of_y, expected, rtol=1e-6, atol=1e-7)
    only, none = kernel.pull(X, Y, upstream, second=False)
    np.testing.assert_array_equal(only, of_x)
    assert none is None


@pytest.mark.parametrize("family", FAMILIES)
def test_series_sums_its_coefficients(family):
    kernel = FAMILIES[family]()
    c = np.linspace(-1, 1, 5)
    expected = sum(kernel.coefficient(q) * c**q for q in range(40))
    np.testing.assert_allclose(kernel.series(c), expected, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_log_coefficient_is_the_logarithm(family):
    kernel = FAMILIES[family]()
    for degree in range(8):
        assert math.exp(kernel.log_coefficient(degree)) == pytest.approx(kernel.coefficient(degree), rel=1e-12)


@pytest.mark.parametrize(
    ("kernel", "limit"),
    [
        (Linear(), 1),
        (Polynomial(degree=4), 4),
        (TaylorSeries(coefficients=(1, 2, 0)), 1),
        (Exponential(), math.inf),
        (SquaredExponential(), math.inf),
    ],
)
def test_degree_limit_is_the_last_degree_present(kernel, limit):
    assert kernel.degree_limit == limit
    if math.isfinite(limit):
        assert kernel.coefficient(limit) > 0
        assert all(kernel.coefficient(limit + more) == 0 for more in (1, 2, 50))


def test_log_coefficient_of_a_tiny_sigma_is_finite():
    assert math.isfinite(Exponential(sigma=1e-6).log_coefficient(300))


@pytest.mark.parametrize("family", FAMILIES)
def test_torch_gives_the_same_values(family):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    kernel = make_kernel(family, 2, rng, weighted=True)
    X, Y = rng.uniform(-1, 1, (5, 2)), rng.uniform(-1, 1, (4, 2))
    gram = kernel.gram(torch.from_numpy(X), torch.from_numpy(Y))
    np.testing.assert_allclose(gram.numpy(), kernel.gram(X, Y), rtol=1e-14, atol=1e-15)
    values = kernel(*(torch.from_numpy(X) for _ in range(3)))
    np.testing.assert_allclose(values.numpy(), kernel(X, X, X), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    "build",
    [
        lambda: SquaredExponential(sigma=0),
        lambda: Exponential(sigma=float("nan")),
        lambda: Linear(weights=(1.0, -1.0)),
        lambda: Polynomial(degree=0),
        lambda: Polynomial(degree=2.5),
        lambda: TaylorSeries(coefficients=(1, -1)),
        lambda: TaylorSeries(coefficients=(0, 0)),
        TaylorSeries,
    ],
)
def test_bad_settings_are_refused(build):
    with pytest.raises(KernelError):
        build()


@pytest.mark.parametrize(
    "call",
    [
        lambda kernel: kernel(),
        lambda kernel: kernel([1.0, 2.0, 3.0]),
        lambda kernel: kernel([1.0, 2.0], 3.0),
        lambda kernel: kernel([1.0, 2.0], [1.0]),
        lambda kernel: kernel(["a", "b"]),
        lambda kernel: kernel.gram([1.0, 2.0]),
        lambda kernel: kernel.gram([[1.0, 2.0]], [[1.0]]),
    ],
)
def test_bad_points_are_refused(call):
    with pytest.raises(KernelError):
        call(Linear(weights=(1.0, 2.0)))


def test_integers_and_lists_are_points():
    assert Linear()([1, 2], np.array([3, 4])) == 11.0


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), 1, np.int64(1)])
def test_settings_may_be_numpy_numbers(number):
    kernel = SquaredExponential(sigma=number, weights=np.array([number, number]))
    assert kernel == SquaredExponential(sigma=float(number), weights=(float(number), float(number)))
    assert isinstance(kernel.sigma, float)
    assert Polynomial(degree=np.int64(2)) == Polynomial(degree=2)


@pytest.mark.parametrize("setting", [{"sigma": True}, {"sigma": "1"}, {"sigma": np.nan}, {"weights": [True, 1.0]}])
def test_settings_that_are_no_numbers_are_refused(setting):
    with pytest.raises(KernelError, match="must be a finite number above 0"):
        SquaredExponential(**setting)


@pytest.mark.parametrize(("cls", "name"), [(Linear, "weights"), (TaylorSeries, "coefficients")])
@pytest.mark.parametrize("values", ["ab", 3, ["a"], [None]])
def test_sequences_that_hold_no_numbers_are_refused(cls, name, values):
    with pytest.raises(KernelError, match=name):
        cls(**{name: values})
