"""The pair sum in the least precision that each entry needs."""

import numpy as np
import pytest
import torch

from mkbo_plugins.core import SquaredExponential, reweight
from mkbo_plugins.core.evaluation.evaluator import PAIR_SHARE, CertifiedEvaluator
from mkbo_plugins.core.evaluation.extended_pairs import ExtendedPairSum
from mkbo_plugins.core.evaluation.mixed_pairs import MixedPairSum
from mkbo_plugins.core.evaluation.pair_blocks import SCALE_STEPS, compose
from mkbo_plugins.core.evaluation.pair_sum import PairSum


@pytest.fixture(scope="module")
def forms():
    """Return a mixed sum with the plain and the double-double one, for coefficients that cancel badly."""
    rng = np.random.default_rng(0)
    support, base = rng.uniform(-1, 1, (25, 3)), SquaredExponential(sigma=1.5)
    alpha = np.linalg.solve(base.gram(support) + 1e-9 * np.eye(25), rng.normal(size=25))
    kernel = reweight(base, support, alpha)
    blocks = compose(kernel.base, kernel.tables, 3)
    plain, fine = PairSum(blocks), ExtendedPairSum(blocks)
    limit = float(np.quantile(relative(plain, points(0)), 0.8))
    return MixedPairSum(blocks, limit), plain, fine


def points(seed, n=40):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3))


def relative(form, X):
    P = form.prepare(X)
    return P.error / P.diagonal


def test_entries_have_the_least_precision_that_they_need(forms):
    mixed, plain, fine = forms
    X, Y = points(1), points(2, 30)
    found, cheap, best = (form.between(form.prepare(X), form.prepare(Y))[0] for form in forms)
    poor = np.sqrt(np.outer(relative(plain, X), relative(plain, Y))) > mixed.limit
    assert 0 < poor.sum() < poor.size
    np.testing.assert_allclose(found[poor], best[poor], rtol=1e-15)
    # The rounding of a sum depends on how many points are computed at once, up to what is stated of its terms.
    P, Q = plain.prepare(X), plain.prepare(Y)
    assert (np.abs(found - cheap) <= 2 * np.sqrt(np.outer(P.error, Q.error)))[~poor].all()
    P, Q = mixed.prepare(X), mixed.prepare(Y)
    assert (np.abs(found - best) <= np.sqrt(np.outer(P.error, Q.error)) + 1e-15 * np.abs(best)).all()
    P, Q = fine.prepare(X), fine.prepare(Y)
    assert (np.abs(found - best) / np.sqrt(np.outer(P.diagonal, Q.diagonal))).max() <= mixed.limit


def test_diagonals_state_the_precision_they_have(forms):
    mixed, plain, fine = forms
    X = points(3)
    P, exact = mixed.prepare(X), fine.prepare(X).diagonal
    assert plain.prepare(X).worst_error() > mixed.limit
    assert P.worst_error() <= mixed.limit
    assert (np.abs(P.diagonal - exact) <= P.error + 1e-15 * exact).all()
    wanting = relative(plain, X) > mixed.limit
    assert wanting.any()
    np.testing.assert_allclose(P.diagonal[wanting], exact[wanting], rtol=1e-15)


def test_diagonals_are_all_on_the_scale_of_their_point(forms, monkeypatch):
    mixed, *_ = forms
    X = points(3)
    before, half_scale = mixed.prepare(X), PairSum._half_scale
    assert (before.plain > mixed.limit).any()
    # What another order of additions does where a scale is rounded up.
    monkeypatch.setattr(ExtendedPairSum, "_half_scale", lambda form, Z: half_scale(form, Z) + 1 / SCALE_STEPS)
    P = mixed.prepare(X)
    np.testing.assert_array_equal(P.half_log_scale, before.half_log_scale)
    assert (np.abs(P.diagonal - before.diagonal) <= 2 * before.error).all()


def test_gram_matrices_are_symmetric_and_rows_are_their_diagonal(forms):
    mixed, *_ = forms
    X, Y = points(4), points(5)
    P, Q = mixed.prepare(X), mixed.prepare(Y)
    (gram,) = mixed.between(P, P)
    assert np.array_equal(gram, gram.T)
    scale = np.sqrt(np.outer(P.diagonal, P.diagonal))
    # Values computed in two ways differ by up to twice the error of one.
    assert (np.abs(gram - mixed.between(P, mixed.prepare(X.copy()))[0]) <= 2 * mixed.limit * scale).all()
    scale = np.sqrt(P.diagonal * Q.diagonal)
    rowwise = mixed.between(P, Q, len(X))[:, 0, 0]
    assert (np.abs(rowwise - np.diag(mixed.between(P, Q)[0])) <= 2 * mixed.limit * scale).all()


def test_batches_and_tensors_give_the_same(forms):
    mixed, *_ = forms
    X, Y = points(6), points(7, 20)
    P, Q = mixed.prepare(X), mixed.prepare(Y)
    together = mixed.between(P, Q, 4)
    scale = np.sqrt(P.diagonal.reshape(4, 10, 1) * Q.diagonal.reshape(4, 1, 5))
    halves = zip(X.reshape(4, 10, 3), Y.reshape(4, 5, 3), strict=True)
    separate = [mixed.between(mixed.prepare(x), mixed.prepare(y)) for x, y in halves]
    tensors = mixed.between(*(mixed.prepare(torch.as_tensor(Z)) for Z in (X, Y)), 4)
    for found in (np.concatenate(separate), tensors.numpy()):
        assert (np.abs(found - together) / scale).max() < 2 * mixed.limit


def evaluator_like(forms, tolerance):
    _, plain, _ = forms
    blocks = plain.blocks
    alpha = blocks.sign * np.exp(blocks.log_abs.hi + (blocks.points**2).sum(axis=1) / (2 * blocks.kernel.sigma))
    evaluator = reweight(blocks.kernel, blocks.points, alpha).evaluator
    return CertifiedEvaluator(evaluator.base, evaluator.tables, 3, "auto", tolerance)


def test_the_error_at_all_points_decides_with_a_margin_for_rounding(forms, monkeypatch):
    _, plain, _ = forms
    monkeypatch.setattr(CertifiedEvaluator, "features", lambda *args, **kwargs: None)
    X = points(0)
    errors = relative(plain, X)
    best, worst = X[[errors.argmin()]], X[[errors.argmax()]]
    assert errors.max() > 2 * errors.min() / PAIR_SHARE
    evaluator = evaluator_like(forms, 1.5 * errors.min() / PAIR_SHARE)
    assert evaluator.prepare(best)[0].form.name == "pairs"
    for sets in ((best, worst), (worst, best)):
        assert evaluator.prepare(*sets)[0].form.name == "mixed pairs"
    assert evaluator_like(forms, 0.75 * errors.max() / PAIR_SHARE).prepare(worst)[0].form.name == "mixed pairs"


def test_the_evaluator_takes_it_where_double_precision_falls_short(forms, monkeypatch):
    mixed, *_ = forms
    evaluator = evaluator_like(forms, mixed.limit / PAIR_SHARE)
    monkeypatch.setattr(CertifiedEvaluator, "features", lambda *args, **kwargs: None)
    P, Q = evaluator.prepare(points(0))
    assert P.form.name == "mixed pairs"
    assert P.form.limit == pytest.approx(mixed.limit)
    assert P is Q
    assert P.worst_error() <= P.form.limit
