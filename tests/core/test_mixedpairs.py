"""The pair sum in the least precision that each entry needs."""

import numpy as np
import pytest
import torch

from mkbo_plugins.core import SquaredExponential, reweight
from mkbo_plugins.core.evaluation.evaluator import PAIR_SHARE, CertifiedEvaluator
from mkbo_plugins.core.evaluation.mixedpairs import MixedPairSum
from mkbo_plugins.core.evaluation.pairsum import CompensatedPairSum, ExtendedPairSum, PairSum, compose


@pytest.fixture(scope="module")
def forms():
    """Return a mixed sum with the plain, compensated and double-double one, for coefficients that cancel badly."""
    rng = np.random.default_rng(0)
    support, base = rng.uniform(-1, 1, (25, 3)), SquaredExponential(sigma=1.5)
    alpha = np.linalg.solve(base.gram(support) + 1e-9 * np.eye(25), rng.normal(size=25))
    kernel = reweight(base, support, alpha)
    plain, coarse, fine = (
        compose(kernel.base, kernel.tables, 3, form) for form in (PairSum, CompensatedPairSum, ExtendedPairSum)
    )
    limit = float(np.quantile(relative(coarse, points(0)), 0.8))
    return (
        MixedPairSum(plain.kernel, plain.points, plain.sign, plain.log_abs, plain.log_low, limit),
        plain,
        coarse,
        fine,
    )


def points(seed, n=40):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3))


def relative(form, X):
    P = form.prepare(X)
    return P.error / P.diagonal


def test_entries_have_the_least_precision_that_they_need(forms):
    mixed, plain, coarse, fine = forms
    X, Y = points(1), points(2, 30)
    found, cheap, better, best = (form.between(form.prepare(X), form.prepare(Y)) for form in forms)
    poor, poorer = (np.sqrt(np.outer(relative(form, X), relative(form, Y))) > mixed.limit for form in (plain, coarse))
    for wanted, values in ((poorer, best), (poor & ~poorer, better), (~poor, cheap)):
        assert 0 < wanted.sum() < wanted.size
        np.testing.assert_allclose(found[wanted], values[wanted], rtol=1e-13, atol=1e-15)
    assert np.array_equal(found[poorer], best[poorer])
    P, Q = fine.prepare(X), fine.prepare(Y)
    assert (np.abs(found - best) / np.sqrt(np.outer(P.diagonal, Q.diagonal))).max() <= mixed.limit


def test_diagonals_state_the_precision_they_have(forms):
    mixed, plain, coarse, fine = forms
    X = points(3)
    P, exact = mixed.prepare(X), fine.prepare(X).diagonal
    assert coarse.prepare(X).worst_error() > mixed.limit
    assert P.worst_error() <= mixed.limit
    assert (np.abs(P.diagonal - exact) <= P.error + 1e-15 * exact).all()
    for form, better in ((plain, coarse), (coarse, fine)):
        wanting = (relative(form, X) > mixed.limit) & (relative(better, X) <= mixed.limit)
        assert wanting.any()
        assert (P.diagonal == better.prepare(X).diagonal)[wanting].all()


def test_gram_matrices_are_symmetric_and_rows_are_their_diagonal(forms):
    mixed, *_ = forms
    X, Y = points(4), points(5)
    P, Q = mixed.prepare(X), mixed.prepare(Y)
    gram = mixed.between(P, P)
    assert np.array_equal(gram, gram.T)
    scale = np.sqrt(np.outer(P.diagonal, P.diagonal))
    assert (np.abs(gram - mixed.between(P, mixed.prepare(X.copy()))) <= mixed.limit * scale).all()
    scale = np.sqrt(P.diagonal * Q.diagonal)
    assert (np.abs(mixed.rowwise(P, Q) - np.diag(mixed.between(P, Q))) <= mixed.limit * scale).all()
    needed = P.compensated > mixed.limit
    np.testing.assert_array_equal(mixed.rowwise(P, P)[needed], P.diagonal[needed])


def test_batches_and_tensors_give_the_same(forms):
    mixed, *_ = forms
    X, Y = points(6).reshape(4, 10, 3), points(7, 20).reshape(4, 5, 3)
    P, Q = mixed.prepare(X), mixed.prepare(Y)
    together, scale = mixed.between(P, Q), np.sqrt(P.diagonal[..., :, None] * Q.diagonal[..., None, :])
    separate = [mixed.between(mixed.prepare(x), mixed.prepare(y)) for x, y in zip(X, Y, strict=True)]
    tensors = mixed.between(*(mixed.prepare(torch.as_tensor(Z)) for Z in (X, Y)))
    for found in (np.stack(separate), tensors.numpy()):
        assert (np.abs(found - together) / scale).max() < 2 * mixed.limit


def test_the_evaluator_takes_it_where_the_compensated_sum_falls_short(forms, monkeypatch):
    mixed, _, coarse, _ = forms
    alpha = coarse.sign * np.exp(coarse.log_abs + (coarse.points**2).sum(axis=1) / (2 * coarse.kernel.sigma))
    evaluator = reweight(coarse.kernel, coarse.points, alpha).evaluator
    evaluator = CertifiedEvaluator(evaluator.base, evaluator.tables, 3, "auto", mixed.limit / PAIR_SHARE)
    monkeypatch.setattr(CertifiedEvaluator, "features", lambda *args, **kwargs: None)
    form, P, Q = evaluator.prepare(points(0))
    assert form.name == "mixed pairs"
    assert form.limit == pytest.approx(mixed.limit)
    assert P is Q
    assert P.worst_error() <= form.limit
