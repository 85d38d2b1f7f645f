"""Certified values of re-weighted kernels against mpmath, from the very doubles that define them."""

from functools import cache
from typing import NamedTuple

import mpmath
import numpy as np
import pytest

from mkbo_plugins.core import Exponential, Polynomial, ReweightedKernel, SquaredExponential, TaylorSeries, normalise
from mkbo_plugins.core.evaluation import evaluator
from mkbo_plugins.core.evaluation.prepared import VANISHING
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.training.svr import fit_svr
from tests.core.helpers import smallest_eigenvalue, weights_of

mp = mpmath.mp.clone()
mp.dps = 60
exact = np.frompyfunc(mp.mpf, 1, 1)
exponential = np.frompyfunc(mp.exp, 1, 1)
root = np.frompyfunc(mp.sqrt, 1, 1)

ROWS = 10
INSIDE, NEAR = 5, 8
"""Numbers of points within 1 and 4 half-widths of the frame; `make_points` has them first."""

BOXES = (1.0, 100.0, 1e4)
SIGMAS = (1e-3, 1e-1, 1.0, 10.0, 1e3)
DIMENSIONS = (1, 2, 5, 11)


class Case(NamedTuple):
    base: object
    support: np.ndarray
    X: np.ndarray
    series: np.ndarray
    """h(<<z_i, z_j, x_a, x_b>>), (pairs, entries), over unordered pairs of each."""


def make_points(dimension, rng):
    """Return points on axes, corners and a ray near the origin, by distance from the frame."""
    corner, axis = np.ones(dimension), np.eye(dimension)[-1]
    signs = rng.choice([-1.0, 1.0], dimension)
    ray = rng.uniform(-1, 1, dimension)
    inside = [corner, -axis, rng.uniform(-1, 1, dimension), 1e-2 * ray, 1e-4 * ray]
    return np.array([*inside, 1.5 * signs, 2 * axis, 4 * corner, 21 * axis, 21 * signs])


def make_series(base, support, X):
    """Return h at all products of two support points and two points."""
    i, j = np.triu_indices(len(support))
    a, b = np.triu_indices(len(X))
    Z, U = exact(support), exact(X)
    inner = (exact(weights_of(base, support.shape[1])) * Z[i] * Z[j]) @ (U[a] * U[b]).T
    if base.exponent_rate is not None:
        return exponential(inner / mp.mpf(base.sigma))
    return sum(mp.mpf(base.coefficient(q)) * inner**q for q in range(int(base.degree_limit) + 1))


@cache
def make_case(family, sigma, dimension, weighted, rows=ROWS, seed=0):
    rng = np.random.default_rng([seed, dimension, weighted])
    weights = tuple(rng.uniform(0.2, 3.0, dimension)) if weighted else None
    base = family(weights=weights) if sigma is None else family(sigma=sigma, weights=weights)
    support = rng.uniform(-1, 1, (rows, dimension))
    X = make_points(dimension, rng)
    return Case(base, support, X, make_series(base, support, X))


def smooth_alpha(case, C):
    """Return coefficients of a support vector machine of a smooth function, None where the Gram matrix overflows."""
    y = np.sin(2 * case.support[:, 0]) + (case.support.mean(axis=1)) ** 2
    with np.errstate(over="ignore"):
        gram = case.base.gram(case.support)
    return fit_svr(gram, y / y.std(), C, 1e-2).alpha if gram.max() < 1e6 else None


def bound_alpha(case, C):
    """Return coefficients at both bounds of the box, of sum zero."""
    signs = np.resize([1.0, -1.0], len(case.support))
    return C * np.random.default_rng(1).permutation(signs)


def alphas(case):
    candidates = [*(smooth_alpha(case, C) for C in BOXES), bound_alpha(case, BOXES[-1])]
    return [alpha for alpha in candidates if alpha is not None]


def true_sums(case, alpha):
    """Return the undamped S between all points, (n, n)."""
    base = case.base
    c = exact(alpha)
    if base.damping_rate:
        squares = exact(case.support) ** 2 @ exact(weights_of(base, case.support.shape[1]))
        c = c * exponential(-squares / (2 * mp.mpf(base.sigma)))
    i, j = np.triu_indices(len(alpha))
    n = len(case.X)
    S = np.empty((n, n), dtype=object)
    upper = np.triu_indices(n)
    S[upper] = (c[i] * c[j] * np.where(i == j, 1, 2)) @ case.series
    S.T[upper] = S[upper]
    return S


def true_mantissas(S, of_rows, of_columns):
    """Return the true mantissas on half log scales of the points of S."""
    return S * exponential(-exact(of_rows))[:, None] * exponential(-exact(of_columns))[None, :]


def true_normalised(S):
    norms = root(np.diag(S))
    return S / (norms[:, None] * norms[None, :])


def excess(values, true, bound):
    """Return the largest of true error over stated error; at most 1 where the statement holds."""
    assert np.isfinite(values).all()
    assert np.isfinite(bound).all()
    errors = np.abs(exact(values) - true)
    return float(np.max(errors / (exact(bound) + mp.mpf("1e-330"))))


def check_statement(kernel, S, X):
    """Check that errors of S between points X, of which S holds the first, are at most as stated."""
    P, Q = kernel.evaluator.prepare(X, X[::-1].copy())
    form = P.form
    n = len(S)
    scale, error = P.half_log_scale[:n], P.error[:n]
    true = true_mantissas(S, scale, scale)
    assert excess(P.diagonal[:n], np.diag(true), error) <= 1
    # A point made ready in another place may have another scale, and has then other mantissas and another error.
    other_scale, other_error = (values[::-1][:n] for values in (Q.half_log_scale, Q.error))
    within, across = form.between(P, P)[0, :n, :n], form.between(P, Q)[0, :n, ::-1][:, :n]
    for found, of_columns, of_error in ((within, scale, error), (across, other_scale, other_error)):
        bound = np.sqrt(error[:, None] * of_error[None, :])
        assert excess(found, true_mantissas(S, scale, of_columns), bound + np.spacing(np.abs(found))) <= 1
    largest = 2 * np.maximum(P.error[:n], VANISHING)
    assert not (P.vanishing[:n] & (np.diag(true) > largest)).any()
    return form, P


def check_promise(kernel, S, X):
    """Check entries of the normalised Gram matrix of X, of whose points S holds the first, and its eigenvalues."""
    _, P = check_statement(kernel, S, X)
    n = len(S)
    gram = normalise(kernel).gram(X)
    assert np.isfinite(gram).all()
    if kernel.base.damping_rate:
        assert np.isfinite(kernel.gram(X)).all()
    kept = ~P.vanishing[:n]
    true = true_normalised(S[np.ix_(kept, kept)])
    # Also a relative error of 1e-8 where an entry is at least 1e-2.
    assert np.max(np.abs(exact(gram[:n, :n][np.ix_(kept, kept)]) - true), initial=0) <= 1e-10
    assert smallest_eigenvalue(gram) >= -1e-12


def padded(X):
    """Return points of the frame with more of them, so many that features may be cheaper."""
    return np.vstack([X[:INSIDE], np.random.default_rng(2).uniform(-1, 1, (80, X.shape[1]))])


def cases(families, sigmas, dimensions=DIMENSIONS):
    """Return families by settings, every other one with weights."""
    return [
        pytest.param(
            family, sigma, d, weighted, id=f"{family.__name__}-{sigma}-{d}-{'weighted' if weighted else 'plain'}"
        )
        for i, sigma in enumerate(sigmas)
        for j, d in enumerate(dimensions)
        for k, family in enumerate(families)
        for weighted in [(i + j + k) % 2 == 1]
    ]


EXPONENTIALS = cases([SquaredExponential, Exponential], SIGMAS)


def polynomial(**options):
    return Polynomial(degree=4, **options)


def taylor(**options):
    return TaylorSeries(coefficients=(0.5, 0.0, 1.5, 0.7), **options)


FINITE = cases([polynomial, taylor], [None], (2, 5))


def reweighted(case, alpha, choice="auto"):
    return ReweightedKernel(case.base, (WeightedPoints(case.support, alpha),), choice)


@pytest.mark.parametrize(("family", "sigma", "dimension", "weighted"), EXPONENTIALS + FINITE)
def test_entries_are_as_exact_as_promised(family, sigma, dimension, weighted):
    case = make_case(family, sigma, dimension, weighted)
    for alpha in alphas(case):
        S = true_sums(case, alpha)
        check_promise(reweighted(case, alpha), S, case.X)
        check_promise(reweighted(case, alpha), S[:INSIDE, :INSIDE], padded(case.X))


@pytest.mark.parametrize("choice", ["pairs", "extended"])
@pytest.mark.parametrize(("family", "sigma", "dimension", "weighted"), EXPONENTIALS)
def test_errors_of_pairs_are_as_stated(family, sigma, dimension, weighted, choice):
    case = make_case(family, sigma, dimension, weighted)
    for alpha in alphas(case):
        check_statement(reweighted(case, alpha, choice), true_sums(case, alpha), case.X)


@pytest.mark.parametrize("count", [INSIDE, NEAR], ids=["inside", "near"])
@pytest.mark.parametrize(("family", "sigma", "dimension", "weighted"), EXPONENTIALS + FINITE)
def test_errors_of_features_are_as_stated(family, sigma, dimension, weighted, count, monkeypatch):
    monkeypatch.setattr(evaluator, "MAX_MONOMIALS", 2000)
    case = make_case(family, sigma, dimension, weighted)
    X = case.X[:count]
    for alpha in alphas(case):
        kernel = reweighted(case, alpha, "features")
        if kernel.evaluator.features(np.abs(X).max()) is not None:
            check_statement(kernel, true_sums(case, alpha)[:count, :count], X)
