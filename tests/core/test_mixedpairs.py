"""The pair sum in the least precision that each entry needs."""

import numpy as np
import pytest
import torch

from mkbo_plugins.core import SquaredExponential, reweight
from mkbo_plugins.core.evaluator import PAIR_SHARE, CertifiedEvaluator
from mkbo_plugins.core.mixedpairs import MixedPairSum
from mkbo_plugins.core.pairsum import CompensatedPairSum, ExtendedPairSum, compose


@pytest.fixture(scope="module")
def forms():
    """Return a mixed sum with the compensated and the double-double one, for coefficients that cancel badly."""
    rng = np.random.default_rng(0)
    support, base = rng.uniform(-1, 1, (25, 3)), SquaredExponential(sigma=1.5)
    alpha = np.linalg.solve(base.gram(support) + 1e-9 * np.eye(25), rng.normal(size=25))
    kernel = reweight(base, support, alpha)
    coarse, fine = (compose(kernel.base, kernel.tables, 3, form) for form in (CompensatedPairSum, ExtendedPairSum))
    P = coarse.prepare(points(0))
    limit = float(np.quantile(P.error / P.diagonal, 0.8))
    return MixedPairSum(coarse.kernel, coarse.points, coarse.sign, coarse.log_abs, coarse.log_low, limit), coarse, fine


def points(seed, n=40):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3))


def relative(form, X):
    P = form.prepare(X)
    return P.error / P.diagonal


def test_entries_are_double_double_where_they_need_to_be_and_compensated_elsewhere(forms):
    mixed, coarse, fine = forms
    X, Y = points(1), points(2, 30)
    found, cheap, precise = (form.between(form.prepare(X), form.prepare(Y)) for form in forms)
    needed = np.sqrt(np.outer(relative(coarse, X), relative(coarse, Y))) > mixed.limit
    assert 0 < needed.sum() < needed.size / 2
    assert np.array_equal(found[needed], precise[needed])
    assert np.array_equal(found[~needed], cheap[~needed])
    P, Q = fine.prepare(X), fine.prepare(Y)
    assert (np.abs(found - precise) / np.sqrt(np.outer(P.diagonal, Q.diagonal))).max() <= mixed.limit


def test_diagonals_state_the_precision_they_have(forms):
    mixed, coarse, fine = forms
    X = points(3)
    P, exact = mixed.prepare(X), fine.prepare(X).diagonal
    assert coarse.prepare(X).worst_error() > mixed.limit
    assert P.worst_error() <= mixed.limit
    assert (np.abs(P.diagonal - exact) <= P.error + 1e-15 * exact).all()
    assert (P.diagonal == exact)[relative(coarse, X) > mixed.limit].all()


def test_gram_matrices_are_symmetric_and_rows_are_their_diagonal(forms):
    mixed, *_ = forms
    X, Y = points(4), points(5)
    P, Q = mixed.prepare(X), mixed.prepare(Y)
    gram = mixed.between(P, P)
    assert np.array_equal(gram, gram.T)
    np.testing.assert_allclose(mixed.rowwise(P, Q), np.diag(mixed.between(P, Q)), rtol=1e-9)
    np.testing.assert_array_equal(mixed.rowwise(P, P)[P.coarse > mixed.limit], P.diagonal[P.coarse > mixed.limit])


def test_batches_and_tensors_give_the_same(forms):
    mixed, *_ = forms
    X, Y = points(6).reshape(4, 10, 3), points(7, 20).reshape(4, 5, 3)
    together = mixed.between(mixed.prepare(X), mixed.prepare(Y))
    separate = [mixed.between(mixed.prepare(x), mixed.prepare(y)) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(together, np.stack(separate), rtol=1e-9, atol=1e-12)
    tensors = mixed.between(*(mixed.prepare(torch.as_tensor(Z)) for Z in (X, Y)))
    scale = np.sqrt(mixed.prepare(X).diagonal[..., :, None] * mixed.prepare(Y).diagonal[..., None, :])
    assert (np.abs(tensors.numpy() - together) / scale).max() < 2 * mixed.limit


def test_the_evaluator_takes_it_where_the_compensated_sum_falls_short(forms, monkeypatch):
    mixed, coarse, _ = forms
    alpha = coarse.sign * np.exp(coarse.log_abs + (coarse.points**2).sum(axis=1) / 3)
    evaluator = reweight(coarse.kernel, coarse.points, alpha).evaluator
    evaluator = CertifiedEvaluator(evaluator.base, evaluator.tables, 3, "auto", mixed.limit / PAIR_SHARE)
    monkeypatch.setattr(CertifiedEvaluator, "features", lambda *args, **kwargs: None)
    form, P, Q = evaluator.prepare(points(0))
    assert form.name == "mixed pairs"
    assert form.limit == pytest.approx(mixed.limit)
    assert P is Q
    assert P.worst_error() <= form.limit
