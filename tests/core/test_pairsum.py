"""The pair sum against a double loop, its gradients, its blocks and its rounding bound."""

import math
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins.core import Exponential, Linear, Polynomial, SquaredExponential, pairsum, reweight
from tests.core.helpers import (
    FAMILIES,
    dimensions,
    few,
    kernels,
    make_reweighted,
    make_table,
    numeric_gradient,
    seeds,
    weights_of,
)


def value(total):
    return total.mantissa * np.exp(total.log_scale)


def double_loop(kernel, u):
    """Sum alpha_i alpha_j damping_i damping_j h(<<x_i, x_j, u>>) over all ordered pairs."""
    (table,) = kernel.tables
    weights = weights_of(kernel.base, len(u))
    damping = np.exp(-kernel.base.damping_rate * (weights * table.points**2).sum(axis=1))
    terms = [
        a * b * float(kernel.base.series(np.asarray((weights * x * y * u).sum())))
        for a, x in zip(table.alpha * damping, table.points, strict=True)
        for b, y in zip(table.alpha * damping, table.points, strict=True)
    ]
    return math.fsum(terms), math.fsum(map(abs, terms))


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_equals_the_double_loop(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng, weighted=weighted, rows=7)
    u = rng.uniform(-1, 1, dimension)
    expected, absolute = double_loop(kernel, u)
    assert abs(float(value(kernel.evaluator.pointwise(u))) - expected) <= 1e-14 * absolute


@few
@given(kernels, dimensions, seeds)
def test_pairwise_and_symmetric_are_pointwise_at_products(family, dimension, seed):
    rng = np.random.default_rng(seed)
    evaluator = make_reweighted(family, dimension, rng).evaluator
    X, Y = rng.uniform(-1, 1, (4, dimension)), rng.uniform(-1, 1, (3, dimension))
    direct = value(evaluator.pointwise(X[:, None, :] * Y))
    np.testing.assert_allclose(value(evaluator.pairwise(X, Y)), direct, rtol=1e-13, atol=1e-14)
    symmetric = value(evaluator.symmetric(X))
    np.testing.assert_array_equal(symmetric, symmetric.T)
    np.testing.assert_allclose(symmetric, value(evaluator.pairwise(X, X)), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_of_points(family):
    rng = np.random.default_rng(0)
    evaluator = make_reweighted(family, 2, rng).evaluator
    X, Y = rng.uniform(-1, 1, (2, 4, 2)), rng.uniform(-1, 1, (3, 2))
    separate = np.stack([value(evaluator.pairwise(x, Y)) for x in X])
    np.testing.assert_allclose(value(evaluator.pairwise(X, Y)), separate, rtol=1e-12, atol=1e-13)
    symmetric = np.stack([value(evaluator.symmetric(x)) for x in X])
    np.testing.assert_allclose(value(evaluator.symmetric(X)), symmetric, rtol=1e-12, atol=1e-13)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_pointwise_gradient(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    evaluator = make_reweighted(family, dimension, rng, weighted=weighted).evaluator
    U = rng.uniform(-1, 1, (3, dimension))
    log_scale = rng.normal(size=3)
    gradient = evaluator.pointwise_gradient(U, log_scale)
    for u, scale, row in zip(U, log_scale, gradient, strict=True):
        numeric = numeric_gradient(lambda point: float(value(evaluator.pointwise(point))), u)
        np.testing.assert_allclose(row, np.exp(-scale) * numeric, rtol=1e-6, atol=1e-7)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_pairwise_gradient(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    evaluator = make_reweighted(family, dimension, rng, weighted=weighted).evaluator
    X, Y = rng.uniform(-1, 1, (3, dimension)), rng.uniform(-1, 1, (4, dimension))
    log_scale, upstream = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))

    def pulled(left, right):
        return float((upstream * np.exp(-log_scale) * value(evaluator.pairwise(left, right))).sum())

    of_x, of_y = evaluator.pairwise_gradient(X, Y, log_scale, upstream)
    np.testing.assert_allclose(of_x, numeric_gradient(lambda x: pulled(x, Y), X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(of_y, numeric_gradient(lambda y: pulled(X, y), Y), rtol=1e-6, atol=1e-6)


def everything(kernel, X, Y):
    evaluator = kernel.evaluator
    between = evaluator.pairwise(X, Y)
    of_x, of_y = evaluator.pairwise_gradient(X, Y, between.log_scale, np.ones(between.mantissa.shape))
    results = [value(between), value(evaluator.symmetric(X)), value(evaluator.pointwise(X)), of_x, of_y]
    return np.concatenate([np.ravel(result) for result in results])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("block", "largest"), [(1, 1), (5000, 6), (1, 1 << 23), (1 << 17, 1)])
def test_block_sizes_do_not_matter(family, block, largest, monkeypatch):
    rng = np.random.default_rng(1)
    table = make_table(2, rng, rows=70)
    X, Y = rng.uniform(-1, 1, (5, 2)), rng.uniform(-1, 1, (3, 2))
    whole = everything(reweight(FAMILIES[family](), *table), X, Y)
    monkeypatch.setattr(pairsum, "BLOCK_ENTRIES", block)
    monkeypatch.setattr(pairsum, "MAX_ENTRIES", largest)
    np.testing.assert_allclose(everything(reweight(FAMILIES[family](), *table), X, Y), whole, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("family", [Exponential, SquaredExponential])
@pytest.mark.parametrize("order", [1, -1])
def test_blocks_on_different_scales_add_up(family, order):
    rng = np.random.default_rng(10)
    support, alpha = make_table(2, rng, rows=90)
    largest_last = np.argsort(np.abs(support).sum(axis=1))[::order]
    kernel = reweight(family(sigma=0.05), support[largest_last], alpha)
    for u in (np.array([0.9, 0.8]), np.array([-0.6, 0.7])):
        expected, absolute = double_loop(kernel, u)
        assert abs(float(value(kernel.evaluator.pointwise(u))) - expected) <= 1e-12 * absolute


def peak_bytes(call):
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_hold_points_times_pairs():
    rng = np.random.default_rng(2)
    n, rows = 60, 80
    kernel = reweight(SquaredExponential(), *make_table(2, rng, rows))
    X, Y = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (n, 2))
    log_scale = np.zeros((n, n))
    for call in (
        lambda: kernel.evaluator.pairwise(X, Y),
        lambda: kernel.evaluator.symmetric(X),
        lambda: kernel.evaluator.pairwise_gradient(X, Y, log_scale, log_scale),
    ):
        assert peak_bytes(call) < n * n * rows**2 * 8 / 10


def test_memory_of_many_products_is_bounded(monkeypatch):
    monkeypatch.setattr(pairsum, "MAX_ENTRIES", 1 << 12)
    rng = np.random.default_rng(3)
    n, dimension = 120, 12
    kernel = reweight(Linear(), *make_table(dimension, rng, rows=2))
    X = rng.uniform(-1, 1, (n, dimension))
    assert peak_bytes(lambda: kernel.evaluator.pairwise(X, X)) < n * n * dimension * 8


def test_memory_of_many_pairs_is_bounded(monkeypatch):
    monkeypatch.setattr(pairsum, "MAX_ENTRIES", 1 << 12)
    rows = 600
    kernel = reweight(SquaredExponential(), *make_table(2, np.random.default_rng(11), rows))
    u = np.array([0.3, 0.4])
    assert peak_bytes(lambda: kernel.evaluator.pointwise(u)) < rows**2 / 2 * 8


def exact(kernel, u, log_scale):
    """Evaluate S(u) exp(-log_scale) in extended precision, every term from the original numbers."""
    (table,) = kernel.tables
    z, alpha, sigma = table.points.astype(np.longdouble), table.alpha.astype(np.longdouble), kernel.base.sigma
    rate = np.longdouble(kernel.base.damping_rate)
    exponent = ((z * u.astype(np.longdouble)) @ z.T) / np.longdouble(sigma)
    squared = rate * (z**2).sum(axis=1)
    exponent = exponent - squared[:, None] - squared[None, :] - np.longdouble(log_scale)
    return float((np.exp(exponent) * alpha[:, None] * alpha[None, :]).sum())


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision on this platform")
@pytest.mark.parametrize("family", [Exponential, SquaredExponential])
@pytest.mark.parametrize("sigma", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("place", ["inside", "corner"])
def test_rounding_stays_below_its_bound(family, sigma, place):
    rng = np.random.default_rng(4)
    for _ in range(20):
        kernel = reweight(family(sigma=sigma), *make_table(2, rng))
        u = rng.uniform(-1, 1, 2) if place == "inside" else rng.uniform(0.99, 1.01, 2)
        total = kernel.evaluator.pointwise(u)
        error = abs(float(total.mantissa) - exact(kernel, u, float(total.log_scale)))
        assert error <= float(total.rounding_bound())


def test_rounding_bound_is_no_excuse():
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(5))
    total = kernel.evaluator.pointwise(np.array([0.3, 0.2]))
    assert float(total.rounding_bound()) < 1e-12 * float(total.mantissa)


@pytest.mark.parametrize("u", [np.zeros(2), np.array([2500.0, 2500.0]), np.array([-2500.0, 0.0])])
@pytest.mark.parametrize("family", [Exponential, SquaredExponential])
def test_mantissa_neither_overflows_nor_vanishes(family, u):
    kernel = reweight(family(sigma=1e-3), *make_table(2, np.random.default_rng(6)))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        total = kernel.evaluator.pointwise(u)
        gradient = kernel.evaluator.pointwise_gradient(u, total.log_scale)
    assert 1e-3 < float(total.absolute) < np.inf
    assert np.isfinite(float(total.mantissa))
    assert np.isfinite(gradient).all()


def test_no_points_give_empty_results():
    kernel = reweight(Polynomial(), *make_table(2, np.random.default_rng(7)))
    nothing, something = np.empty((0, 2)), np.ones((3, 2))
    assert kernel.gram(nothing).shape == (0, 0)
    assert kernel.gram(nothing, something).shape == (0, 3)
    assert kernel.gram(something, nothing).shape == (3, 0)
    assert kernel(nothing, nothing).shape == (0,)


def test_pickles_leave_out_cached_blocks():
    evaluator = reweight(SquaredExponential(), *make_table(2, np.random.default_rng(8), rows=100)).evaluator
    u = np.array([0.3, 0.4])
    before = len(pickle.dumps(evaluator))
    expected = evaluator.pointwise(u)
    assert len(pickle.dumps(evaluator)) == before
    again = pickle.loads(pickle.dumps(evaluator)).pointwise(u)
    np.testing.assert_array_equal(np.array(again), np.array(expected))


@pytest.mark.parametrize("family", FAMILIES)
def test_torch_gives_the_same_values(family):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(9)
    evaluator = make_reweighted(family, 2, rng).evaluator
    X, Y = rng.uniform(-1, 1, (4, 2)), rng.uniform(-1, 1, (3, 2))
    left, right = torch.from_numpy(X), torch.from_numpy(Y)
    for ours, theirs in (
        (evaluator.pairwise(X, Y), evaluator.pairwise(left, right)),
        (evaluator.symmetric(X), evaluator.symmetric(left)),
    ):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(b.numpy(), a, rtol=1e-13, atol=1e-14)
    scale = np.zeros((4, 3))
    ours = evaluator.pairwise_gradient(X, Y, scale, scale + 1)
    theirs = evaluator.pairwise_gradient(left, right, torch.from_numpy(scale), torch.from_numpy(scale + 1))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-12, atol=1e-13)
