"""Gram matrices of batches in which points occur more than once, and their gradients."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins.core.evaluation.evaluator import KEPT_RESULTS, CertifiedEvaluator
from mkbo_plugins.core.evaluation.pair_sum import PairSum
from mkbo_plugins.core.reweighted import block, gram
from mkbo_plugins.core.reweighted.formulas import FeatureDistance, Normalised, Reweighted
from tests.core.helpers import few, kernels, make_reweighted, numeric_gradient, seeds

FORMULAS = {"reweighted": Reweighted(), "normalised": Normalised(), "feature_distance": FeatureDistance()}
CHOICES = ("features", "pairs")
B, N, M, D = 3, 4, 3, 2
formulas = st.sampled_from(sorted(FORMULAS))
ways = st.sampled_from(CHOICES)
own_of_x, own_of_y = (st.sets(st.integers(0, n - 1)) for n in (N, M))


def evaluate(formula, evaluator, X, Y=None):
    return gram.gram(formula, evaluator, X, Y).value


def pull(formula, evaluator, X, Y, upstream, **options):
    return gram.gram(formula, evaluator, X, Y).vjp(upstream, **options)


def evaluator_of(family="squared_exponential", choice="pairs", seed=0):
    kernel = make_reweighted(family, D, np.random.default_rng(seed))
    return replace(kernel, choice=choice).evaluator


def batches(own, n, rng):
    """Return points (B, n, D) that are the same in every batch but at the positions `own`."""
    X = np.tile(rng.uniform(-1, 1, (n, D)), (B, 1, 1))
    X[:, sorted(own), :] = rng.uniform(-1, 1, (B, len(own), D))
    return X


def one_by_one(formula, evaluator, X, Y):
    """Return the Gram matrix of each batch alone."""
    return np.stack([evaluate(formula, evaluator, X[b], None if Y is None else Y[b]) for b in range(len(X))])


def pulled_one_by_one(formula, evaluator, X, Y, upstream):
    """Return the gradients of each batch alone."""
    pairs = [pull(formula, evaluator, X[b], None if Y is None else Y[b], upstream[b]) for b in range(len(X))]
    return tuple(np.stack(part) for part in zip(*pairs, strict=True))


def check(formula, evaluator, X, Y, rng):
    """Compare values and gradients of batches with those of each batch alone."""
    value = evaluate(formula, evaluator, X, Y)
    scale = np.abs(value).max() + 1e-300
    np.testing.assert_allclose(value, one_by_one(formula, evaluator, X, Y), rtol=1e-12, atol=1e-14 * scale)
    upstream = rng.normal(size=value.shape)
    found = pull(formula, evaluator, X, Y, upstream)
    expected = pulled_one_by_one(formula, evaluator, X, Y, upstream)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12 * max(np.abs(theirs).max(), scale))
    only, none = pull(formula, evaluator, X, Y, upstream, second=False)
    np.testing.assert_allclose(only, expected[0], rtol=1e-10, atol=1e-12 * max(np.abs(expected[0]).max(), scale))
    assert none is None


@few
@given(kernels, formulas, ways, own_of_x, own_of_y, seeds)
def test_batches_equal_one_at_a_time(family, name, choice, own_x, own_y, seed):
    rng = np.random.default_rng(seed)
    X, Y = batches(own_x, N, rng), batches(own_y, M, rng)
    evaluator = evaluator_of(family, choice, seed)
    check(FORMULAS[name], evaluator, X, Y, rng)
    check(FORMULAS[name], evaluator, X, None, rng)


@few
@given(formulas, ways, own_of_x, seeds)
def test_coinciding_points_of_different_kinds(name, choice, own, seed):
    rng = np.random.default_rng(seed)
    X = batches(own, N, rng)
    X[:, 0, :] = X[1, 1, :]
    X[0, 2, :] = X[0, 3, :]
    evaluator = evaluator_of(choice=choice, seed=seed)
    check(FORMULAS[name], evaluator, X, None, rng)
    check(FORMULAS[name], evaluator, X, X.copy(), rng)
    check(FORMULAS[name], evaluator, X, X[:, ::-1, :].copy(), rng)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", FORMULAS)
def test_every_copy_has_its_own_gradient(name, choice):
    rng = np.random.default_rng(5)
    X, Y = batches([1], N, rng), batches([], M, rng)
    evaluator, formula = evaluator_of(choice=choice), FORMULAS[name]
    for other in (Y, X + 0.0):
        upstream = rng.normal(size=(B, N, other.shape[1]))
        found = pull(formula, evaluator, X, other, upstream)
        functions = (
            lambda Z, Y=other, U=upstream: (U * evaluate(formula, evaluator, Z, Y)).sum(),
            lambda Z, U=upstream: (U * evaluate(formula, evaluator, X, Z)).sum(),
        )
        for ours, function, points in zip(found, functions, (X, other), strict=True):
            expected = numeric_gradient(function, points)
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("own", [[], [2], [0, 3], [0, 1, 2, 3]])
def test_the_gradient_of_points_with_themselves_goes_through_both_arguments(name, choice, own):
    rng = np.random.default_rng(6)
    X, upstream = batches(own, N, rng), rng.normal(size=(B, N, N))
    evaluator, formula = evaluator_of(choice=choice), FORMULAS[name]
    found = pull(formula, evaluator, X, None, upstream)
    expected = numeric_gradient(lambda Z: (upstream * evaluate(formula, evaluator, Z)).sum(), X)
    np.testing.assert_allclose(sum(found), expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(("own", "n"), [([1], N), ([0], 1)])
@pytest.mark.parametrize("name", FORMULAS)
def test_points_without_batches_meet_batches(name, own, n):
    rng = np.random.default_rng(7)
    X, Y = batches(own, n, rng), rng.uniform(-1, 1, (M, D))
    evaluator, formula = evaluator_of(), FORMULAS[name]
    value, upstream = evaluate(formula, evaluator, X, Y), rng.normal(size=(B, n, M))
    repeated = np.tile(Y, (B, 1, 1))
    np.testing.assert_allclose(value, one_by_one(formula, evaluator, X, repeated), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(evaluate(formula, evaluator, Y, X), np.swapaxes(value, 1, 2), rtol=1e-12, atol=1e-14)
    of_x, of_copies = pulled_one_by_one(formula, evaluator, X, repeated, upstream)
    of_y, of_x_too = pull(formula, evaluator, Y, X, np.swapaxes(upstream, 1, 2))
    for ours, theirs in (
        *zip(pull(formula, evaluator, X, Y, upstream), (of_x, of_copies.sum(axis=0)), strict=True),
        (of_y, of_copies.sum(axis=0)),
        (of_x_too, of_x),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12 * np.abs(theirs).max())


def test_several_batch_axes_broadcast():
    rng = np.random.default_rng(8)
    X, Y = batches([1], N, rng)[:, None], batches([0], M, rng)[None, :2]
    evaluator = evaluator_of()
    value = evaluate(Reweighted(), evaluator, X, Y)
    assert value.shape == (B, 2, N, M)
    upstream = rng.normal(size=value.shape)
    of_x, of_y = pull(Reweighted(), evaluator, X, Y, upstream)
    assert (of_x.shape, of_y.shape) == (X.shape, Y.shape)
    for index in np.ndindex(B, 2):
        alone = evaluate(Reweighted(), evaluator, X[index[0], 0], Y[0, index[1]])
        np.testing.assert_allclose(value[index], alone, rtol=1e-12)
    for ours, function, points in (
        (of_x, lambda Z: (upstream * evaluate(Reweighted(), evaluator, Z, Y)).sum(), X),
        (of_y, lambda Z: (upstream * evaluate(Reweighted(), evaluator, X, Z)).sum(), Y),
    ):
        expected = numeric_gradient(function, points)
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("shapes", [((0, N, D), None), ((B, 0, D), (B, M, D)), ((B, N, D), (0, D)), ((0, D), (M, D))])
def test_nothing_gives_nothing(shapes):
    X, Y = (None if shape is None else np.zeros(shape) for shape in shapes)
    evaluator = evaluator_of()
    value = evaluate(Reweighted(), evaluator, X, Y)
    assert value.size == 0
    of_x, of_y = pull(Reweighted(), evaluator, X, Y, value)
    assert (of_x.shape, of_y.shape) == (X.shape, X.shape if Y is None else Y.shape)
    assert not of_x.any()
    assert not of_y.any()


def test_common_points_are_evaluated_once(monkeypatch):
    entries, asked = PairSum.entries, []
    monkeypatch.setattr(
        PairSum,
        "entries",
        lambda self, P, Q, rows, columns: asked.append(rows.size) or entries(self, P, Q, rows, columns),
    )
    rng = np.random.default_rng(9)
    X, evaluator = batches([1], N, rng), evaluator_of()
    evaluate(FeatureDistance(), evaluator, X)
    common = N - 1
    assert sum(asked) == B * common + common * (common + 1) // 2
    asked.clear()
    X[:, 1, :] += 0.1
    evaluate(FeatureDistance(), evaluator, X)
    assert sum(asked) == B * common


@pytest.mark.parametrize(
    ("own_x", "own_y"), [([], []), ([1], []), ([], [0, 2]), ([1], [0, 2]), ([0, 1, 2, 3], [0, 1, 2])]
)
def test_the_evaluator_is_told_how_many_entries_there_are(own_x, own_y, monkeypatch):
    rng, asked, ready = np.random.default_rng(14), [], CertifiedEvaluator.ready
    monkeypatch.setattr(
        CertifiedEvaluator,
        "ready",
        lambda self, sets, sizes, n: asked.append((sizes, n)) or ready(self, sets, sizes, n),
    )
    evaluate(Reweighted(), evaluator_of(), batches(own_x, N, rng), batches(own_y, M, rng))
    of_x, of_y = ([*range(B)] * len(own) + [None] * (n - len(own)) for own, n in ((own_x, N), (own_y, M)))
    meetings = sum(x is None or y is None or x == y for x in of_x for y in of_y)
    assert asked == [((len(of_x), len(of_y)), meetings)]


def test_what_is_kept_follows_the_points():
    rng = np.random.default_rng(10)
    evaluator, formula = evaluator_of(), FeatureDistance()
    X, upstream = batches([1], N, rng), rng.normal(size=(B, N, N))
    for _ in range(12):
        X[:, 2:, :] += 0.01
        value = evaluate(formula, evaluator, X)
        fresh = evaluator_of()
        np.testing.assert_allclose(value, one_by_one(formula, fresh, X, None), rtol=1e-12, atol=1e-14)
        for ours, theirs in zip(
            pull(formula, evaluator, X, None, upstream),
            pulled_one_by_one(formula, fresh, X, None, upstream),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
        assert len(evaluator._values._entries) <= KEPT_RESULTS


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", FORMULAS)
def test_blocks_do_not_matter(name, choice, monkeypatch):
    rng = np.random.default_rng(11)
    X, Y = batches([0, 2], N, rng), batches([1], M, rng)
    evaluator, formula = evaluator_of(choice=choice), FORMULAS[name]
    monkeypatch.setattr(block, "KEPT_ENTRIES", 0)
    monkeypatch.setattr(gram, "MAX_ENTRIES", 16)
    value, upstream = evaluate(formula, evaluator, X, Y), rng.normal(size=(B, N, M))
    assert len(gram.gram(formula, evaluator, X, Y).blocks) == B
    found = value, evaluate(formula, evaluator, X), *pull(formula, evaluator, X, Y, upstream)
    monkeypatch.undo()
    whole = evaluate(formula, evaluator, X, Y), evaluate(formula, evaluator, X)
    for ours, theirs in zip(found, (*whole, *pull(formula, evaluator, X, Y, upstream)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


def test_large_results_between_shared_points_are_not_kept(monkeypatch):
    rng = np.random.default_rng(15)
    X, evaluator = batches([1], N, rng), evaluator_of()
    monkeypatch.setattr(block, "KEPT_ENTRIES", (N - 1) ** 2 * D - 1)
    matrix = gram.gram(FeatureDistance(), evaluator, X)
    matrix.vjp(np.ones((B, N, N)))
    assert not evaluator._values._entries
    monkeypatch.setattr(block, "KEPT_ENTRIES", (N - 1) ** 2 * D)
    matrix.vjp(np.ones((B, N, N)))
    assert len(evaluator._values._entries) == 1


def test_rows_are_evaluated_like_the_matrix_whose_diagonal_they_are():
    rng = np.random.default_rng(16)
    X, Y = rng.uniform(-1, 1, (2, 200, D))
    evaluator = evaluator_of(choice="auto")
    matrix, rows = (gram.gram(Reweighted(), evaluator, X, Y, elementwise=elementwise) for elementwise in (False, True))
    assert evaluator.prepare(X[:1], Y[:1])[0].form.name == "pairs"
    assert evaluator.prepare(X, Y)[0].form.name == "features"
    scale = np.abs(matrix.value).max()
    np.testing.assert_allclose(rows.value, np.diag(matrix.value), rtol=0, atol=1e-14 * scale)
    assert rows.blocks[0].points[0][0].form is matrix.blocks[0].points[0][1].form


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", FORMULAS)
def test_runs_of_rows_do_not_matter(name, choice, monkeypatch):
    """One matrix too large for a block is evaluated, and its gradient pulled back, a few of its rows at a time."""
    rng = np.random.default_rng(13)
    X, Y = rng.uniform(-1, 1, (7, D)), rng.uniform(-1, 1, (5, D))
    evaluator, formula = evaluator_of(choice=choice), FORMULAS[name]

    def everything():
        results = []
        for other in (Y, None):
            matrix = gram.gram(formula, evaluator, X, other)
            upstream = np.random.default_rng(14).normal(size=matrix.value.shape)
            results += [matrix.value, *matrix.vjp(upstream), matrix.vjp(upstream, second=False)[0]]
        return results

    whole = everything()
    monkeypatch.setattr(gram, "MAX_ENTRIES", 60)
    assert len(gram.gram(formula, evaluator, X, Y).blocks) == 3
    for ours, theirs in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)
    within = evaluate(formula, evaluator, X)
    np.testing.assert_array_equal(within, within.T)
    if formula.of_equal_points is not None:
        np.testing.assert_array_equal(np.diag(within), formula.of_equal_points)


@pytest.mark.parametrize("name", FORMULAS)
def test_torch_gives_the_same(name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(12)
    X, Y = batches([0, 2], N, rng), batches([1], M, rng)
    evaluator, formula = evaluator_of(), FORMULAS[name]
    value, upstream = evaluate(formula, evaluator, X, Y), rng.normal(size=(B, N, M))
    ours = value, *pull(formula, evaluator, X, Y, upstream)
    tensors = tuple(map(torch.from_numpy, (X, Y)))
    their_value = evaluate(formula, evaluator, *tensors)
    theirs = their_value, *pull(formula, evaluator, *tensors, torch.from_numpy(upstream))
    for array, tensor in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-11, atol=1e-13)
