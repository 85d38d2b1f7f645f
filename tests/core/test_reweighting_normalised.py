"""Re-weighted normalised kernels against features in 50 digits, their chains and gradients."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mkbo_plugins.core import (
    Exponential,
    Linear,
    Polynomial,
    SquaredExponential,
    TaylorSeries,
    TwoLayerKernel,
    normalise,
    reweight,
)
from mkbo_plugins.core.evaluation.features import monomial_exponents
from mkbo_plugins.core.reweighted.formulas import FeatureDistance, Reweighted
from mkbo_plugins.core.reweighted.gram import gram
from mkbo_plugins.core.theory.kernel_features import kernel_features
from tests.core.helpers import make_kernel, numeric_gradient, seeds, smallest_eigenvalue, weights_of

mp = mpmath.mp.clone()
mp.dps = 50
FINITE = ("linear", "polynomial", "taylor")
families = st.sampled_from([*FINITE, "exponential", "squared_exponential"])
few = settings(derandomize=True, deadline=None, max_examples=6)
DEGREE = 50
"""Degree at which series without end are complete to more digits than are compared."""


def make_table(dimension, rng, rows=5):
    """Return points and coefficients whose sum is not zero, as it is all that counts of points (d = 1) of one sign."""
    return rng.uniform(-1, 1, (rows, dimension)), rng.normal(size=rows)


class Brute:
    """Features theta_k(x) and weights of a kernel, in 50 digits, to which any operation of the paper is applied."""

    def __init__(self, base, dimension):
        degree = int(base.degree_limit) if np.isfinite(base.degree_limit) else DEGREE
        self.exponents = [tuple(map(int, k)) for k in monomial_exponents(dimension, degree)]
        weights = [mp.mpf(float(weight)) for weight in weights_of(base, dimension)]
        self.squared = [
            self.coefficient(base, sum(k))
            * mp.fprod(weight**power for weight, power in zip(weights, k, strict=True))
            * mp.factorial(sum(k))
            / mp.fprod(mp.factorial(power) for power in k)
            for k in self.exponents
        ]
        self.scale = lambda x: mp.mpf(1)
        if base.damping_rate:
            self.scale = lambda x: mp.exp(
                -mp.fsum(weight * mp.mpf(float(v)) ** 2 for weight, v in zip(weights, x, strict=True))
                / (2 * mp.mpf(base.sigma))
            )

    @staticmethod
    def coefficient(base, degree):
        if base.exponent_rate is None:
            return mp.mpf(float(base.coefficient(degree)))
        return 1 / (mp.mpf(base.sigma) ** degree * mp.factorial(degree))

    def features(self, x):
        scale = self.scale(x)
        return [
            scale * mp.fprod(mp.mpf(float(v)) ** power for v, power in zip(x, k, strict=True)) for k in self.exponents
        ]

    def __call__(self, *points):
        return mp.fdot(self.squared, map(mp.fprod, zip(*(self.features(x) for x in points), strict=True)))

    def normalised(self):
        """Divide features by the root of K_2 (Definition 3)."""
        squared, features, before = list(self.squared), self.features, self.scale

        def scale(x):
            norm = mp.sqrt(mp.fdot(squared, [theta**2 for theta in features_of(before, x)]))
            return before(x) / norm if norm else mp.mpf(0)

        def features_of(scale, x):
            self_scale, self.scale = self.scale, scale
            found = features(x)
            self.scale = self_scale
            return found

        self.scale = scale
        return self

    def reweighted(self, Z, alpha):
        """Multiply tau_k by sum_i alpha_i theta_k(z_i) (Theorem 3)."""
        sums = [mp.fdot(map(float, alpha), column) for column in zip(*(self.features(z) for z in Z), strict=True)]
        self.squared = [tau * w**2 for tau, w in zip(self.squared, sums, strict=True)]
        return self


def check(kernel, brute, points):
    """Compare values at one to four points, relative to the diagonals where there are two."""
    sizes = [abs(brute(x, x)) for x in points]
    for m in range(1, len(points) + 1):
        expected = brute(*points[:m])
        size = mp.sqrt(sizes[0] * sizes[1]) if m == 2 else max(abs(expected), mp.mpf(1e-3) * max(sizes))
        assert abs(mp.mpf(float(kernel(*points[:m]))) - expected) <= mp.mpf(1e-9) * size


@few
@given(families, st.integers(1, 2), st.booleans(), seeds)
def test_equals_the_sum_over_normalised_features(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    dimension = dimension if family in FINITE else 1
    base = make_kernel(family, dimension, rng, weighted=weighted)
    first, second = make_table(dimension, rng, rows=4), make_table(dimension, rng, rows=3)
    points = rng.uniform(-1, 1, (4, dimension))
    brute = Brute(base, dimension).normalised().reweighted(*first)
    once = reweight(normalise(base), *first)
    check(once, brute, points)
    check(reweight(once, *second), brute.reweighted(*second), points)


@few
@given(families, st.booleans(), seeds)
def test_a_reweighted_kernel_normalised_is_reweighted_again(family, weighted, seed):
    rng = np.random.default_rng(seed)
    base, tables = make_kernel(family, 1, rng, weighted=weighted), [make_table(1, rng, rows=3) for _ in range(4)]
    points = rng.uniform(0.2, 1, (3, 1))
    brute = Brute(base, 1).reweighted(*tables[0]).normalised().reweighted(*tables[1])
    kernel = reweight(normalise(reweight(base, *tables[0])), *tables[1])
    check(kernel, brute, points)
    brute = brute.normalised().reweighted(*tables[2]).reweighted(*tables[3])
    check(reweight(reweight(normalise(kernel), *tables[2]), *tables[3]), brute, points)


@pytest.mark.parametrize("kernel", [Exponential(sigma=0.7, weights=(1.0, 2.0)), SquaredExponential(sigma=0.7)])
def test_the_normalised_exponential_kernel_is_the_squared_exponential(kernel):
    table = make_table(2, np.random.default_rng(0))
    expected = reweight(SquaredExponential(sigma=kernel.sigma, weights=kernel.weights), *table)
    assert reweight(normalise(kernel), *table) == expected


def test_definition_over_pairs_of_normalised_values():
    rng = np.random.default_rng(1)
    free, (Z, alpha) = normalise(Polynomial(degree=4)), make_table(3, rng)
    X = rng.uniform(-1, 1, (4, 3))
    pairs = itertools.product(zip(Z, alpha, strict=True), repeat=2)
    expected = sum(a * b * free(z, y, X[0], X[1], X[2]) for (z, a), (y, b) in pairs)
    np.testing.assert_allclose(reweight(free, Z, alpha)(X[0], X[1], X[2]), expected, rtol=1e-10)


@pytest.mark.parametrize("formula", [Reweighted(), FeatureDistance()])
@pytest.mark.parametrize("base", [Polynomial(degree=3), TaylorSeries(coefficients=(0.5, 0.0, 1.5), weights=(1.0, 0.4))])
def test_gradients(base, formula):
    rng = np.random.default_rng(2)
    kernel = reweight(normalise(base), *make_table(2, rng))
    X, Y, upstream = rng.uniform(-1, 1, (3, 2)), rng.uniform(-1, 1, (4, 2)), rng.normal(size=(3, 4))
    of_x, of_y = gram(formula, kernel.evaluator, X, Y).vjp(upstream)

    def total(left, right):
        return float((gram(formula, kernel.evaluator, left, right).value * upstream).sum())

    np.testing.assert_allclose(of_x, numeric_gradient(lambda x: total(x, Y), X), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(of_y, numeric_gradient(lambda y: total(X, y), Y), rtol=1e-6, atol=1e-7)


def test_where_the_normalised_kernel_has_no_value_its_features_are_zero():
    kernel = reweight(normalise(Linear()), [[0.0, 0.0], [1.0, 2.0], [0.5, -1.0]], [5.0, 1.0, -0.4])
    X = np.array([[0.0, 0.0], [0.3, 0.4]])
    without = reweight(normalise(Linear()), [[1.0, 2.0], [0.5, -1.0]], [1.0, -0.4])
    np.testing.assert_array_equal(kernel.gram(X), without.gram(X))
    np.testing.assert_array_equal(kernel.gram(X)[0], 0.0)
    assert float(kernel(X[0], X[0], X[1])) == 0.0
    assert TwoLayerKernel(kernel, scale=1.0).gram(X)[0, 1] == pytest.approx(np.exp(-kernel.gram(X)[1, 1] / 2))
    _, damping = gram(Reweighted(), kernel.evaluator, X).vjp(np.ones((2, 2)))
    assert np.isfinite(damping).all()


@few
@given(st.sampled_from(FINITE), seeds)
def test_made_of_it_are_grams_features_and_normalised_kernels(family, seed):
    rng = np.random.default_rng(seed)
    base, table = make_kernel(family, 3, rng, weighted=True), make_table(3, rng)
    kernel, X = reweight(normalise(base), *table), rng.uniform(-1, 1, (12, 3))
    K = kernel.gram(X)
    assert smallest_eigenvalue(K) > -1e-12
    np.testing.assert_allclose(kernel(X[:, None, :], X), K, rtol=0, atol=1e-12 * np.abs(K).max())
    features = kernel_features(kernel, X, 1)(X)
    np.testing.assert_allclose(features @ features.T, K, rtol=0, atol=1e-11 * np.abs(K).max())
    root = np.sqrt(np.diag(K))
    np.testing.assert_allclose(normalise(kernel).gram(X), K / np.outer(root, root), rtol=0, atol=1e-10)


def test_torch_gives_the_same_values():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    kernel, X = reweight(normalise(Polynomial()), *make_table(2, rng)), rng.uniform(-1, 1, (4, 2))
    np.testing.assert_allclose(kernel.gram(torch.from_numpy(X)).numpy(), kernel.gram(X), rtol=1e-12)
    assert kernel.gram(X.astype(np.float32)).dtype == np.float32
