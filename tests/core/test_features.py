"""Explicit monomials: their number, their weights, and how prior variance divides among parameters."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins.core import (
    Exponential,
    Linear,
    Polynomial,
    SquaredExponential,
    TaylorSeries,
    WeightedPoints,
    reweight,
)
from mkbo_plugins.core.components.shares import parameter_shares
from mkbo_plugins.core.evaluation.features import (
    log_tau_squared,
    monomial_exponents,
    monomial_weights,
    monomials,
)
from mkbo_plugins.core.reweighted.gram import gram
from mkbo_plugins.core.reweighted.reweighting import undamped
from mkbo_plugins.core.reweighted.two_layer import FeatureDistance
from tests.core.helpers import dimensions, few, kernels, make_kernel, make_reweighted, make_table, seeds, weights_of


@pytest.mark.parametrize(("dimension", "degree"), [(1, 0), (1, 7), (2, 5), (4, 3), (3, 0)])
def test_every_monomial_occurs_once(dimension, degree):
    exponents = monomial_exponents(dimension, degree)
    assert exponents.shape == (math.comb(dimension + degree, dimension), dimension)
    assert len({tuple(row) for row in exponents}) == len(exponents)
    assert (exponents >= 0).all()
    degrees = exponents.sum(axis=1)
    assert degrees.max() == degree
    assert (np.diff(degrees) >= 0).all()


@pytest.mark.parametrize(("dimension", "degree"), [(3, 0), (3, 4), (5, 6), (2, 60)])
def test_monomials_are_products_of_powers(dimension, degree):
    # Of few monomials each coordinate has a table of powers, of many several coordinates share one of products.
    exponents = monomial_exponents(dimension, degree)
    exponents = exponents[exponents[:, 0] <= 2]
    X = np.random.default_rng(0).normal(size=(5, dimension))
    X[0, 1] = 0
    expected = [[np.prod(x**k) for k in exponents] for x in X]
    np.testing.assert_allclose(monomials(X, exponents).T, expected, rtol=1e-13)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_log_tau_squared(family, dimension, weighted, seed):
    kernel = make_kernel(family, dimension, np.random.default_rng(seed), weighted=weighted)
    weights = weights_of(kernel, dimension)
    for k, value in zip(
        monomial_exponents(dimension, 4), log_tau_squared(kernel, monomial_exponents(dimension, 4)), strict=True
    ):
        multinomial = math.factorial(k.sum()) / math.prod(math.factorial(n) for n in k)
        expected = kernel.coefficient(int(k.sum())) * multinomial * np.prod(weights**k)
        assert math.exp(value) == pytest.approx(expected, rel=1e-12)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_tau_gives_back_the_free_kernel(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    X = rng.uniform(-0.9, 0.9, (4, dimension))
    exponents = monomial_exponents(dimension, 24)
    features = np.exp(log_tau_squared(kernel, exponents) / 2) * monomials(X, exponents).T
    features *= np.exp(kernel.log_damping(X))[:, None]
    np.testing.assert_allclose(features @ features.T, kernel.gram(X), rtol=0, atol=1e-11)


@few
@given(kernels, st.integers(1, 6), dimensions, st.booleans(), seeds)
def test_tau_gives_back_the_free_kernel_of_any_number_of_arguments(family, m, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(family, dimension, rng, weighted=weighted)
    points = rng.uniform(-0.9, 0.9, (m, dimension))
    exponents = monomial_exponents(dimension, 30)
    terms = np.exp(log_tau_squared(kernel, exponents)) * monomials(points, exponents).prod(axis=1)
    damping = np.exp(kernel.log_damping(points).sum())
    np.testing.assert_allclose(kernel(*points), terms.sum() * damping, rtol=1e-9, atol=1e-11)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_squared_feature_weights_sum_to_the_norm_of_the_machine(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    base = make_kernel(family, dimension, rng, weighted=weighted)
    support, alpha = make_table(dimension, rng)
    w = monomial_weights(base, (WeightedPoints(support, alpha),), monomial_exponents(dimension, 24)).value
    size = np.abs(alpha) @ base.gram(np.abs(support)) @ np.abs(alpha)
    assert (w**2).sum() == pytest.approx(alpha @ base.gram(support) @ alpha, abs=1e-11 * size)


@few
@given(kernels, st.integers(1, 2), seeds)
def test_features_of_the_machine_are_its_decision_function(family, dimension, seed):
    rng = np.random.default_rng(seed)
    base = make_kernel(family, dimension, rng, weighted=True)
    support, alpha = make_table(dimension, rng)
    X = rng.uniform(-0.9, 0.9, (4, dimension))
    exponents = monomial_exponents(dimension, 24)
    tau = np.exp(log_tau_squared(base, exponents) / 2)
    g = (
        monomials(X, exponents).T @ (tau * monomial_weights(base, (WeightedPoints(support, alpha),), exponents).value)
    ) * np.exp(base.log_damping(X))
    np.testing.assert_allclose(g, base.gram(X, support) @ alpha, rtol=0, atol=1e-10)


OWNERS = ("a", "b", "b")


@few
@given(kernels, st.booleans(), seeds)
def test_shares_divide_the_variance(family, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, 3, rng, weighted=weighted)
    shares, captured = parameter_shares(kernel, OWNERS, rng.uniform(-1, 1, (30, 3)), max_features=3000)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= 0
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert set().union(*shares) <= {"a", "b"}
    assert captured == pytest.approx(1, abs=1e-8)


@few
@given(kernels, seeds)
def test_total_variance_is_the_mean_feature_distance(family, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, 2, rng)
    X = rng.uniform(-1, 1, (12, 2))
    exponents = monomial_exponents(2, 24)
    values = (
        monomial_weights(kernel.base, kernel.tables, exponents).value
        * monomials(X, exponents).T
        * np.exp(kernel.base.log_damping(X))[:, None]
    )
    distances = gram(FeatureDistance(), undamped(kernel, 2), X).value
    assert values.var(axis=0).sum() == pytest.approx(distances.mean() / 2, rel=1e-9)


def test_shares_of_known_features():
    """x1 and x1 x2 have feature weights that one can write down: tau is 1 and sqrt(2), w the sums over the table."""
    kernel = reweight(
        TaylorSeries(coefficients=(0.0, 1.0, 1.0)), [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], [2.0, 1.0, -1.0]
    )
    grid = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    shares, captured = parameter_shares(kernel, ("a", "b"), grid)
    of_a, of_both = 3.0**2, (math.sqrt(2) * 1.0) ** 2
    assert set(shares) == {frozenset("a"), frozenset("b"), frozenset("ab")}
    assert shares[frozenset("a")] == pytest.approx(of_a / (of_a + of_both))
    assert shares[frozenset("ab")] == pytest.approx(of_both / (of_a + of_both))
    assert shares[frozenset("b")] == 0
    assert captured == pytest.approx(1)


def test_a_parameter_that_the_table_never_moves_has_no_share():
    support, alpha = make_table(2, np.random.default_rng(1))
    support[:, 1] = 0
    points = np.random.default_rng(2).uniform(-1, 1, (20, 2))
    shares, _ = parameter_shares(reweight(Polynomial(), support, alpha), ("a", "b"), points)
    assert shares[frozenset("a")] == pytest.approx(1)


def test_few_features_capture_less():
    rng = np.random.default_rng(3)
    kernel = make_reweighted("exponential", 2, rng)
    points = rng.uniform(-1, 1, (20, 2))
    captured = [parameter_shares(kernel, ("a", "b"), points, max_features=n)[1] for n in (3, 10, 50, 500)]
    assert captured == sorted(captured)
    assert captured[0] < 0.999 < captured[-1] <= 1 + 1e-9


@pytest.mark.parametrize("kernel", [SquaredExponential(sigma=1e-3), Exponential(sigma=1e-3), Linear()])
def test_one_coordinate_has_all_the_variance(kernel):
    rng = np.random.default_rng(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shares, captured = parameter_shares(
            reweight(kernel, *make_table(1, rng)), ("a",), rng.uniform(-1, 1, (9, 1)), max_features=3000
        )
    assert shares == {frozenset("a"): 1.0}
    assert captured == pytest.approx(1)


@pytest.mark.parametrize(("sigma", "dimension"), [(1e-4, 2), (1e-3, 6)])
@pytest.mark.parametrize("family", [Exponential, SquaredExponential])
def test_small_length_scales_give_an_answer_or_none_but_no_error(family, sigma, dimension):
    rng = np.random.default_rng(5)
    kernel = reweight(family(sigma=sigma), *make_table(dimension, rng))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shares, captured = parameter_shares(
            kernel, tuple("abcdef"[:dimension]), rng.uniform(-1, 1, (9, dimension)), max_features=5000
        )
    assert 0 <= captured < 0.1
    assert not shares or sum(shares.values()) == pytest.approx(1)
