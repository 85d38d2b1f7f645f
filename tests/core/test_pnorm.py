"""p-norm support vector machines: optimality, explicit features against tensors, q = 1 against scikit-learn."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from mkbo_plugins.core import (
    Exponential,
    Linear,
    PNormSVC,
    PNormSVR,
    Polynomial,
    SquaredExponential,
    SymmetrisedProduct,
    TaylorSeries,
    normalise,
    reweight,
)
from mkbo_plugins.core.theory.pnorm_dual import Solution, solve
from mkbo_plugins.errors import KernelError, MkboError, SolverWarning

pytest.importorskip("cvxpy")

KERNELS = {
    "polynomial": Polynomial(degree=3),
    "squared_exponential": SquaredExponential(sigma=0.8),
    "exponential": Exponential(sigma=1.5, weights=(1.0, 0.5)),
    "normalised": normalise(Polynomial(degree=3)),
    "reweighted": reweight(Polynomial(degree=2), [[0.2, -0.5], [1.0, 0.3]], [0.7, -1.1]),
    "symmetrised": SymmetrisedProduct(SquaredExponential(sigma=0.4)),
}


def make_problem(n=30, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(3 * X[:, 0]) + X[:, -1] ** 2 + 0.1 * rng.normal(size=n)


def tensor_decision(machine, kernel, X):
    """Return sum alpha ... alpha K_2q(x_i, ..., x) by brute force over all tuples of support vectors."""
    points, alpha = machine.support_vectors_, machine.dual_coef_[0]
    n, order = len(points), 2 * machine.q - 1
    axes = [points.reshape((1,) * i + (n,) + (1,) * (order - 1 - i) + (-1,)) for i in range(order)]
    found = []
    for x in X:
        values = kernel(*axes, x)
        for _ in range(order):
            values = values @ alpha
        found.append(values)
    return np.array(found)


@pytest.mark.filterwarnings("error::mkbo_plugins.errors.SolverWarning")
@parametrize_with_checks([PNormSVR(), PNormSVC(), PNormSVR(q=1), PNormSVC(kernel=SymmetrisedProduct(Polynomial()))])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_duality_gap_is_closed(name, q):
    X, y = make_problem()
    assert -1e-12 <= PNormSVR(KERNELS[name], q=q, C=2.0, epsilon=0.05).fit(X, y).duality_gap_ <= 1e-6
    assert -1e-12 <= PNormSVC(KERNELS[name], q=q, C=2.0).fit(X, y > np.median(y)).duality_gap_ <= 1e-6


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["linear", "polynomial", "normalised", "symmetrised"]),
    q=st.sampled_from([1, 2, 3]),
    inputs=st.floats(-2, 2),
    shift=st.floats(-10, 10),  # farther off, one problem in some thousands is left open, with a warning
    target=st.floats(-4, 4),
    weights=st.floats(-2, 2),
    seed=st.integers(0, 20),
)
@example(name="polynomial", q=3, inputs=1.0, shift=15.0, target=0.0, weights=1.0, seed=3)
@example(name="polynomial", q=1, inputs=1.9375, shift=0.0, target=-4.0, weights=1.0, seed=0)
def test_duality_gap_is_closed_whatever_the_units(name, q, inputs, shift, target, weights, seed):
    X, y = make_problem(seed=seed)
    X, y = 10**inputs * (X + shift), 10**target * y
    weights = (10 ** (weights - inputs),) * 2
    kernel = {
        "linear": Linear(weights=weights),
        "polynomial": Polynomial(degree=3, weights=weights),
        "normalised": normalise(Polynomial(degree=3, weights=weights)),
        "symmetrised": SymmetrisedProduct(Polynomial(degree=2, weights=weights)),
    }[name]
    assert abs(PNormSVR(kernel, q=q, epsilon=0.05 * 10**target).fit(X, y).duality_gap_) <= 1e-6
    # Without errors in the labels the objective may be no larger than rounding errors of the margins times C.
    labels = (y > np.median(y)) ^ (np.arange(30) % 5 == 0)
    assert abs(PNormSVC(kernel, q=q).fit(X, labels).duality_gap_) <= 1e-6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("kernel", [Polynomial(degree=3), SymmetrisedProduct(Polynomial(degree=3))])
def test_duality_gap_is_closed_far_from_the_origin(kernel, q, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(100, 1, (100, 2)), rng.normal(size=100)
    assert PNormSVR(kernel, q=q).fit(X, y).duality_gap_ <= 1e-6
    assert PNormSVC(kernel, q=q).fit(X, y > 0).duality_gap_ <= 1e-6


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("kernel", [Polynomial(degree=3), SymmetrisedProduct(Polynomial(degree=3))])
def test_duality_gap_is_closed_where_no_coefficient_comes_near_its_bound(kernel, q):
    X, y = make_problem()
    assert PNormSVC(kernel, q=q, C=1e4).fit(10 * X, y > np.median(y)).duality_gap_ <= 1e-6


@pytest.mark.parametrize("q", [2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_decision_function_is_the_sum_over_the_tensor(name, q):
    X, y = make_problem(n=9, seed=2)
    Z = np.random.default_rng(1).uniform(-1, 1, (4, 2))
    machine = PNormSVR(KERNELS[name], q=q, C=1.0, epsilon=0.2).fit(X, y)
    expected = tensor_decision(machine, KERNELS[name], Z) + machine.intercept_[0]
    np.testing.assert_allclose(machine.predict(Z), expected, rtol=1e-8, atol=1e-9)
    classifier = PNormSVC(KERNELS[name], q=q, C=1.0).fit(X, y > np.median(y))
    expected = tensor_decision(classifier, KERNELS[name], Z) + classifier.intercept_[0]
    np.testing.assert_allclose(classifier.decision_function(Z), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("q", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_primal_from_explicit_features_agrees_with_the_dual(q, seed):
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    weights = tuple(rng.uniform(0.5, 1.5, 2))
    X, y = make_problem(n=25, seed=seed)
    machine = PNormSVR(Polynomial(degree=2, weights=weights), q=q, C=0.7, epsilon=0.1).fit(X, y)
    l1, l2 = weights
    # (1 + l1 x^2 + l2 y^2)^2 written out: features tau^{1/q} theta
    tau = np.sqrt([1, 2 * l1, 2 * l2, l1**2, 2 * l1 * l2, l2**2])
    x1, x2 = X.T
    phi = tau ** (1 / q) * np.column_stack([x1**0, x1, x2, x1**2, x1 * x2, x2**2])
    w, b, p = cp.Variable(6), cp.Variable(), 2 * q / (2 * q - 1)
    loss = cp.sum(cp.pos(cp.abs(y - phi @ w - b) - 0.1))
    cp.Problem(cp.Minimize(cp.sum(cp.power(cp.abs(w), p)) / p + 0.7 * loss)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(machine.predict(X), phi @ w.value + b.value, rtol=0, atol=2e-5)
    # The machine's own weights are the powers of the sums, not sums of powers.
    s = phi[machine.support_].T @ machine.dual_coef_[0]
    np.testing.assert_allclose(np.sort(np.sign(s) * np.abs(s) ** (2 * q - 1)), np.sort(machine.coef_), atol=1e-12)
    np.testing.assert_allclose(np.sort(w.value), np.sort(machine.coef_), rtol=0, atol=2e-5)


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_conditions_hold_at_the_optimum(name, q):
    X, y = make_problem()
    C, epsilon = 0.5, 0.1
    machine = PNormSVR(KERNELS[name], q=q, C=C, epsilon=epsilon).fit(X, y)
    alpha = np.zeros(len(y))
    alpha[machine.support_] = machine.dual_coef_[0]
    residual = y - machine.predict(X)
    assert abs(alpha.sum()) < 1e-10
    assert np.abs(alpha).max() <= C + 1e-12
    free = (alpha != 0) & (np.abs(alpha) < C)
    tolerance = 1e-4
    assert free.any()
    np.testing.assert_allclose(residual[free], epsilon * np.sign(alpha[free]), rtol=0, atol=tolerance)
    assert (np.abs(residual[alpha == 0]) <= epsilon + tolerance).all()
    bounded = np.abs(alpha) >= C
    assert (residual[bounded] * np.sign(alpha[bounded]) >= epsilon - tolerance).all()


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "symmetrised"])
def test_order_two_is_the_machine_of_scikit_learn(name):
    X, y = make_problem()
    kernel, gram = KERNELS[name], KERNELS[name].gram(X)
    ours = PNormSVR(kernel, q=1, C=1.5, epsilon=0.1).fit(X, y)
    theirs = SVR(kernel="precomputed", C=1.5, epsilon=0.1, tol=1e-8).fit(gram, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(gram), rtol=0, atol=1e-5)
    ours = PNormSVC(kernel, q=1, C=1.5).fit(X, y > np.median(y))
    theirs = SVC(kernel="precomputed", C=1.5, tol=1e-8).fit(gram, y > np.median(y))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(gram), rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_smaller_order_puts_more_weight_on_the_true_features(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 50))
    true = rng.choice(50, 3, replace=False)
    y = X[:, true] @ np.array([1.0, -1.5, 2.0]) + 0.1 * rng.normal(size=60)

    def share(q):
        machine = PNormSVR(Linear(), q=q, C=1.0, epsilon=0.1).fit(X, y)
        s = machine.dual_coef_[0] @ X[machine.support_]  # coordinates are the monomials of the linear kernel
        w = np.abs(s) ** (2 * q - 1)
        return w[true].sum() / w.sum()

    assert share(2) > share(1)


def test_only_dual_coefficients_of_order_two_re_weight_a_kernel():
    X, y = make_problem()
    machine = PNormSVR(Polynomial(degree=3), q=1).fit(X, y)
    expected = reweight(Polynomial(degree=3), machine.support_vectors_, machine.dual_coef_[0])
    assert machine.reweighted_kernel() == expected
    with pytest.raises(KernelError, match="fit with q=1"):
        PNormSVR(Polynomial(degree=3), q=2).fit(X, y).reweighted_kernel()
    with pytest.raises(KernelError, match="only free"):
        PNormSVR(SymmetrisedProduct(Polynomial()), q=1).fit(X, y).reweighted_kernel()


def test_five_hundred_rows_need_no_tensor():
    X, y = make_problem(n=500, d=4)
    assert PNormSVR(Polynomial(degree=3), q=2, C=1.0).fit(X, y).duality_gap_ <= 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": 1.5}, "q must be an integer"),
        ({"q": 0}, "always 2q"),
        ({"C": 0.0}, "C must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"kernel": "rbf"}, "SymmetrisedProduct"),
        ({"kernel": Linear(weights=(1.0, 2.0, 3.0))}, "3 coordinates"),
        ({"kernel": SquaredExponential(sigma=1e-3)}, "degrees above"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(KernelError, match=message):
        PNormSVR(**options).fit(*make_problem())


def test_more_than_two_classes_are_refused_with_the_way_out():
    X, _ = make_problem()
    with pytest.raises(MkboError, match="OneVsRestClassifier"):
        PNormSVC().fit(X, np.arange(30) % 3)


def test_missing_solver_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"mkbo_plugins\[pnorm\]"):
        PNormSVR().fit(*make_problem())


def test_an_inaccurate_solution_is_warned_about(monkeypatch):
    monkeypatch.setattr(
        "mkbo_plugins.core.theory.pnorm.solve", lambda problem: Solution(*(part / 2 for part in solve(problem)))
    )
    with pytest.warns(SolverWarning, match="duality gap"):
        machine = PNormSVR().fit(*make_problem())
    assert machine.duality_gap_ > 1e-6


def test_gaps_in_a_series_are_left_out():
    X, y = make_problem()
    machine = PNormSVR(TaylorSeries(coefficients=(0.0, 1.0, 0.0, 2.0)), q=2).fit(X, y)
    assert set(machine.exponents_.sum(axis=1)) == {1, 3}


def test_too_many_monomials_are_refused():
    with pytest.raises(KernelError, match="above the limit"):
        PNormSVR(SquaredExponential(sigma=0.1)).fit(*make_problem(n=20, d=5))
