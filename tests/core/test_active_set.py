"""Fits without some rows, reached from the fit on all of them, and the estimate of the errors they make."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.training import active_set
from mkbo_plugins.core.training.active_set import Machine, fit_without, span_estimate
from mkbo_plugins.core.training.svr import fit_svc, fit_svr
from tests.core.helpers import few, seeds

N = 25


def machine(seed, C, epsilon, repeat=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + rng.normal(0, 0.2, N)
    rows = np.repeat(np.arange(N), repeat)
    gram, y, weight = SquaredExponential(sigma=0.5).gram(X[rows]), y[rows], rng.uniform(0.5, 2, N)[rows]
    fit = fit_svr(gram, y, C, epsilon, weight, 1e-10)
    return Machine(gram, y, C * weight, epsilon, fit.alpha, fit.bias)


def refit(whole, held):
    """Return all coefficients and the bias of the solver's own fit to the other rows."""
    kept = ~held
    fit = fit_svr(whole.gram[np.ix_(kept, kept)], whole.y[kept], 1.0, whole.epsilon, whole.bounds[kept], 1e-10)
    alpha = np.zeros(len(held))
    alpha[kept] = fit.alpha
    return alpha, fit.bias


@few
@given(seeds, st.sampled_from([0.05, 1.0, 30.0]), st.sampled_from([0.0, 0.05, 0.3]), st.integers(1, 4))
def test_meets_the_optimality_conditions_of_the_other_rows(seed, C, epsilon, count):
    whole = machine(seed, C, epsilon)
    held = np.arange(N) < count
    found = fit_without(held, whole, 1e-8)
    if found is None:
        return
    part = Machine(whole.gram, whole.y, whole.bounds, epsilon, *found)
    residual, sign = -part.residuals, np.sign(part.alpha)
    inside = (part.alpha == 0) & ~held
    assert not part.alpha[held].any()
    assert abs(part.alpha.sum()) < 1e-6 * whole.bounds.sum()
    assert (np.abs(part.alpha) <= whole.bounds * (1 + 1e-8)).all()
    assert (np.abs(residual[inside]) <= epsilon + 1e-7).all()
    np.testing.assert_allclose(residual[part.free], sign[part.free] * epsilon, rtol=0, atol=1e-6)
    assert (residual * sign >= epsilon - 1e-7)[part.at_bound].all()


def classifier(seed, C):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N, 2))
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] + rng.normal(0, 0.4, N) > 0, 1.0, -1.0)
    gram, weight = SquaredExponential(sigma=0.5).gram(X), rng.uniform(0.5, 2, N)
    fit = fit_svc(gram, y, C, weight, 1e-10)
    return Machine(gram, y, C * weight, 0.0, fit.alpha, fit.bias, labels=True)


@few
@given(seeds, st.sampled_from([0.05, 1.0, 30.0]), st.integers(1, 4))
def test_classifiers_meet_the_optimality_conditions_of_the_other_rows(seed, C, count):
    whole = classifier(seed, C)
    held = np.arange(N) < count
    found = fit_without(held, whole, 1e-8)
    if found is None:
        return
    part = Machine(whole.gram, whole.y, whole.bounds, 0.0, *found, labels=True)
    margin = whole.y * (part.residuals + whole.y)
    assert not part.alpha[held].any()
    assert abs(part.alpha.sum()) < 1e-6 * whole.bounds.sum()
    assert (part.alpha * whole.y >= -1e-8 * whole.bounds).all()
    assert (np.abs(part.alpha) <= whole.bounds * (1 + 1e-8)).all()
    assert (margin[(part.alpha == 0) & ~held] >= 1 - 1e-7).all()
    np.testing.assert_allclose(margin[part.free], 1, rtol=0, atol=1e-6)
    assert (margin[part.at_bound] <= 1 + 1e-7).all()


def test_is_found_for_nearly_every_row():
    for C, epsilon in [(0.3, 0.0), (0.3, 0.1), (3.0, 0.05), (30.0, 0.0), (30.0, 0.3)]:
        whole = machine(0, C, epsilon)
        found = [fit_without(row, whole, 1e-6) is not None for row in np.eye(N, dtype=bool)]
        assert np.mean(found) > 0.9
    for C in (0.3, 3.0, 30.0):
        found = [fit_without(row, classifier(0, C), 1e-6) is not None for row in np.eye(N, dtype=bool)]
        assert np.mean(found) > 0.9


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_rows_given_twice_are_no_obstacle(epsilon):
    whole = machine(0, 3.0, epsilon, repeat=2)
    for i in range(0, 2 * N, 6):
        held = np.arange(2 * N) // 2 == i // 2
        found = fit_without(held, whole, 1e-6)
        assert found is not None
        (alpha, bias), (expected, expected_bias) = found, refit(whole, held)
        at_held = whole.gram[held] @ expected + expected_bias
        np.testing.assert_allclose(whole.gram[held] @ alpha + bias, at_held, rtol=0, atol=1e-4)


def test_an_open_bias_is_left_to_the_solver():
    signs = np.array([-1.0, 1.0, -1.0, 1.0])
    whole = Machine(np.eye(4), 5 * signs, np.ones(4), 0.1, signs, 0.0)
    assert fit_without(np.arange(4) == 3, whole, 1e-6) is None


def test_a_free_row_that_ends_at_its_bound_leaves_the_bias_open():
    """Coefficients that can only sum to zero at their bounds: no row fixes the bias."""
    whole = Machine(np.eye(3), np.array([-5.0, 5.0, 0.0]), np.ones(3), 0.1, np.array([-1.0, 0.5, 0.5]), 0.0)
    assert fit_without(np.array([False, False, True]), whole, 1e-6) is None


def test_a_singular_system_is_left_to_the_solver():
    alpha = np.array([-0.5, 0.5, 0.5, -0.5])
    whole = Machine(np.zeros((4, 4)), 5 * np.sign(alpha), np.ones(4), 0.1, alpha, 0.0)
    assert fit_without(np.arange(4) == 3, whole, 1e-6) is None


def test_gives_up_after_too_many_pivots(monkeypatch):
    monkeypatch.setattr(active_set, "MAX_PIVOTS", 1)
    assert fit_without(np.arange(N) < 8, machine(0, 3.0, 0.1), 1e-6) is None


def place(alpha, whole):
    part = Machine(whole.gram, whole.y, whole.bounds, whole.epsilon, alpha, 0.0)
    return np.where(part.free, 1, np.where(part.at_bound, 2, 0)) * np.sign(alpha)


@pytest.mark.parametrize(("C", "epsilon"), [(0.3, 0.3), (2.0, 0.2), (100.0, 0.3), (100.0, 0.0)])
def test_estimate_is_a_refit_where_no_other_row_changes_its_place(C, epsilon):
    same = 0
    for seed in range(6):
        whole = machine(seed, C, epsilon)
        estimate = span_estimate(whole)
        for row in range(N):
            held = np.arange(N) == row
            alpha, bias = refit(whole, held)
            if np.array_equal(place(alpha, whole)[~held], place(whole.alpha, whole)[~held]):
                same += 1
                exact = whole.gram[row] @ alpha + bias - whole.y[row]
                spread = whole.y.std()
                assert estimate[row] == pytest.approx(np.clip(exact, -spread, spread), abs=1e-5)
    assert same >= 2


@pytest.mark.parametrize("C", [1e-6, 0.01, 1e8])
def test_estimate_is_finite(C):
    assert np.isfinite(span_estimate(machine(0, C, 0.1))).all()


def test_estimate_is_finite_with_a_single_free_row():
    whole = Machine(np.eye(3), np.array([-5.0, 5.0, 0.0]), np.ones(3), 0.1, np.array([-1.0, 0.5, 1.0]), 0.0)
    assert np.isfinite(span_estimate(whole)).all()


def of_optimality(whole):
    """Return the largest residual of the system that free rows and the sum of coefficients satisfy."""
    wanted = -whole.epsilon * np.sign(whole.alpha)
    return max(np.max(np.abs(whole.residuals - wanted)[whole.free], initial=0), abs(whole.alpha.sum()))


@few
@given(seeds, st.sampled_from([1.0, 30.0, 1000.0]), st.sampled_from([0.0, 0.05, 0.3]))
def test_a_polished_fit_meets_its_conditions_in_double_precision(seed, C, epsilon):
    rough = machine(seed, C, epsilon)
    found = active_set.polish(rough)
    if found is None:
        return
    fine = dataclasses.replace(rough, alpha=found[0], bias=found[1])
    size = np.abs(fine.alpha).sum()
    assert of_optimality(fine) <= max(1e-13 * size, 1e-3 * of_optimality(rough))
    np.testing.assert_allclose(fine.residuals, rough.residuals, rtol=0, atol=1e-3)


@few
@given(seeds, st.sampled_from([1.0, 30.0]))
def test_a_polished_classifier_meets_its_margins_in_double_precision(seed, C):
    rough = classifier(seed, C)
    found = active_set.polish(rough)
    if found is None:
        return
    fine = dataclasses.replace(rough, alpha=found[0], bias=found[1])
    assert of_optimality(fine) <= max(1e-13 * np.abs(fine.alpha).sum(), 1e-3 * of_optimality(rough))
    assert (fine.alpha * fine.y >= 0).all()
