"""Sections 2.2 and 3 of the paper: m-kernels, free kernels, their construction and re-weighting."""

from fractions import Fraction
from itertools import permutations, product
from math import factorial, prod

import numpy as np
import pytest

from mkbo_plugins.core import (
    Exponential,
    Linear,
    Polynomial,
    SquaredExponential,
    SymmetrisedProduct,
    TaylorSeries,
    check_2q_mercer,
    feature_weights,
    normalise,
    reweight,
)
from mkbo_plugins.core.evaluation.features import log_tau_squared, monomial_weights, monomials
from mkbo_plugins.core.theory.kernel_features import kernel_features
from tests.theory import paper
from tests.theory.paper import ALPHA, POINTS, close, exact, mp

X = np.array(POINTS)
SIGMA = 0.75

FREE = {
    "linear": (Linear(), paper.linear, lambda degree: float(degree == 1), 1),
    "polynomial": (Polynomial(degree=3), paper.polynomial(3), lambda degree: (1, 3, 3, 1)[degree], 3),
    "exponential": (
        Exponential(sigma=SIGMA),
        paper.exponential(SIGMA),
        lambda degree: mp.mpf(SIGMA) ** -degree / factorial(degree),
        40,
    ),
    "series": (
        TaylorSeries(coefficients=(0.5, 0.0, 1.5, 0.25)),
        paper.series(0.5, 0.0, 1.5, 0.25),
        lambda degree: (0.5, 0.0, 1.5, 0.25)[degree],
        3,
    ),
}
"""The semi-inner-product kernels: the code's, the paper's, kappa and the highest degree that counts."""

each_free_kernel = pytest.mark.parametrize("name", FREE)
each_number_of_arguments = pytest.mark.parametrize("m", [1, 2, 3, 4, 5])


def features_of(name, x):
    """Return tau_k^2 and theta_k(x) by equations 9 and 10."""
    _, _, kappa, degree = FREE[name]
    ks = paper.exponents(2, degree)
    return [paper.tau_squared(kappa, k) for k in ks], [paper.monomial(k, x) for k in ks]


@each_number_of_arguments
def test_semi_inner_product(m):
    expected = sum(prod(Fraction(x[j]) for x in POINTS[:m]) for j in range(2))
    assert Fraction(float(Linear()(*X[:m]))) == expected


def test_only_relative_weights_of_features_are_transferred():
    base, points = Polynomial(degree=3), exact(POINTS)
    w = [
        mp.sqrt(paper.tau_squared(lambda q: (1, 3, 3, 1)[q], k))
        * paper.total(a * paper.monomial(k, x) for a, x in zip(ALPHA, points, strict=True))
        for k in paper.exponents(2, 3)
    ]
    expected = sorted(abs(value) / paper.norm(w) for value in w)
    for factor in (1.0, -8.0):
        found = feature_weights(reweight(base, X, factor * np.array(ALPHA))).w
        shares = np.sort(np.abs(found) / np.linalg.norm(found))
        close(shares[-5:], expected[-5:], rtol=1e-12)
        close(
            normalise(reweight(base, X, factor * np.array(ALPHA))).gram(X),
            paper.gram(paper.normalised(paper.reweighted(paper.polynomial(3), points, ALPHA)), points),
            rtol=1e-11,
        )


@each_free_kernel
def test_a_mercer_kernel_is_an_inner_product_of_features(name):
    code = FREE[name][0]
    features = [[mp.sqrt(t) * theta for t, theta in zip(*features_of(name, x), strict=True)] for x in exact(POINTS)]
    expected = [[paper.inner(a, b) for b in features] for a in features]
    close(code.gram(X), expected, rtol=1e-12, atol=1e-14)
    phi = kernel_features(code, X, 1)(X)
    close(phi @ phi.T, expected, rtol=1e-11, atol=1e-13)


@each_free_kernel
def test_the_normalised_kernel_is_the_cosine_of_the_angle(name):
    code, kernel = FREE[name][:2]
    features = [[mp.sqrt(t) * theta for t, theta in zip(*features_of(name, x), strict=True)] for x in exact(POINTS)]
    cosines = [[paper.inner(a, b) / (paper.norm(a) * paper.norm(b)) for b in features] for a in features]
    close(normalise(code).gram(X), cosines, rtol=1e-12, atol=1e-14)
    x, y = exact(POINTS[:2])
    assert abs(kernel(x, y) - mp.sqrt(kernel(x, x)) * mp.sqrt(kernel(y, y)) * cosines[0][1]) < 1e-18
    # K(x, x) = 1 for the squared exponential, which is then the cosine itself.
    se = paper.squared_exponential(SIGMA)
    close(normalise(SquaredExponential(sigma=SIGMA)).gram(X), paper.gram(se, exact(POINTS)), rtol=1e-12)


@each_number_of_arguments
@each_free_kernel
def test_definition_1_of_m_kernels(name, m):
    phi = []
    for x in exact(POINTS[:m]):
        tau_squared, theta = features_of(name, x)
        phi.append([t ** (mp.one / m) * value for t, value in zip(tau_squared, theta, strict=True)])
    close(FREE[name][0](*X[:m]), paper.semi_inner_product(*phi), rtol=1e-12, atol=1e-15)


def choi_lam():
    """Return moments of forms of degree 4 in x, y, z, w that meet the condition, and Choi and Lam's form."""
    moments, form = {}, dict.fromkeys(product(range(4), repeat=4), Fraction(0))
    for index in form:
        counts = tuple(sorted(index.count(i) for i in range(4)))
        moments[index] = Fraction(0)
        if counts == (0, 0, 0, 4):
            moments[index] = Fraction(1, 100) if index[0] == 3 else Fraction(300)
        elif counts in {(0, 0, 2, 2), (1, 1, 1, 1)}:
            moments[index] = Fraction(1)
    # w^4 + x^2 y^2 + y^2 z^2 + z^2 x^2 - 4 x y z w
    terms = {(3, 3, 3, 3): 1, (0, 0, 1, 1): 1, (1, 1, 2, 2): 1, (2, 2, 0, 0): 1, (0, 1, 2, 3): -4}
    for term, coefficient in terms.items():
        orders = set(permutations(term))
        for index in orders:
            form[index] += Fraction(coefficient, len(orders))
    return moments, form


def test_theorem_1_as_printed_is_refuted():
    moments, form = choi_lam()
    basis = [tuple(int(i == j) for j in range(4)) for i in range(4)]

    def kernel(*x):
        return paper.total(
            mp.mpf(moment.numerator) / moment.denominator * mp.fprod(x[i][j] for i, j in enumerate(index))
            for index, moment in moments.items()
            if moment
        )

    # It meets the conditions: symmetric, and L is positive semi-definite.
    assert paper.asymmetry(kernel, basis[2:], 2) == 0
    assert min(mp.eigsy(paper.flattened(kernel, basis, 2), eigvals_only=True)) > -1e-30
    tensor = np.array([float(moment) for moment in moments.values()]).reshape((4,) * 4)
    code = lambda *x: np.einsum("ijkl,...i,...j,...k,...l->...", tensor, *x)  # noqa: E731
    assert check_2q_mercer(code, np.eye(4), 2).verdict == "not refuted"
    # A 4-kernel pairs with a form to the sum of the form at the features, and this form is nowhere negative.
    values = [
        sum(form[index] * prod(v[i] for i in index) for index in form)
        for v in product((Fraction(-2), Fraction(-1), Fraction(1, 3), Fraction(1)), repeat=4)
    ]
    assert min(values) == 0
    assert sum(form[index] * moments[index] for index in form) == Fraction(-99, 100)


@pytest.mark.parametrize("q", [1, 2])
def test_the_converse_of_theorem_1_holds(q):
    points = POINTS[:3]
    for kernel, code in ((paper.polynomial(2), Polynomial(degree=2)), (paper.linear, Linear())):
        assert paper.asymmetry(kernel, exact(points), q) < 1e-35
        values = mp.eigsy(paper.flattened(kernel, exact(points), q), eigvals_only=True)
        assert min(values) > -1e-35
        found = check_2q_mercer(code, points, q)
        assert found.verdict == "not refuted"
        close(found.smallest_eigenvalue, min(values) / max(values), atol=1e-14)
        # What is symmetric and indefinite is none.
        refuted = check_2q_mercer(lambda *x, code=code: code(*x) - 2.0, points, q)
        shifted = paper.flattened(lambda *x, kernel=kernel: kernel(*x) - 2, exact(points), q)
        values = mp.eigsy(shifted, eigvals_only=True)
        assert refuted.verdict == "fails"
        close(refuted.smallest_eigenvalue, min(values) / max(map(abs, values)), rtol=1e-11)


@each_free_kernel
def test_definition_2_of_free_kernels(name):
    # The same tau and theta for every number of arguments.
    points = exact(POINTS)
    tau_squared = features_of(name, points[0])[0]
    for m in range(1, 7):
        expected = paper.semi_inner_product(tau_squared, *(features_of(name, x)[1] for x in points[:m]))
        close(FREE[name][0](*X[:m]), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("q", [1, 2, 3])
@each_free_kernel
def test_the_implied_feature_map_is_a_power_of_tau(name, q):
    found = kernel_features(FREE[name][0], X, q)
    for k, values in zip(found.exponents, found(X).T, strict=True):
        tau = mp.sqrt(paper.tau_squared(FREE[name][2], tuple(map(int, k))))
        expected = [tau ** (mp.mpf(2) / (2 * q)) * paper.monomial(tuple(map(int, k)), x) for x in exact(POINTS)]
        close(values, expected, rtol=1e-12)


@each_number_of_arguments
@each_free_kernel
def test_definition_3_of_normalised_kernels(name, m):
    code, kernel = FREE[name][:2]
    close(normalise(code)(*X[:m]), paper.normalised(kernel)(*exact(POINTS[:m])), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("q", [1, 2])
@each_free_kernel
def test_features_of_normalised_kernels(name, q):
    # tau as before, theta over the norm of tau theta
    expected = []
    for x in exact(POINTS):
        tau_squared, theta = features_of(name, x)
        length = paper.norm([mp.sqrt(t) * value for t, value in zip(tau_squared, theta, strict=True)])
        expected.append([t ** (mp.one / (2 * q)) * value / length for t, value in zip(tau_squared, theta, strict=True)])
    close(normalise(FREE[name][0])(*X[: 2 * q]), paper.semi_inner_product(*expected[: 2 * q]), rtol=1e-12, atol=1e-15)
    found = kernel_features(normalise(FREE[name][0]), X, q)
    by_exponent = dict(zip(paper.exponents(2, FREE[name][3]), zip(*expected, strict=True), strict=True))
    for k, values in zip(found.exponents, found(X).T, strict=True):
        close(values, by_exponent[tuple(map(int, k))], rtol=1e-11)


@each_number_of_arguments
def test_the_squared_exponential_is_the_normalised_exponential(m):
    expected = paper.normalised(paper.exponential(SIGMA))(*exact(POINTS[:m]))
    close(SquaredExponential(sigma=SIGMA)(*X[:m]), expected, rtol=1e-13)
    close(normalise(Exponential(sigma=SIGMA))(*X[:m]), expected, rtol=1e-13)


def pair_products(kernel, points):
    """Return the paper's symmetrised product, the sum over all permutations."""
    q = len(points) // 2
    return paper.total(
        mp.fprod(kernel(points[order[i]], points[order[i + q]]) for i in range(q))
        for order in permutations(range(2 * q))
    )


@pytest.mark.parametrize("q", [1, 2, 3])
def test_the_symmetrised_product_is_the_sum_over_permutations(q):
    points, code = POINTS[: 2 * q], SymmetrisedProduct(SquaredExponential(sigma=SIGMA))
    expected = pair_products(paper.squared_exponential(SIGMA), exact(points)) / factorial(2 * q)
    close(code(*np.array(points)), expected, rtol=1e-13)


def test_the_features_of_symmetrised_products_depend_on_q():
    # Features f of weights mu that serve m = 2, 4 and 6 would make the mu-mean of a square, (1 - f1^2 - f2^2)^2 f1^2,
    # negative; x1 and x2 have K(x1, x1) = K(x2, x2) = 1 and K(x1, x2) = 0.
    x1, x2 = np.eye(2)
    kernel = SymmetrisedProduct(Linear())
    moment = lambda *x: Fraction(float(kernel(*x))).limit_denominator(1000)  # noqa: E731
    terms = {(): 1, (x1.tobytes(), x1.tobytes()): -1, (x2.tobytes(), x2.tobytes()): -1}
    pairs = [(a, b, u * v) for (a, u), (b, v) in product(terms.items(), repeat=2)]
    square = sum(c * moment(x1, x1, *map(np.frombuffer, (*a, *b))) for a, b, c in pairs)
    assert square == Fraction(-1, 15)
    # The sum as the paper has it makes K_2q(x, ..., x) = (2q)!, the moments of a Laplace variable, which no countable
    # set of features has for all q, though a continuum does.
    for q in (1, 2, 3):
        assert pair_products(paper.linear, [(1, 0)] * (2 * q)) == factorial(2 * q)


@each_number_of_arguments
def test_theorem_2_a_series_of_the_semi_inner_product(m):
    kappa = (0.5, 0.0, 1.5, 0.25)
    expected = sum(
        Fraction(value) * sum(prod(Fraction(x[j]) for x in POINTS[:m]) for j in range(2)) ** degree
        for degree, value in enumerate(kappa)
    )
    assert float(TaylorSeries(coefficients=kappa)(*X[:m])) == pytest.approx(float(expected), rel=1e-15)


def test_features_of_theorem_2_are_monomials():
    ks = paper.exponents(2, 5)
    expected = [[Fraction(x[0]) ** k[0] * Fraction(x[1]) ** k[1] for x in POINTS] for k in ks]
    found = monomials(X, np.array(ks))
    assert [[Fraction(value) for value in row] for row in found] == expected


@each_free_kernel
def test_feature_weights_of_theorem_2(name):
    code, _, kappa, degree = FREE[name]
    ks = paper.exponents(3, min(degree, 8))
    expected = [mp.sqrt(paper.tau_squared(kappa, k)) for k in ks]
    close(np.exp(log_tau_squared(code, np.array(ks)) / 2), expected, rtol=1e-13)


def check_table_row(code, free, of_two):
    """Assert that a kernel is that of a row of table 1, in any number of arguments, and of two in its own form."""
    for m in range(1, 6):
        close(code(*X[:m]), free(*exact(POINTS[:m])), rtol=1e-13, atol=1e-15)
    close(code.gram(X), paper.gram(of_two, exact(POINTS)), rtol=1e-13, atol=1e-15)


def test_table_1_linear():
    check_table_row(Linear(), paper.linear, paper.inner)


@pytest.mark.parametrize("q", [1, 2, 5])
def test_table_1_polynomial(q):
    check_table_row(Polynomial(degree=q), paper.polynomial(q), lambda x, y: (1 + paper.inner(x, y)) ** q)


def test_table_1_exponential():
    check_table_row(
        Exponential(sigma=SIGMA), paper.exponential(SIGMA), lambda x, y: mp.exp(paper.inner(x, y) / mp.mpf(SIGMA))
    )


def test_table_1_squared_exponential():
    def of_two(x, y):
        return mp.exp(-(norm_of_difference(x, y) ** 2) / (2 * mp.mpf(SIGMA)))

    def norm_of_difference(x, y):
        return paper.norm([a - b for a, b in zip(x, y, strict=True)])

    check_table_row(SquaredExponential(sigma=SIGMA), paper.squared_exponential(SIGMA), of_two)
    # As printed, without squares, the kernel of two arguments is not the one beside it.
    x = exact(POINTS[0])
    printed = mp.exp((2 * paper.semi_inner_product(x, x) - 2 * paper.norm(x)) / (2 * mp.mpf(SIGMA)))
    assert of_two(x, x) == 1
    assert abs(printed - 1) > 0.1


REWEIGHTED = {name: (code, kernel) for name, (code, kernel, _, _) in FREE.items()} | {
    "squared exponential": (SquaredExponential(sigma=SIGMA), paper.squared_exponential(SIGMA))
}


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("name", REWEIGHTED)
def test_theorem_3_sums_over_pairs(name, m):
    code, kernel = REWEIGHTED[name]
    expected = paper.reweighted(kernel, exact(POINTS), ALPHA)
    points = exact(POINTS[1 : m + 1])
    close(reweight(code, X, ALPHA)(*X[1 : m + 1]), expected(*points), rtol=1e-11, atol=1e-13)
    if m == 2:
        close(reweight(code, X, ALPHA).gram(X), paper.gram(expected, exact(POINTS)), rtol=1e-10, atol=1e-12)


def weights_after(name, ks):
    """Return w = sum_i alpha_i tau theta(x_i)."""
    kappa = FREE[name][2]
    return [
        paper.total(
            a * mp.sqrt(paper.tau_squared(kappa, k)) * paper.monomial(k, x)
            for a, x in zip(ALPHA, exact(POINTS), strict=True)
        )
        for k in ks
    ]


@each_free_kernel
def test_theorem_3_weights_of_features(name):
    ks = paper.exponents(2, min(FREE[name][3], 8))
    found = monomial_weights(FREE[name][0], reweight(FREE[name][0], X, ALPHA).tables, np.array(ks)).value
    close(found, weights_after(name, ks), rtol=1e-12, atol=1e-15)


@each_free_kernel
def test_theorem_3_gives_a_free_kernel_again(name):
    # The same theta and weights w, of any number of arguments: w^2 in the place of tau^2.
    ks = paper.exponents(2, FREE[name][3])
    squares = [w**2 for w in weights_after(name, ks)]
    code = reweight(FREE[name][0], X, ALPHA)
    for m in range(1, 6):
        theta = [[paper.monomial(k, x) for k in ks] for x in exact(POINTS[:m])]
        close(code(*X[:m]), paper.semi_inner_product(squares, *theta), rtol=1e-10, atol=1e-13)


@each_free_kernel
def test_reweighting_turns_the_angle_between_points(name):
    # Figure 2: the similarity is the cosine between w theta(x) and w theta(x'), no longer that between tau theta.
    ks = paper.exponents(2, FREE[name][3])
    w = weights_after(name, ks)
    features = [[v * paper.monomial(k, x) for k, v in zip(ks, w, strict=True)] for x in exact(POINTS[:4])]
    cosines = [[paper.inner(a, b) / (paper.norm(a) * paper.norm(b)) for b in features] for a in features]
    found = normalise(reweight(FREE[name][0], X, ALPHA)).gram(X[:4])
    close(found, cosines, rtol=1e-10, atol=1e-12)
    before = normalise(FREE[name][0]).gram(X[:4])
    assert np.abs(found - before).max() > 0.1
