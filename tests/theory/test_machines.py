"""Section 2.2 and the supplement: p-norm machines, primal and dual, for regression and classification."""

from fractions import Fraction

import numpy as np
import pytest

from mkbo_plugins.core import Linear, PNormSVC, PNormSVR, Polynomial
from mkbo_plugins.core.theory.pnorm_dual import Dual
from tests.theory import paper
from tests.theory.paper import POINTS, close, exact, mp

pytest.importorskip("cvxpy")

X = np.array(POINTS)
Z = ((0.25, -0.5), (-0.75, 0.625))
Y = (1.0, -0.5, 0.75, 0.25, -1.25, 0.5)
LABELS = (1.0, -1.0, 1.0, 1.0, -1.0, -1.0)
C, EPSILON = 0.75, 0.125
GAP = 1e-6
"""Relative gap between primal and dual up to which the code calls a machine solved."""

orders = pytest.mark.parametrize("q", [1, 2])


def regression(q):
    """Return a fitted machine, its coefficients at all rows, and the kernel."""
    machine = PNormSVR(Polynomial(degree=2), q=q, C=C, epsilon=EPSILON).fit(X, Y)
    return machine, _alpha(machine), paper.polynomial(2)


def classification(q):
    machine = PNormSVC(Polynomial(degree=2), q=q, C=C).fit(X, LABELS)
    return machine, _alpha(machine), paper.polynomial(2)


def _alpha(machine):
    alpha = np.zeros(len(X))
    alpha[machine.support_] = machine.dual_coef_[0]
    return exact(alpha)


def features(q, machine, points=POINTS):
    """Return phi(x) = tau^(1/q) theta(x), in the order of the machine's weights."""
    ks = [tuple(map(int, k)) for k in machine.exponents_]
    kappa = (1, 2, 1)
    return [
        [paper.tau_squared(lambda p: kappa[p], k) ** (mp.one / (2 * q)) * paper.monomial(k, x) for k in ks]
        for x in exact(points)
    ]


def sums(alpha, phi):
    """Return s = sum_i alpha_i phi(x_i)."""
    return [paper.total(a * value for a, value in zip(alpha, column, strict=True)) for column in zip(*phi, strict=True)]


def powers(s, q):
    """Return sgn(s) |s|^(2q - 1)."""
    return [mp.sign(value) * abs(value) ** (2 * q - 1) for value in s]


def expanded(machine, alpha, kernel, q):
    """Return g(x), the sum over all (2q - 1)-tuples of support vectors and the bias, at the points Z."""
    rows = [i for i, a in enumerate(alpha) if a]
    points, of_rows = exact(X[rows]), [alpha[i] for i in rows]
    return [paper.tensor_sum(kernel, 2 * q - 1, points, of_rows, x) + machine.intercept_[0] for x in exact(Z)]


def near(found, expected, size=1.0):
    """Assert that numbers agree as well as a machine is solved."""
    np.testing.assert_allclose(
        np.array(found, dtype=float), np.array(expected, dtype=float), rtol=0, atol=1e-5 * float(size)
    )


def half_norm(w, q):
    """Return 1/p ||w||_p^p with 1/p + 1/(2q) = 1."""
    p = mp.mpf(2 * q) / (2 * q - 1)
    return paper.norm(w, p) ** p / p


def regression_primal(w, b, q, phi):
    """Return the primal objective, with the least slacks that the constraints allow."""
    slacks = [max(0, abs(paper.inner(w, x) + b - y) - EPSILON) for x, y in zip(phi, Y, strict=True)]
    return half_norm(w, q) + mp.mpf(C) * paper.total(slacks)


def regression_dual(kernel, alpha, q):
    """Return the dual objective, to be minimised, by the sum over all 2q-tuples of rows."""
    quadratic = paper.tensor_sum(kernel, 2 * q, exact(POINTS), alpha) / (2 * q)
    return quadratic + EPSILON * paper.total(map(abs, alpha)) - paper.inner(exact(Y), alpha)


def classification_primal(w, b, q, phi):
    slacks = [max(0, 1 - y * (paper.inner(w, x) + b)) for x, y in zip(phi, LABELS, strict=True)]
    return half_norm(w, q) + mp.mpf(C) * paper.total(slacks)


def classification_dual(kernel, alpha, q):
    quadratic = paper.tensor_sum(kernel, 2 * q, exact(POINTS), alpha) / (2 * q)
    return quadratic - paper.inner(exact(LABELS), alpha)


def regression_problem(phi, q):
    """Return the code's problem for these features."""
    bound = np.full(len(Y), C)
    return Dual(np.array(phi, dtype=float), np.array(Y), -bound, bound, C, EPSILON, q, separable=True)


def classification_problem(phi, q):
    labels = np.array(LABELS)
    lower, upper = np.minimum(C * labels, 0.0), np.maximum(C * labels, 0.0)
    return Dual(np.array(phi, dtype=float), labels, lower, upper, C, 0.0, q, separable=True)


def check_objectives(problem, primal, dual, kernel, q):
    """Assert that both objectives are those of the paper anywhere, the primal one with its best bias."""
    machine = regression(q)[0]
    phi = features(q, machine)
    w, alpha = exact(np.linspace(-0.5, 1.0, len(phi[0]))), exact(paper.ALPHA)
    values = [paper.inner(w, x) for x in phi]
    # It is piecewise linear in the bias, so that the best one is at the edge of some row's loss.
    edges = [y - value + side for y in (*Y, *LABELS) for value in values for side in (-EPSILON, 0, EPSILON)]
    close(problem(phi, q).primal(np.array(w, dtype=float)), min(primal(w, b, q, phi) for b in edges), rtol=1e-12)
    close(-problem(phi, q).value(np.array(alpha, dtype=float)), dual(kernel, alpha, q), rtol=1e-11)


def least_in_pairs(objective, alpha, allowed, step=1e-3):
    """Assert that no exchange between two coefficients lowers a convex objective, however far it goes.

    What is separable but for a smooth part has its minimum under a fixed sum where no such exchange helps.
    """
    least = objective(alpha)
    tried = 0
    for i in range(len(alpha)):
        for j in range(len(alpha)):
            moved = list(alpha)
            moved[i], moved[j] = moved[i] + step, moved[j] - step
            if i != j and allowed(i, moved[i]) and allowed(j, moved[j]):
                tried += 1
                assert objective(moved) >= least - GAP * abs(least)
    assert tried > len(alpha)


@pytest.mark.parametrize("q", [1, 2, 3, 7])
def test_p_is_dual_to_2q(q):
    p = Fraction(PNormSVR(q=q).p).limit_denominator(100)
    assert 1 / p + Fraction(1, 2 * q) == 1
    assert 1 < p <= 2


@orders
def test_regression_primal(q):
    machine, alpha, kernel = regression(q)
    check_objectives(regression_problem, regression_primal, regression_dual, kernel, q)
    phi = features(q, machine)
    # Any coefficients bound the primal from below, and the machine's weights reach the bound.
    primal = regression_primal(exact(machine.coef_), mp.mpf(float(machine.intercept_[0])), q, phi)
    assert abs(primal + regression_dual(kernel, alpha, q)) <= GAP * primal
    for k in range(len(machine.coef_)):
        for step in (-1e-2, 1e-2):
            w = exact(machine.coef_)
            w[k] += step
            assert regression_primal(w, mp.mpf(float(machine.intercept_[0])), q, phi) > primal * (1 - GAP)


@orders
def test_regression_dual(q):
    _, alpha, kernel = regression(q)
    least_in_pairs(lambda a: regression_dual(kernel, a, q), alpha, lambda i, value: abs(value) <= C)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_regression_decision_function(q):
    machine, alpha, kernel = regression(q)
    expected = expanded(machine, alpha, kernel, q)
    near(machine.predict(np.array(Z)), expected)


def test_weights_are_the_sums_of_features_for_q_of_1_only():
    machine, alpha, _ = regression(1)
    near(machine.coef_, sums(alpha, features(1, machine)))
    machine, alpha, _ = regression(2)
    s = sums(alpha, features(2, machine))
    near(machine.coef_, powers(s, 2))
    assert paper.norm([w - value for w, value in zip(exact(machine.coef_), s, strict=True)]) > 0.3 * paper.norm(s)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_small_p_makes_weights_sparse(q):
    # Of w with <w, x> = t the least in ||w||_p is x_k^(2q - 1) t / sum of x^(2q): near p = 1 only the largest counts.
    x, t = (Fraction(1), Fraction(1, 2), Fraction(-3, 4)), Fraction(1, 2)
    expected = [value ** (2 * q - 1) * t / sum(one ** (2 * q) for one in x) for value in x]
    rows = np.array([x, [-value for value in x]], dtype=float)
    machine = PNormSVR(Linear(), q=q, C=1e3, epsilon=0.0).fit(rows, [float(t), -float(t)])
    order = np.argmax(machine.exponents_, axis=1)
    near(machine.coef_, [expected[j] for j in order])


@orders
def test_regression_stationarity_in_w(q):
    machine, alpha, _ = regression(q)
    p = mp.mpf(2 * q) / (2 * q - 1)
    slope = [mp.sign(w) * abs(w) ** (p - 1) for w in exact(machine.coef_)]
    near(slope, sums(alpha, features(q, machine)))


def check_weights(problem, machine, alpha):
    """Assert that w is the power of the sums, and not the sum of powers, of a machine with q = 2."""
    phi = features(2, machine)
    expected = powers(sums(alpha, phi), 2)
    near(machine.coef_, expected)
    close(problem(phi, 2).weights(np.array(alpha, dtype=float)), expected, rtol=1e-11, atol=1e-14)
    printed = sums(alpha, [powers(x, 2) for x in phi])
    assert paper.norm([a - b for a, b in zip(expected, printed, strict=True)]) > 0.1 * paper.norm(printed)


def test_regression_weights_have_the_power_outside_the_sum():
    check_weights(regression_problem, *regression(2)[:2])


@orders
def test_regression_constraints_and_multipliers(q):
    machine, alpha, _ = regression(q)
    assert abs(paper.total(alpha)) < 1e-12
    assert max(map(abs, alpha)) <= C
    for x, y, a in zip(features(q, machine), Y, alpha, strict=True):
        residual = y - paper.inner(exact(machine.coef_), x) - machine.intercept_[0]
        if 0 < abs(a) < C:
            near(residual, mp.sign(a) * EPSILON)
        elif a:
            assert residual * mp.sign(a) >= EPSILON - 1e-5
        else:
            assert abs(residual) <= EPSILON + 1e-5


@orders
def test_classification_primal(q):
    machine, alpha, kernel = classification(q)
    check_objectives(classification_problem, classification_primal, classification_dual, kernel, q)
    primal = classification_primal(exact(machine.coef_), mp.mpf(float(machine.intercept_[0])), q, features(q, machine))
    assert abs(primal + classification_dual(kernel, alpha, q)) <= GAP * primal


@orders
def test_classification_dual(q):
    _, alpha, kernel = classification(q)
    assert abs(paper.total(alpha)) < 1e-12
    assert all(0 <= y * a <= C for y, a in zip(LABELS, alpha, strict=True))
    least_in_pairs(lambda a: classification_dual(kernel, a, q), alpha, lambda i, value: 0 <= LABELS[i] * value <= C)


@orders
def test_classification_stationarity_in_w(q):
    machine, alpha, _ = classification(q)
    p = mp.mpf(2 * q) / (2 * q - 1)
    slope = [mp.sign(w) * abs(w) ** (p - 1) for w in exact(machine.coef_)]
    near(slope, sums([abs(a) * y for a, y in zip(alpha, LABELS, strict=True)], features(q, machine)))


def test_classification_weights_have_the_power_outside_the_sum():
    check_weights(classification_problem, *classification(2)[:2])


@orders
def test_classification_decision_function(q):
    machine, alpha, kernel = classification(q)
    expected = expanded(machine, alpha, kernel, q)
    near(machine.decision_function(np.array(Z)), expected)
    assert list(machine.predict(np.array(Z))) == [1.0 if value > 0 else -1.0 for value in expected]
