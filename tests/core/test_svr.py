"""Support vector regression and its exact leave-one-out."""

import warnings

import numpy as np
import pytest
from sklearn.svm import SVC, SVR

from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.training import svr
from mkbo_plugins.core.training.svr import estimate_leave_one_out, fit_svr, leave_one_out

TIGHT = 1e-9


def problem(n=18, seed=0, scale=1.0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + rng.normal(0, 0.2, n)
    return X, SquaredExponential(sigma=0.5).gram(X), scale * y + shift


def plain_fit(gram, y, C, epsilon, sample_weight=None):
    return SVR(kernel="precomputed", C=C, epsilon=epsilon, tol=TIGHT).fit(gram, y, sample_weight=sample_weight)


@pytest.mark.parametrize(("C", "epsilon"), [(0.3, 0.1), (2.0, 0.05), (20.0, 0.3), (2.0, 0.0)])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e4, -3e4), (1e-4, 5e-4)])
def test_is_the_machine_of_scikit_learn_at_any_scale_of_y(C, epsilon, scale, shift):
    _, gram, y = problem()
    _, _, scaled = problem(scale=scale, shift=shift)
    plain = plain_fit(gram, y, C, epsilon)
    fit = fit_svr(gram, scaled, scale * C, scale * epsilon, tolerance=TIGHT)
    alpha = np.zeros(len(y))
    alpha[plain.support_] = plain.dual_coef_[0]
    np.testing.assert_allclose(fit.alpha / scale, alpha, rtol=0, atol=1e-5)
    predicted = gram @ (fit.alpha / scale) + (fit.bias - shift) / scale
    np.testing.assert_allclose(predicted, plain.predict(gram), rtol=0, atol=1e-5)
    assert fit.converged


@pytest.mark.parametrize(("C", "epsilon"), [(0.3, 0.1), (3.0, 0.05)])
def test_meets_the_optimality_conditions(C, epsilon):
    _, gram, y = problem(scale=10.0)
    fit = fit_svr(gram, y, C, epsilon, tolerance=TIGHT)
    residuals = y - gram @ fit.alpha - fit.bias
    free = (np.abs(fit.alpha) > 1e-6 * C) & (np.abs(fit.alpha) < C * (1 - 1e-6))
    assert abs(fit.alpha.sum()) < 1e-9 * C
    assert np.abs(fit.alpha).max() <= C * (1 + 1e-12)
    np.testing.assert_allclose(np.abs(residuals[free]), epsilon, rtol=0, atol=1e-6)
    assert (np.abs(residuals[fit.alpha == 0]) <= epsilon + 1e-6).all()
    assert (residuals * fit.alpha >= -1e-6).all()


def test_weight_two_is_a_row_given_twice():
    _, gram, y = problem()
    weight = np.ones(len(y))
    weight[[2, 5, 9]] = 2
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = fit_svr(gram, y, 1.0, 0.05, weight, TIGHT)
    repeated = fit_svr(gram[np.ix_(rows, rows)], y[rows], 1.0, 0.05, tolerance=TIGHT)
    summed = np.bincount(rows, repeated.alpha)
    np.testing.assert_allclose(summed, weighted.alpha, rtol=0, atol=1e-5)
    assert repeated.bias == pytest.approx(weighted.bias, abs=1e-5)
    assert np.abs(weighted.alpha).max() > 1 + 1e-6


def test_a_constant_target_is_its_own_bias():
    _, gram, _ = problem()
    fit = fit_svr(gram, np.full(len(gram), 7.0), 1.0, 0.1)
    assert not fit.alpha.any()
    assert fit.bias == pytest.approx(7.0)


def test_an_early_stop_is_reported_without_a_warning(monkeypatch):
    monkeypatch.setattr(svr, "MAX_ITERATIONS", 3)
    _, gram, y = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not fit_svr(gram, y, 100.0, 0.0).converged
        assert not leave_one_out(gram, y, 100.0, 0.0).converged


def plain_leave_out(gram, y, C, epsilon, labels, sample_weight=None):
    """Refit without every group of rows in turn, whether or not one of them is a support vector."""
    residuals = np.empty_like(y)
    for label in np.unique(labels):
        held, kept = labels == label, labels != label
        weight = None if sample_weight is None else sample_weight[kept]
        machine = plain_fit(gram[np.ix_(kept, kept)], y[kept], C, epsilon, weight)
        residuals[held] = machine.predict(gram[np.ix_(held, kept)]) - y[held]
    return residuals


@pytest.mark.parametrize(
    ("C", "epsilon"), [(0.001, 0.4), (0.02, 0.3), (0.5, 0.2), (3.0, 0.05), (3.0, 0.3), (30.0, 0.1)]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_leave_one_out_is_a_refit_without_each_row(C, epsilon, seed):
    _, gram, y = problem(seed=seed)
    loo = leave_one_out(gram, y, C, epsilon, tolerance=TIGHT)
    expected = plain_leave_out(gram, y, C, epsilon, np.arange(len(y)))
    np.testing.assert_allclose(loo.residuals, expected, rtol=0, atol=1e-5)
    assert loo.error == pytest.approx(np.mean(expected**2), rel=1e-5)


@pytest.fixture
def refits(monkeypatch):
    """Return a list that grows by one with each refit."""
    made, refit = [], svr.fit_without
    monkeypatch.setattr(svr, "fit_without", lambda *a: made.append(1) or refit(*a))
    return made


def test_leave_one_out_refits_only_support_vectors(refits):
    _, gram, y = problem()
    support = np.count_nonzero(fit_svr(gram, y, 3.0, 0.3).alpha)
    leave_one_out(gram, y, 3.0, 0.3)
    assert 0 < support < len(y)
    assert len(refits) == support


@pytest.mark.parametrize(("C", "epsilon"), [(0.001, 0.4), (0.5, 0.0), (3.0, 0.1), (30.0, 0.2)])
def test_pivots_and_solver_agree(C, epsilon, monkeypatch):
    _, gram, y = problem(n=40)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    settings = {"sample_weight": weight, "groups": np.arange(len(y)) // 2, "tolerance": TIGHT}
    loo = leave_one_out(gram, y, C, epsilon, **settings)
    monkeypatch.setattr(svr, "fit_without", lambda *a: None)
    by_solver = leave_one_out(gram, y, C, epsilon, **settings)
    assert by_solver.converged
    np.testing.assert_allclose(loo.residuals, by_solver.residuals, rtol=0, atol=1e-5)


def test_groups_are_held_out_together():
    _, gram, y = problem()
    groups = np.array(list("aabbbcddefghhhiijk"))
    loo = leave_one_out(gram, y, 3.0, 0.1, groups=groups, tolerance=TIGHT)
    expected = plain_leave_out(gram, y, 3.0, 0.1, groups)
    np.testing.assert_allclose(loo.residuals, expected, rtol=0, atol=1e-5)


def test_groups_of_single_rows_change_nothing():
    _, gram, y = problem()
    alone = leave_one_out(gram, y, 3.0, 0.1)
    grouped = leave_one_out(gram, y, 3.0, 0.1, groups=np.arange(len(y))[::-1])
    np.testing.assert_allclose(grouped.residuals, alone.residuals, rtol=0, atol=1e-12)


def test_replicates_leak_unless_grouped():
    _, gram, y = problem()
    rows = np.repeat(np.arange(len(y)), 2)
    gram, y = gram[np.ix_(rows, rows)], y[rows]
    leaking = leave_one_out(gram, y, 30.0, 0.01).error
    honest = leave_one_out(gram, y, 30.0, 0.01, groups=rows).error
    assert honest > 3 * leaking


@pytest.mark.parametrize(("C", "epsilon"), [(0.001, 0.4), (1.0, 0.1)])
def test_weights_enter_refits_and_the_mean(C, epsilon):
    _, gram, y = problem()
    weight = np.random.default_rng(3).uniform(0.3, 3, len(y))
    loo = leave_one_out(gram, y, C, epsilon, sample_weight=weight, tolerance=TIGHT)
    expected = plain_leave_out(gram, y, C, epsilon, np.arange(len(y)), weight)
    np.testing.assert_allclose(loo.residuals, expected, rtol=0, atol=1e-5)
    assert loo.error == pytest.approx(np.average(expected**2, weights=weight), rel=1e-5)


def test_is_abandoned_only_when_certainly_worse():
    _, gram, y = problem()
    error = leave_one_out(gram, y, 3.0, 0.1).error
    for bar in (error, error * 1.001, np.inf):
        assert leave_one_out(gram, y, 3.0, 0.1, abandon_above=bar).error == error
    assert leave_one_out(gram, y, 3.0, 0.1, abandon_above=error / 2).error == np.inf


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_row_is_predicted_better_without_itself(labels, C, weighted, monkeypatch):
    _, gram, y = problem()
    y, epsilon = (np.where(y > np.median(y), 1.0, -1.0), 0.0) if labels else (y, 0.1)
    weight = np.random.default_rng(3).uniform(0.3, 3, len(y)) if weighted else None
    bounds = []
    monkeypatch.setattr(svr, "MARGIN", 1)
    least = svr._least_loss
    monkeypatch.setattr(svr, "_least_loss", lambda *given: bounds.append(least(*given)) or bounds[0])
    loo = leave_one_out(gram, y, C, epsilon, weight, labels=labels)
    share = np.full(len(y), 1 / len(y)) if weight is None else weight / weight.sum()
    losses = share * (np.maximum(-y * loo.residuals, 0) if labels else loo.residuals**2)
    assert (bounds[0] <= losses + 1e-9).all()
    assert bounds[0].sum() > 0.01 * losses.sum()


def test_abandoning_saves_refits(refits):
    _, gram, y = problem()
    error = leave_one_out(gram, y, 3.0, 0.1).error
    whole = len(refits)
    refits.clear()
    leave_one_out(gram, y, 3.0, 0.1, abandon_above=error / 2)
    assert len(refits) < whole / 2


def test_a_known_fit_saves_one_and_changes_nothing(monkeypatch):
    _, gram, y = problem()
    whole = fit_svr(gram, y, 3.0, 0.1, tolerance=1e-4)
    expected = leave_one_out(gram, y, 3.0, 0.1)
    monkeypatch.setattr(svr, "fit_svr", None)
    loo = leave_one_out(gram, y, 3.0, 0.1, whole=whole)
    np.testing.assert_array_equal(loo.residuals, expected.residuals)


@pytest.mark.parametrize(("C", "epsilon"), [(0.3, 0.1), (3.0, 0.05), (30.0, 0.0), (30.0, 0.2)])
def test_estimate_is_close(C, epsilon):
    _, gram, y = problem(n=40)
    weight = np.random.default_rng(3).uniform(0.3, 3, len(y))
    whole = fit_svr(gram, y, C, epsilon, weight)
    exact = leave_one_out(gram, y, C, epsilon, weight).error
    assert 0.5 < estimate_leave_one_out(gram, y, C, epsilon, whole, weight) / exact < 2.5


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("C", [0.01, 0.5, 3.0, 100.0])
def test_leave_one_out_of_labels_is_a_refit_without_each_row(C, grouped):
    _, gram, values = problem(n=40)
    y = np.where(values > np.median(values), 1.0, -1.0)
    weight = np.random.default_rng(3).uniform(0.3, 3, len(y))
    groups = np.arange(len(y)) // (2 if grouped else 1)
    loo = leave_one_out(gram, y, C, 0.0, weight, groups, TIGHT, labels=True)
    expected = np.empty_like(y)
    for label in np.unique(groups):
        held, kept = groups == label, groups != label
        machine = SVC(kernel="precomputed", C=C, tol=TIGHT)
        machine.fit(gram[np.ix_(kept, kept)], y[kept], sample_weight=weight[kept])
        expected[held] = machine.decision_function(gram[np.ix_(held, kept)]) - y[held]
    np.testing.assert_allclose(loo.residuals, expected, rtol=0, atol=1e-5)
    hinge = np.maximum(1 - y * (expected + y), 0)
    assert loo.error == pytest.approx(np.average(hinge, weights=weight), rel=1e-5)
    assert leave_one_out(gram, y, C, 0.0, weight, groups, abandon_above=0.5 * loo.error, labels=True).error == np.inf
