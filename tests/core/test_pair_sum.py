"""The pair sums against a double loop, their gradients, blocks, precision and error estimates."""

import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins.core import Exponential, Polynomial, SquaredExponential, reweight
from mkbo_plugins.core.evaluation import pair_blocks, pair_sum
from mkbo_plugins.core.evaluation.extended_pairs import ExtendedPairSum
from mkbo_plugins.core.evaluation.pair_blocks import compose
from mkbo_plugins.core.evaluation.pair_sum import PairSum
from tests.core.helpers import (
    FAMILIES,
    dimensions,
    few,
    kernels,
    make_reweighted,
    make_table,
    numeric_gradient,
    peak_bytes,
    seeds,
    weights_of,
)

PRECISE = [ExtendedPairSum]


def value(total):
    return total.mantissa * np.exp(total.log_scale)


def pairs_of(kernel, form=PairSum):
    return form(compose(kernel.base, kernel.tables, kernel.dimension))


def gram(form, X, Y=None):
    """Return S(x * y) between points as numbers, from mantissas and scales."""
    P = form.prepare(X)
    Q = P if Y is None else form.prepare(Y)
    return form.between(P, Q)[0] * np.exp(P.half_log_scale[:, None] + Q.half_log_scale[None, :])


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
    assert abs(float(value(pairs_of(kernel).pointwise(u))) - expected) <= 1e-14 * absolute


@few
@given(kernels, dimensions, seeds)
def test_everything_is_pointwise_at_products(family, dimension, seed):
    rng = np.random.default_rng(seed)
    form = pairs_of(make_reweighted(family, dimension, rng))
    X, Y = rng.uniform(-1, 1, (4, dimension)), rng.uniform(-1, 1, (3, dimension))
    direct = value(form.pointwise(X[:, None, :] * Y))
    np.testing.assert_allclose(gram(form, X, Y), direct, rtol=1e-12, atol=1e-13)
    symmetric = gram(form, X)
    np.testing.assert_array_equal(symmetric, symmetric.T)
    np.testing.assert_allclose(symmetric, gram(form, X, X.copy()), rtol=1e-12, atol=1e-13)
    P = form.prepare(X)
    np.testing.assert_allclose(P.diagonal * np.exp(2 * P.half_log_scale), np.diag(symmetric), rtol=1e-12, atol=1e-13)
    P, Q = form.prepare(X[:3]), form.prepare(Y)
    rowwise = form.between(P, Q, 3)[:, 0, 0] * np.exp(P.half_log_scale + Q.half_log_scale)
    np.testing.assert_allclose(rowwise, np.diag(direct[:3]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("form", [PairSum, *PRECISE])
@pytest.mark.parametrize("family", ["exponential", "squared_exponential"])
def test_batches_of_points(family, form):
    rng = np.random.default_rng(0)
    pairs = pairs_of(make_reweighted(family, 2, rng), form)
    X, Y = rng.uniform(-1, 1, (2, 4, 2)), rng.uniform(-1, 1, (2, 3, 2))
    together = pairs.between(pairs.prepare(X.reshape(-1, 2)), pairs.prepare(Y.reshape(-1, 2)), 2)
    separate = np.concatenate([pairs.between(pairs.prepare(x), pairs.prepare(y)) for x, y in zip(X, Y, strict=True)])
    np.testing.assert_allclose(together, separate, rtol=1e-12, atol=1e-14)


@few
@given(kernels, dimensions, st.booleans(), seeds)
def test_gradients(family, dimension, weighted, seed):
    rng = np.random.default_rng(seed)
    form = pairs_of(make_reweighted(family, dimension, rng, weighted=weighted))
    X, Y = rng.uniform(-1, 1, (3, dimension)), rng.uniform(-1, 1, (4, dimension))
    upstream = rng.normal(size=(3, 4))
    P, Q = form.prepare(X), form.prepare(Y)
    weight = upstream * np.exp(-P.half_log_scale[:, None] - Q.half_log_scale[None, :])
    (of_x,), (of_y,) = form.vjp(P, Q, upstream[None])
    np.testing.assert_allclose(
        of_x, numeric_gradient(lambda x: float((weight * gram(form, x, Y)).sum()), X), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(
        of_y, numeric_gradient(lambda y: float((weight * gram(form, X, y)).sum()), Y), rtol=1e-6, atol=1e-6
    )
    of_diagonal = upstream[:, :1] * P.diagonal_gradient
    weight = upstream[:, 0] * np.exp(-2 * P.half_log_scale)
    expected = numeric_gradient(lambda x: float((weight * value(form.pointwise(x * x))).sum()), X)
    np.testing.assert_allclose(of_diagonal, expected, rtol=1e-6, atol=1e-6)


def everything(kernel, X, Y):
    form = pairs_of(kernel)
    P, Q = form.prepare(X), form.prepare(Y)
    curvatures = form.curvatures(X, X[::-1], 2 * P.half_log_scale)
    results = [gram(form, X, Y), gram(form, X), P.error, curvatures, *form.vjp(P, Q, np.ones((1, len(X), len(Y))))]
    return np.concatenate([np.ravel(result) for result in results])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("block", "largest"), [(1, 1), (5000, 6), (1, 1 << 23), (1 << 17, 1)])
def test_block_sizes_do_not_matter(family, block, largest, monkeypatch):
    rng = np.random.default_rng(1)
    table = make_table(2, rng, rows=70)
    X, Y = rng.uniform(-1, 1, (5, 2)), rng.uniform(-1, 1, (3, 2))
    whole = everything(reweight(FAMILIES[family](), *table), X, Y)
    monkeypatch.setattr(pair_sum, "BLOCK_ENTRIES", block)
    for module in (pair_blocks, pair_sum):
        monkeypatch.setattr(module, "MAX_ENTRIES", largest)
    np.testing.assert_allclose(everything(reweight(FAMILIES[family](), *table), X, Y), whole, rtol=1e-10, atol=1e-11)


def test_memory_does_not_hold_points_times_pairs():
    rng = np.random.default_rng(2)
    n, rows = 60, 80
    form = pairs_of(reweight(SquaredExponential(), *make_table(2, rng, rows)))
    X, Y = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (n, 2))
    P, Q = form.prepare(X), form.prepare(Y)
    for call in (
        lambda: form.between(P, Q),
        lambda: form.between(P, P),
        lambda: form.vjp(P, Q, np.ones((1, n, n))),
    ):
        assert peak_bytes(call) < n * n * rows**2 * 8 / 10


def test_memory_of_many_pairs_is_bounded(monkeypatch):
    for module in (pair_blocks, pair_sum):
        monkeypatch.setattr(module, "MAX_ENTRIES", 1 << 12)
    rows = 600
    form = pairs_of(reweight(SquaredExponential(), *make_table(2, np.random.default_rng(11), rows)))
    assert peak_bytes(lambda: form.pointwise(np.array([0.3, 0.4]))) < rows**2 / 2 * 8


def test_memory_of_many_entries_is_bounded(monkeypatch):
    monkeypatch.setattr(pair_sum, "MAX_ENTRIES", 1 << 12)
    n, d = 200, 10
    form = pairs_of(reweight(SquaredExponential(), *make_table(d, np.random.default_rng(13), 3)))
    P, Q = (form.prepare(X) for X in np.random.default_rng(14).uniform(-1, 1, (2, n, d)))
    for call in (lambda: form.between(P, Q), lambda: form.vjp(P, Q, np.ones((1, n, n)))):
        assert peak_bytes(call) < 2 * n * n * d * 8


@pytest.mark.parametrize("form", PRECISE)
@pytest.mark.parametrize("sigma", [1.0, 1e-2])
@pytest.mark.parametrize("family", [Exponential, SquaredExponential])
def test_more_precise_sums_agree_within_their_errors(family, sigma, form):
    rng = np.random.default_rng(4)
    kernel = reweight(family(sigma=sigma, weights=(0.7, 1.3)), *make_table(2, rng, 30))
    X = rng.uniform(-2, 2, (8, 2))
    plain, precise, best = (pairs_of(kernel, kind) for kind in (PairSum, form, ExtendedPairSum))
    P, Q, R = plain.prepare(X), precise.prepare(X), best.prepare(X)
    for prepared, other in ((P, plain), (Q, precise)):
        (error,) = np.abs(other.between(prepared, prepared) - best.between(R, R))
        assert (error <= np.sqrt(np.multiply.outer(prepared.error, prepared.error))).all()
    assert (Q.error <= P.error).all()


def test_adding_up_many_terms_leaves_the_stated_error_its_margin():
    rng = np.random.default_rng(12)
    support, base = rng.uniform(-1, 1, (100, 4)), SquaredExponential(sigma=0.5)
    y = np.sin(3 * support.sum(axis=1)) + 0.1 * rng.normal(size=100)
    kernel = reweight(base, support, np.linalg.solve(base.gram(support) + 1e-2 * np.eye(100), y))
    X = rng.choice([-1.0, 1.0], (60, 4)) * rng.uniform(0.9, 1, (60, 4))
    P, exact = pairs_of(kernel).prepare(X), pairs_of(kernel, ExtendedPairSum).prepare(X)
    assert (np.abs(P.diagonal - exact.diagonal) <= P.error / 2).all()


def test_the_stated_error_holds_at_products_of_any_sign():
    kernel = reweight(Exponential(sigma=0.05), *make_table(3, np.random.default_rng(15), 30))
    U = np.random.default_rng(16).uniform(-1, 1, (200, 3))
    plain, exact = (pairs_of(kernel, form).pointwise(U) for form in (PairSum, ExtendedPairSum))
    np.testing.assert_array_equal(plain.log_scale, exact.log_scale)
    assert (np.abs(plain.mantissa - exact.mantissa) <= plain.error).all()


def test_error_estimate_is_no_excuse():
    form = pairs_of(make_reweighted("squared_exponential", 2, np.random.default_rng(5)))
    total = form.pointwise(np.array([0.3, 0.2]))
    assert float(total.error) < 1e-12 * float(total.mantissa)


@pytest.mark.parametrize(("form", "relative"), [(PairSum, 1e-7), (ExtendedPairSum, 1e-12)])
def test_sums_that_cancel_near_the_middle_of_the_frame(form, relative):
    """The root of a point's diagonal falls with its distance from the middle, where coefficients sum to zero."""
    rng = np.random.default_rng(17)
    support, alpha = rng.uniform(-1, 1, (40, 2)), np.resize([1.0, -1.0], 40)
    X = rng.uniform(-1, 1, (12, 2)) * 10.0 ** -np.arange(12)[:, None]
    pairs = pairs_of(reweight(Exponential(), support, alpha), form)
    P = pairs.prepare(X)
    assert (P.error <= relative * P.diagonal).all()
    found, scale = pairs.between(P, P)[0], np.add.outer(P.half_log_scale, P.half_log_scale)
    with mpmath.workdps(60):
        z = [[mpmath.mpf(value) for value in point] for point in support]
        products = [[[a * b for a, b in zip(one, other, strict=True)] for other in z] for one in z]
        for i, j in itertools.combinations_with_replacement(range(0, len(X), 3), 2):
            u = [mpmath.mpf(a) * mpmath.mpf(b) for a, b in zip(X[i], X[j], strict=True)]
            exact = mpmath.fsum(
                a * b * mpmath.exp(mpmath.fdot(u, products[k][m]))
                for k, a in enumerate(alpha)
                for m, b in enumerate(alpha)
            )
            error = abs(found[i, j] - exact * mpmath.exp(-scale[i, j]))
            assert error <= math.sqrt(P.error[i] * P.error[j])


@pytest.mark.parametrize("form", [PairSum, *PRECISE])
@pytest.mark.parametrize("x", [np.zeros(2), np.array([50.0, 50.0]), np.array([-50.0, 0.0])])
@pytest.mark.parametrize("family", [Exponential, SquaredExponential])
def test_mantissa_neither_overflows_nor_vanishes(family, x, form):
    pairs = pairs_of(reweight(family(sigma=1e-3), *make_table(2, np.random.default_rng(6))), form)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        P = pairs.prepare(x[None, :])
        gradient = P.diagonal_gradient
    assert np.isfinite(P.diagonal).all()
    assert (P.error > 0).all()
    assert (P.error < 1e-6).all()
    assert np.isfinite(gradient).all()


def test_no_points_give_empty_results():
    kernel = reweight(Polynomial(), *make_table(2, np.random.default_rng(7)))
    nothing, something = np.empty((0, 2)), np.ones((3, 2))
    assert kernel.gram(nothing).shape == (0, 0)
    assert kernel.gram(nothing, something).shape == (0, 3)
    assert kernel.gram(something, nothing).shape == (3, 0)
    assert kernel(nothing, nothing).shape == (0,)


@pytest.mark.parametrize("form", [PairSum, *PRECISE])
def test_pickles_leave_out_cached_blocks(form):
    pairs = pairs_of(reweight(SquaredExponential(), *make_table(2, np.random.default_rng(8), rows=100)), form)
    u = np.array([0.3, 0.4])
    before = len(pickle.dumps(pairs))
    expected = pairs.pointwise(u)
    assert len(pickle.dumps(pairs)) == before
    again = pickle.loads(pickle.dumps(pairs)).pointwise(u)
    np.testing.assert_array_equal(np.array(again), np.array(expected))


@pytest.mark.parametrize("form", [PairSum, *PRECISE])
@pytest.mark.parametrize("family", FAMILIES)
def test_torch_gives_the_same_values(family, form):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(9)
    kernel = make_reweighted(family, 2, rng)
    if kernel.base.exponent_rate is None and form is not PairSum:
        pytest.skip("only exponential series have exponents")
    pairs = pairs_of(kernel, form)
    X, Y = rng.uniform(-1, 1, (4, 2)), rng.uniform(-1, 1, (3, 2))
    P, Q = pairs.prepare(X), pairs.prepare(Y)
    R, S = pairs.prepare(torch.from_numpy(X)), pairs.prepare(torch.from_numpy(Y))
    np.testing.assert_allclose(pairs.between(R, S).numpy(), pairs.between(P, Q), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(R.error.numpy(), P.error, rtol=1e-10)
    upstream = np.ones((1, 4, 3))
    ours, theirs = pairs.vjp(P, Q, upstream), pairs.vjp(R, S, torch.from_numpy(upstream))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-12, atol=1e-13)
