"""Terms of pair sums: those merged, and those left out where they vanish."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential, normalise, reweight
from mkbo_plugins.core.evaluation import doubledouble as dd
from mkbo_plugins.core.evaluation import pair_blocks, pair_sum
from mkbo_plugins.core.evaluation.extended_pairs import ExtendedPairSum
from mkbo_plugins.core.evaluation.pair_blocks import compose
from mkbo_plugins.core.evaluation.pair_sum import PairSum
from mkbo_plugins.core.evaluation.pair_terms import PairTerms, merge, significant_terms
from tests.core.helpers import FAMILIES, numeric_gradient, smallest_eigenvalue

FORMS = [PairSum, ExtendedPairSum]
NARROW = SquaredExponential(weights=(0.4, 300.0, 1.2))


def pairs_of(kernel, form=PairSum):
    return form(compose(kernel.base, kernel.tables, kernel.dimension))


def categories(rows=40):
    """Return points of two levels in most coordinates, and coefficients."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.choice([-1.0, 1.0], (rows, 3)), rng.choice([-0.6, 0.1, 0.8], rows)]), rng.normal(
        size=rows
    )


def levels(rows=60):
    """Return points of few levels in the coordinate of large exponents, and coefficients."""
    rng = np.random.default_rng(1)
    return np.column_stack([rng.uniform(-1, 1, rows), rng.integers(-4, 5, rows) / 4, rng.uniform(-1, 1, rows)]), (
        rng.normal(size=rows)
    )


def gram(form, X, Y=None):
    P = form.prepare(X)
    return form.between(P, P if Y is None else form.prepare(Y))[0]


def unmerged(monkeypatch, kernel, form):
    with monkeypatch.context() as patch:
        patch.setattr(pair_blocks, "merge", lambda terms: terms)
        found = pairs_of(kernel, form)
        assert found.terms == found.pairs
    return found


def with_all_terms(monkeypatch, kernel, form):
    with monkeypatch.context() as patch:
        patch.setattr(pair_blocks, "WIDE_EXPONENT", np.inf)
        found = pairs_of(kernel, form)
        assert found.blocks.widest is None
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_products_are_one_term_of_the_same_sum(family, monkeypatch):
    kernel = reweight(FAMILIES[family](weights=(0.5, 1.0, 1.5, 2.0)), *categories())
    X = np.random.default_rng(2).uniform(-1, 1, (9, 4))
    merged, reference = pairs_of(kernel), unmerged(monkeypatch, kernel, PairSum)
    assert merged.terms < merged.pairs / 10
    P, Q = merged.prepare(X), reference.prepare(X)
    bound = np.sqrt(np.outer(P.error, P.error)) + np.sqrt(np.outer(Q.error, Q.error))
    assert (np.abs(merged.between(P, P) - reference.between(Q, Q)) <= bound).all()
    assert f"{merged.terms} of them distinct" in merged.describe()


@pytest.mark.parametrize("form", FORMS[1:])
def test_merging_keeps_more_precise_sums_precise(form, monkeypatch):
    kernel = reweight(SquaredExponential(sigma=0.3), *categories())
    X = np.random.default_rng(3).uniform(-1, 1, (9, 4))
    found, exact = pairs_of(kernel, form), unmerged(monkeypatch, kernel, ExtendedPairSum)
    P = found.prepare(X)
    bound = np.sqrt(np.outer(P.error, P.error)) + 1e-16 * np.abs(gram(exact, X))
    assert (np.abs(found.between(P, P) - gram(exact, X)) <= bound).all()


def test_terms_that_cancel_are_left_out():
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=2)))
    terms = pairs_of(reweight(SquaredExponential(), corners, [1.0, 1.0, 1.0, -1.0])).blocks.merged
    # Each product of two different corners comes from two pairs, of opposite coefficients.
    np.testing.assert_array_equal(terms.products.hi, [[1.0, 1.0]])


def test_sums_of_coefficients_are_exact():
    rng = np.random.default_rng(4)
    logs, sign = rng.normal(size=500), rng.choice([-1.0, 1.0], 500)
    group = rng.integers(0, 7, 500)
    products = dd.from_double(group[:, None].astype(float))
    found = merge(PairTerms(products, dd.from_double(logs), sign))
    exact = dd.scale(dd.exp(dd.from_double(logs)), sign)
    for i, value in enumerate(found.products.hi[:, 0]):
        members = group == value
        total = dd.sum_axis(dd.DoubleDouble(exact.hi[members], exact.lo[members]), 0)
        size = dd.exp(dd.DoubleDouble(found.log_size.hi[i : i + 1], found.log_size.lo[i : i + 1]))
        error = dd.subtract(dd.scale(size, found.sign[i]), dd.DoubleDouble(total.hi[None], total.lo[None]))
        assert abs(error.hi[0]) < 1e-28


def test_different_products_stay_as_they_are():
    rng = np.random.default_rng(5)
    terms = PairTerms(*(dd.from_double(rng.normal(size=shape)) for shape in ((9, 2), 9)), np.ones(9))
    assert merge(terms) is terms


def test_every_pair_that_counts_is_found():
    rng = np.random.default_rng(6)
    arguments, pairs = rng.normal(size=(700, 3)), 8 * rng.normal(size=(90, 3))
    counted = np.zeros((700, 90), dtype=bool)
    for rows, kept in significant_terms(arguments, pairs, 1, 20.0):
        counted[np.ix_(rows, kept)] = True
    exponents = arguments @ pairs.T
    assert counted[exponents > 20.0].all()
    assert not counted.all()


@pytest.mark.parametrize("form", FORMS)
def test_terms_left_out_change_less_than_is_stated(form, monkeypatch):
    kernel = reweight(NARROW, *levels())
    X, Y = np.random.default_rng(7).uniform(-1.2, 1.2, (2, 30, 3))
    found, whole = pairs_of(kernel, form), with_all_terms(monkeypatch, kernel, form)
    P, Q, of_x, of_y = found.prepare(X), found.prepare(Y), whole.prepare(X), whole.prepare(Y)
    left_out = found._left_out + 1e-16
    rounding = np.sqrt(np.outer(of_x.error, of_y.error))
    assert (np.abs(found.between(P, Q) - whole.between(of_x, of_y))[0] <= left_out + rounding).all()
    assert (P.error >= of_x.error).all()
    np.testing.assert_allclose(P.error, of_x.error, rtol=0.01, atol=2 * found._left_out)
    assert "do not vanish" in found.describe()


def test_rounding_of_large_exponents_leaves_nothing_out():
    rng = np.random.default_rng(12)
    for pair, u in zip(*rng.uniform(1, 2, (2, 50, 2)) * [[[1.0]], [[1e16]]], strict=True):
        arguments, pairs = np.array([[*u, -(pair @ u)]]), np.array([[*pair, 1.0]])
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(arguments[0], pairs[0], strict=True))
        assert list(significant_terms(arguments, pairs, 0, float(exact) - 1e-3))


def test_few_terms_are_computed(monkeypatch):
    form = pairs_of(reweight(NARROW, *levels()))
    computed = []

    def counting(*arguments):
        for rows, kept in significant_terms(*arguments):
            computed.append(len(rows) * len(kept))
            yield rows, kept

    P = form.prepare(np.random.default_rng(8).uniform(-1, 1, (60, 3)))
    # Threads cut the entries in runs, which put fewer of them that share terms together.
    monkeypatch.setattr("mkbo_plugins.core.evaluation.threads._blas_threads", lambda: 1)
    monkeypatch.setattr(pair_sum, "significant_terms", counting)
    form.between(P, form.prepare(P.points[:50]))
    assert sum(computed[-12:]) < 60 * 50 * form.terms / 4


@pytest.mark.parametrize("form", FORMS[:1])
def test_gradients_where_terms_are_left_out(form):
    form = pairs_of(reweight(NARROW, *levels()), form)
    X, Y = np.random.default_rng(9).uniform(-1, 1, (2, 4, 3))
    P, Q = form.prepare(X), form.prepare(Y)
    (of_x,), (of_y,) = form.vjp(P, Q, np.ones((1, 4, 4)))

    def total(x, y):
        left, right = form.prepare(x), form.prepare(y)
        scales = left.half_log_scale - P.half_log_scale, right.half_log_scale - Q.half_log_scale
        return float((form.between(left, right)[0] * np.exp(np.add.outer(*scales))).sum())

    for found, function, at in ((of_x, lambda x: total(x, Y), X), (of_y, lambda y: total(X, y), Y)):
        np.testing.assert_allclose(found, numeric_gradient(function, at, 1e-6), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_tensors_give_the_same_where_terms_are_left_out(form):
    torch = pytest.importorskip("torch")
    form = pairs_of(reweight(NARROW, *levels()), form)
    X, Y = np.random.default_rng(10).uniform(-1, 1, (2, 12, 3))
    P, Q = form.prepare(X), form.prepare(Y)
    R, S = (form.prepare(torch.as_tensor(Z)) for Z in (X, Y))
    rounding = np.sqrt(np.outer(P.error, Q.error)) + 1e-16
    assert (np.abs(form.between(R, S).numpy() - form.between(P, Q))[0] <= rounding).all()
    pulled = form.vjp(P, Q, np.ones((1, 12, 12))), form.vjp(R, S, torch.ones((1, 12, 12), dtype=torch.double))
    for ours, theirs in zip(*pulled, strict=True):
        np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-9, atol=1e-9)


def test_gram_matrices_are_semi_definite_where_terms_are_left_out():
    kernel = normalise(reweight(NARROW, *levels()))
    X = np.random.default_rng(11).uniform(-1, 1, (150, 3))
    assert smallest_eigenvalue(kernel.gram(X)) >= -1e-12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("base", [NARROW, SquaredExponential()])
def test_no_points_give_empty_results(base, form):
    form = pairs_of(reweight(base, *levels()), form)
    nothing, something = form.prepare(np.empty((0, 3))), form.prepare(np.ones((2, 3)))
    assert form.between(nothing, something).shape == (1, 0, 2)
    assert form.between(nothing, nothing).shape == (1, 0, 0)
