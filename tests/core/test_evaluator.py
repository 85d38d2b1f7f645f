"""Explicit features with their certificate, and the choice between ways to evaluate."""

import itertools
import math
import pickle
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mkbo_plugins.core import Exponential, Polynomial, SquaredExponential, TaylorSeries, reweight
from mkbo_plugins.core.evaluation import evaluator, prepared
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.evaluation.extended_pairs import ExtendedPairSum
from mkbo_plugins.core.evaluation.features import monomial_exponents, monomial_weights
from mkbo_plugins.core.evaluation.monomials import Monomials
from mkbo_plugins.core.evaluation.pair_blocks import compose
from mkbo_plugins.core.evaluation.pair_sum import PairSum
from mkbo_plugins.core.evaluation.truncation import truncate
from mkbo_plugins.errors import KernelError
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
    smallest_eigenvalue,
)


def certified(kernel, **options):
    return CertifiedEvaluator(kernel.base, kernel.tables, kernel.dimension, **options)


def corners(dimension):
    return np.array(list(itertools.product([-1.0, 0.0, 1e-3, 1.0], repeat=dimension)))


@few
@given(kernels, dimensions, st.booleans(), st.sampled_from([1e-4, 1e-8, 1e-12]), seeds)
def test_what_is_left_out_stays_below_its_certificate(family, dimension, weighted, tolerance, seed):
    """The certificate holds at every point of the box, relative to the diagonal there."""
    kernel = make_reweighted(family, dimension, np.random.default_rng(seed), weighted=weighted)
    found = truncate(kernel.base, kernel.tables, 1.0, tolerance, 100_000)
    exponents = monomial_exponents(dimension, 40)
    kept = {tuple(row) for row in found.monomials.exponents}
    others = np.array([row for row in exponents if tuple(row) not in kept] or np.zeros((0, dimension), int))
    X = corners(dimension)
    dropped = np.zeros(len(X))
    if len(others):
        powers = np.prod((X**2)[:, None, :] ** others, axis=2)
        dropped = powers @ monomial_weights(kernel.base, kernel.tables, others).value ** 2
    squares = found.monomials.evaluate(X) ** 2
    certificate, diagonal = found.charges @ squares, found.weights.value**2 @ squares
    assert (dropped <= certificate * (1 + 1e-9) + 1e-300).all()
    assert (certificate <= tolerance * diagonal + 1e-300).all()


@few
@given(kernels, dimensions, st.integers(1, 2), st.sampled_from([1.0, 1.5, 3.0]), seeds)
def test_features_agree_with_pairs(family, dimension, tables, reach, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng, weighted=True)
    for _ in range(tables - 1):
        kernel = reweight(kernel, *make_table(dimension, rng, 3))
    X, Y = reach * rng.uniform(-1, 1, (5, dimension)), reach * rng.uniform(-1, 1, (4, dimension))
    values = []
    for choice in ("features", "pairs"):
        P, Q = certified(kernel, choice=choice).prepare(X, Y)
        form = P.form
        values.append(form.between(P, Q)[0] * np.exp(P.half_log_scale[:, None] + Q.half_log_scale[None, :]))
        total = form.pointwise(X[0])
        values.append(total.mantissa * np.exp(total.log_scale))
        scale = np.exp(P.half_log_scale.max() + Q.half_log_scale.max())
    np.testing.assert_allclose(values[0], values[2], rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(values[1], values[3], rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_monomials(family):
    rng = np.random.default_rng(0)
    kernel = make_reweighted(family, 3, rng)
    form, X = certified(kernel, choice="features").features(), rng.uniform(-1, 1, (4, 3))
    X[0, 1] = 0.0
    P = form.prepare(X)
    upstream = rng.normal(size=4)
    expected = numeric_gradient(lambda x: float(form.prepare(x).diagonal @ upstream), X)
    np.testing.assert_allclose(upstream[:, None] * P.diagonal_gradient, expected, rtol=1e-6, atol=1e-8)


@few
@given(kernels, dimensions, st.sampled_from(["features", "pairs"]), seeds)
def test_curvatures_are_the_derivatives_of_slopes(family, dimension, choice, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng, weighted=True)
    U, V = rng.uniform(-1, 1, (2, 4, dimension))
    U[0, 0] = 0.0
    P, _ = certified(kernel, choice=choice).prepare(U)
    form, log_scale = P.form, 2 * P.half_log_scale
    found = form.curvatures(U, V, log_scale)
    expected = (form.slopes(U + 1e-5 * V, log_scale) - form.slopes(U - 1e-5 * V, log_scale)) / 2e-5
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * np.abs(form.slopes(U, log_scale)).max())


def test_monomials_are_products_of_powers_and_closed_under_parents():
    exponents = monomial_exponents(3, 4)
    order = np.lexsort((*(-exponents.T), [np.max(np.flatnonzero(k), initial=0) for k in exponents], exponents.sum(1)))
    exponents = exponents[order]
    raised = np.array([np.max(np.flatnonzero(k), initial=0) for k in exponents])
    known = {tuple(k): i for i, k in enumerate(exponents)}
    parents = [0] + [known[tuple(k - np.eye(3, dtype=int)[j])] for k, j in zip(exponents[1:], raised[1:], strict=True)]
    monomials = Monomials(exponents, np.array(parents), raised)
    X = np.random.default_rng(1).normal(size=(5, 3))
    X[0, 1] = 0
    expected = [[np.prod(x**k) for x in X] for k in exponents]
    np.testing.assert_allclose(monomials.evaluate(X), expected, rtol=1e-13)


@pytest.mark.parametrize("block", [1, 300, 1 << 12])
@pytest.mark.parametrize("family", ["squared_exponential", "polynomial"])
def test_blocks_of_features_do_not_matter(family, block, monkeypatch):
    kernel = make_reweighted(family, 2, np.random.default_rng(2))
    X, Y = np.random.default_rng(3).uniform(-1, 1, (2, 9, 2))
    upstream = np.random.default_rng(4).normal(size=(9, 9))

    def everything():
        P, Q = certified(kernel, choice="features").prepare(X, Y)
        form = P.form
        batch = form.prepare(np.concatenate([X, Y]))
        return [
            form.between(P, Q),
            form.between(P, P),
            form.between(batch, batch, 2),
            *form.vjp(P, Q, upstream[None]),
            *form.vjp(batch, batch, np.stack([upstream, -upstream])),
            form.entry_gradients(P, Q),
            P.diagonal_gradient,
            P.error,
            form.between(P, Q, 9),
            form.curvatures(X, Y, np.zeros(9)),
        ]

    whole = everything()
    monkeypatch.setattr("mkbo_plugins.core.evaluation.feature_sum.MAX_ENTRIES", block)
    blocks = everything()
    for a, b in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(blocks[1][0], blocks[1][0].T)


def test_memory_of_features_is_bounded(monkeypatch):
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(2))
    form, (X, Y) = (
        certified(kernel, choice="features").features(),
        np.random.default_rng(3).uniform(-1, 1, (2, 4000, 2)),
    )
    monkeypatch.setattr("mkbo_plugins.core.evaluation.feature_sum.MAX_ENTRIES", 1 << 14)
    P, Q = form.prepare(X), form.prepare(Y)
    upstream = np.ones((1000, 4, 4))
    for call in (
        lambda: form.between(P, Q, 1000),
        lambda: form.between(P, Q, 4000),
        lambda: form.vjp(P, Q, upstream),
        lambda: form.curvatures(X, Y, np.zeros(4000)),
        lambda: form.slopes(X, np.zeros(4000)),
    ):
        assert peak_bytes(call) < 4000 * len(form.monomials) * 8 / 2


@few
@given(kernels, dimensions, st.sampled_from(["features", "pairs"]), seeds)
def test_gradients_of_entries_are_slopes_at_products(family, dimension, choice, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, dimension, rng, weighted=True)
    X, Y = rng.uniform(-1, 1, (4, dimension)), rng.uniform(-1, 1, (3, dimension))
    X[0, 0] = Y[1, 0] = 0.0
    P, Q = certified(kernel, choice=choice).prepare(X, Y)
    log_scale = P.half_log_scale[:, None] + Q.half_log_scale
    expected = P.form.slopes(X[:, None, :] * Y, log_scale)
    found = P.form.entry_gradients(P, Q)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13 * np.abs(expected).max())


@few
@given(kernels, st.sampled_from(["features", "pairs", "mixed", "extended"]), st.sampled_from([1.0, 1e-3]), seeds)
def test_what_comes_from_a_point_is_between_and_gradients(family, name, reach, seed):
    rng = np.random.default_rng(seed)
    kernel = make_reweighted(family, 3, rng, weighted=True)
    assume(name in ("features", "pairs") or kernel.base.exponent_rate is not None)
    evaluator = certified(kernel)
    form = evaluator.features() if name == "features" else getattr(evaluator, name)
    P, Q = form.prepare(reach * rng.uniform(-1, 1, (1, 3))), form.prepare(rng.uniform(-1, 1, (5, 3)))
    between, gradients = form.from_point(P, Q)
    np.testing.assert_array_equal(between, form.between(P, Q)[0])
    assert (gradients is not None) == (name == "pairs" and reach == 1 and kernel.base.exponent_rate is not None)
    if gradients is not None:
        np.testing.assert_array_equal(gradients, form.entry_gradients(P, Q))
    upstream, of_diagonal = rng.normal(size=(2, 5)), rng.normal(size=2)
    found = form.vjp_of_point(P, Q, upstream, of_diagonal, gradients)
    expected = np.concatenate([form.vjp(P, Q, row[None, None, :], second=False)[0][0] for row in upstream])
    expected += of_diagonal[:, None] * P.diagonal_gradient
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


def names(kernel, n, reach=1.0, **options):
    X = reach * np.random.default_rng(5).uniform(-1, 1, (n, kernel.dimension))
    P, _ = certified(kernel, **options).prepare(X, X[::-1].copy())
    return P.form.name


def test_the_cheaper_way_is_chosen():
    smooth = reweight(SquaredExponential(sigma=3.0), *make_table(2, np.random.default_rng(6), 100))
    rough = reweight(SquaredExponential(sigma=0.05), *make_table(6, np.random.default_rng(7), 12))
    assert names(smooth, 200) == "features"
    assert names(rough, 200) == "pairs"
    assert names(smooth, 5, reach=30.0) != "features"


def test_precision_is_raised_where_terms_cancel():
    """A table of nearly equal points with opposite coefficients leaves no digits in double precision."""
    z = np.array([[0.4, 0.1], [0.4 + 1e-7, 0.1]])
    kernel = reweight(Exponential(sigma=0.02), z, [1.0, -1.0])
    X = np.array([[9.0, -8.5], [8.7, 9.0]])
    P, _ = certified(kernel).prepare(X)
    form = P.form
    assert form.name == "mixed pairs"
    best = ExtendedPairSum(compose(kernel.base, kernel.tables, 2))
    R = best.prepare(X)
    np.testing.assert_allclose(form.between(P, P), best.between(R, R), rtol=1e-12)
    plain = certified(kernel, choice="pairs")
    Q, _ = plain.prepare(X)
    assert Q.worst_error() > 1e-10


def test_weights_are_refined_where_points_near_the_origin_need_it():
    """A finite series has no extended pair sum; near the origin its constant feature is all that is left."""
    rng = np.random.default_rng(17)
    support, alpha = make_table(2, rng, 40)
    kernel = reweight(TaylorSeries(coefficients=(0.5, 0.0, 1.5)), support, 1e4 * alpha)
    X = np.vstack([rng.uniform(-1, 1, (60, 2)), [[9e-7, -2e-7]]])
    chosen = certified(kernel)
    assert chosen.features().prepare(X).worst_error() > 1e-10
    P, _ = chosen.prepare(X)
    assert P.form is chosen.features(precise=True)
    assert P.worst_error() <= 1e-10


@dataclass(frozen=True)
class Graded:
    """Points made ready, as far as their errors go."""

    count: int
    error: float
    diagonal: np.ndarray = field(default_factory=lambda: np.ones(1))
    log_damping: np.ndarray | None = None

    def worst_error(self):
        return self.error

    def unresolved(self):
        return self.count


def test_the_best_way_is_taken_where_none_is_good_enough(monkeypatch):
    chosen = certified(make_reweighted("polynomial", 2, np.random.default_rng(17)))
    best_of_each = {((0, 3e-3), (0, 1e-3), (0, 2e-3)): 1, ((2, 1e-16), (1, 1e-3), (1, 1e-12)): 2, ((1, 0), (1, 0)): 0}
    for found, best in best_of_each.items():
        ready = [Graded(count, error) for count, error in found]
        forms = [SimpleNamespace(prepare=lambda X, points=points: points) for points in ready]
        monkeypatch.setattr(CertifiedEvaluator, "_candidates", lambda *args, forms=forms: iter(forms))
        (points,) = chosen.ready([np.zeros((1, 2))], (1, 1), 1)
        assert (points.count, points.error) == found[best]


@pytest.mark.parametrize("base", [Polynomial(degree=6), TaylorSeries(coefficients=(0.5, 2, 1, 0.2, 0.1, 0.1, 0.3))])
def test_features_that_cost_more_than_few_pairs_are_used_where_pairs_lose_digits(base):
    rng = np.random.default_rng(20)
    alpha = np.array([3.0, -1.0, -1.0, -0.5, -0.5])
    kernel = reweight(base, rng.uniform(-1, 1, (5, 10)), alpha)
    chosen, X = certified(kernel), 1e-4 * rng.uniform(-1, 1, (3, 10))
    assert chosen.features() is None
    assert chosen.pairs.prepare(X).worst_error() > 1e-8
    P, _ = chosen.prepare(X)
    assert P.form.name == "features"
    assert P.worst_error() < 1e-10
    assert not P.vanishing.any()
    # So near the origin all but the features of first degree vanish, as coefficients sum to zero.
    first = base.coefficient(1) * X**2 @ (alpha @ kernel.tables[0].points) ** 2
    np.testing.assert_allclose(P.diagonal * np.exp(2 * P.half_log_scale), first, rtol=1e-4)


def test_a_form_that_tells_a_diagonal_from_zero_comes_before_one_that_does_not():
    rng = np.random.default_rng(21)
    resolved = 0
    for sigma in (0.1, 1.0, 10.0):
        for scale in (1e-6, 3e-7, 1e-7):
            support, alpha = make_table(3, rng, 30)
            # Without a constant and a linear part, so that little is left near the middle of the frame.
            parts = np.column_stack([np.ones(30), support])
            kernel = reweight(
                Exponential(sigma=sigma), support, alpha - parts @ np.linalg.lstsq(parts, alpha, rcond=None)[0]
            )
            chosen, X = certified(kernel), np.vstack([scale * rng.uniform(-1, 1, (1, 3)), rng.uniform(-1, 1, (2, 3))])
            P, _ = chosen.prepare(X)
            best = chosen.extended.prepare(X)
            assert P.vanishing.tolist() == best.vanishing.tolist()
            resolved += bool(chosen.pairs.prepare(X).vanishing.any() and not P.vanishing.any())
    assert resolved >= 5


@pytest.mark.parametrize("choice", ["features", "pairs", "extended", "auto"])
def test_what_rounded_coefficients_leave_at_the_middle_is_zero(choice):
    rng = np.random.default_rng(22)
    support, alpha = make_table(2, rng, 30)
    alpha = alpha - alpha.mean()
    alpha[0] -= alpha.sum()
    assert 0 < abs(math.fsum(alpha)) < 1e-15
    chosen = certified(reweight(Exponential(), support, alpha), choice=choice)
    P, _ = chosen.prepare(np.array([[0.0, 0.0], [1e-6, 0.0], [0.3, -0.4]]))
    assert P.vanishing.tolist() == [True, False, False]


@pytest.mark.parametrize("choice", ["pairs", "extended"])
@pytest.mark.parametrize("sigma", [1.0, 1e-4])
def test_points_too_far_for_exponents_are_refused(sigma, choice):
    kernel = reweight(Exponential(sigma=sigma), *make_table(2, np.random.default_rng(23)))
    for x in (1e8, 1e30):
        with pytest.raises(KernelError, match="exponents of the series go beyond"):
            certified(kernel, choice=choice).prepare(np.array([[0.5, 0.5], [x, -x]]))


def test_precise_features_are_charged_as_much():
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(18))
    chosen = certified(kernel, tolerance=1e-6)
    plain, precise = (
        form.charges * np.exp(2 * form.log_unit) for form in (chosen.features(), chosen.features(precise=True))
    )
    assert plain.any()
    np.testing.assert_allclose(precise, plain, rtol=1e-12)


def test_weights_that_cancel_are_precise_at_once():
    rng = np.random.default_rng(19)
    support, base = rng.uniform(-1, 1, (25, 2)), SquaredExponential(sigma=1.5)
    alpha = np.linalg.solve(base.gram(support) + 1e-9 * np.eye(25), rng.normal(size=25))
    form = certified(reweight(base, support, alpha)).features()
    assert form.prepare(rng.uniform(-1, 1, (40, 2))).worst_error() <= 1e-10


def test_what_was_left_out_is_no_zero_by_rounding():
    ones = np.ones(1)
    for truncation, expected in ((0.0, 0.0), (1e-11, 10.0)):
        P = prepared.Prepared(None, ones[:, None], ones, 1e-12 * ones, 1e-11 * ones, truncation * ones)
        assert P.worst_error() == pytest.approx(expected)


@pytest.mark.parametrize("choice", ["features", "pairs", "extended"])
def test_a_choice_is_kept(choice):
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(8))
    assert names(kernel, 30, choice=choice).startswith(choice)


def test_features_that_cannot_be_had_are_refused():
    kernel = reweight(SquaredExponential(sigma=1e-3), *make_table(4, np.random.default_rng(9), 20))
    with pytest.raises(KernelError, match="more than"):
        names(kernel, 5, choice="features")
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(9))
    inside, limited = np.full((2, 2), 0.5), certified(kernel, choice="features")
    high = reweight(Polynomial(degree=60), *make_table(2, np.random.default_rng(9)))
    for sets, chosen in (
        ((100 * inside,), limited),
        ((inside, 100 * inside), limited),
        ((2.1 * inside,), certified(kernel, choice="features", radius=1.0)),
        ((1e6 * inside,), certified(high, choice="features")),
        ((1e71 * inside,), limited),
    ):
        with pytest.raises(KernelError, match="too far outside"):
            chosen.prepare(*sets)


def test_extended_precision_is_refused_where_its_products_overflow():
    extended = certified(make_reweighted("squared_exponential", 2, np.random.default_rng(9)), choice="extended")
    with pytest.raises(KernelError, match="in extended precision overflow"):
        extended.prepare(np.full((2, 2), 1e71))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"choice": "fast"}, "choice"),
        ({"tolerance": 0.5}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"radius": 1.2}, "radius"),
    ],
)
def test_settings_are_checked(options, words):
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(10))
    with pytest.raises(KernelError, match=words):
        certified(kernel, **options)
    polynomial = make_reweighted("polynomial", 2, np.random.default_rng(10))
    with pytest.raises(KernelError, match="exponential"):
        certified(polynomial, choice="extended")


def test_a_smaller_tolerance_takes_more_features():
    kernel = make_reweighted("squared_exponential", 3, np.random.default_rng(11))
    sizes = [
        len(certified(kernel, choice="features", tolerance=t).features().monomials) for t in (1e-4, 1e-7, 1e-10, 1e-13)
    ]
    assert sizes == sorted(set(sizes))


def test_points_kept_ready_are_never_stale(monkeypatch):
    kernel = reweight(SquaredExponential(sigma=2.0), *make_table(2, np.random.default_rng(12), 60))
    chosen = certified(kernel, choice="features")
    X = np.random.default_rng(13).uniform(-1, 1, (6, 2))
    first = chosen.prepare(X)[0]
    assert chosen.prepare(X.copy())[0] is first
    X[2, 1] += 0.1
    changed = chosen.prepare(X)[0]
    np.testing.assert_array_equal(changed.diagonal, certified(kernel, choice="features").prepare(X)[0].diagonal)
    for seed in range(evaluator.KEPT_POINTS + 3):
        chosen.prepare(np.random.default_rng(seed).uniform(-1, 1, (3, 2)), X)
        assert chosen.prepare(X)[0] is changed


def test_pickles_leave_out_features():
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(14))
    chosen = certified(kernel, tolerance=1e-8)
    before = len(pickle.dumps(chosen))
    chosen.prepare(np.random.default_rng(15).uniform(-1, 1, (40, 2)))
    assert len(pickle.dumps(chosen)) == before
    assert pickle.loads(pickle.dumps(chosen)).tolerance == 1e-8


def test_a_description_says_how():
    kernel = make_reweighted("squared_exponential", 2, np.random.default_rng(16))
    assert "explicit features" in certified(kernel).describe()
    assert "15 pairs" in certified(kernel, choice="pairs").describe()
    assert "double-double" in certified(kernel, choice="extended").describe()


def test_vanishing_points_do_not_count_as_errors():
    kernel = reweight(Exponential(), [[0.5, 0.2], [-0.5, 0.1]], [1.0, -1.0])
    P, _ = certified(kernel, choice="features").prepare(np.array([[0.0, 0.0], [0.3, 0.1]]))
    assert P.vanishing.tolist() == [True, False]
    assert P.worst_error() < 1e-10
    assert prepared.VANISHING < 1e-200
    assert P.form.name == "features"


def test_pairs_of_two_tables_are_not_summed_where_features_are_cheaper(monkeypatch):
    def refuse(self, X):
        raise AssertionError("a sum over 40^4 pairs")

    kernel = SquaredExponential(sigma=2.0)
    for seed in (0, 1):
        kernel = reweight(kernel, *make_table(2, np.random.default_rng(seed), 40))
    monkeypatch.setattr(PairSum, "prepare", refuse)
    X = np.random.default_rng(2).uniform(-1, 1, (50, 2))
    assert smallest_eigenvalue(np.asarray(kernel.gram(X))) > -1e-12 * np.trace(kernel.gram(X))
