"""The supplement's proofs of theorems 1 and 2, step by step as far as they are formulas."""

from fractions import Fraction
from functools import reduce
from itertools import product
from math import factorial, prod
from operator import mul

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential, TaylorSeries, check_2q_mercer
from tests.theory import paper
from tests.theory.paper import POINTS, exact, mp


def test_mercers_theorem():
    kernel = paper.squared_exponential(0.75)
    values, vectors = mp.eigsy(mp.matrix(paper.gram(kernel, exact(POINTS))))
    assert min(values) > 0
    phi = [[mp.sqrt(values[n]) * vectors[i, n] for n in range(len(POINTS))] for i in range(len(POINTS))]
    for i, j in product(range(len(POINTS)), repeat=2):
        assert abs(paper.inner(phi[i], phi[j]) - kernel(*exact((POINTS[i], POINTS[j])))) < 1e-35
    found = check_2q_mercer(SquaredExponential(sigma=0.75), POINTS, 1)
    assert found.verdict == "not refuted"
    assert found.smallest_eigenvalue == pytest.approx(float(min(values) / max(values)), abs=1e-14)


def test_arguments_cannot_be_exchanged_within_one_term_of_the_series():
    # A 4-kernel on two points with features (1, 0) and (1, 1): its L is v v' + u u'.
    features = ((1, 0), (1, 1))
    kernel = lambda *x: sum(prod(phi[i] for i in x) for phi in features)  # noqa: E731
    pairs = list(product(range(2), repeat=2))
    L = mp.matrix([[kernel(*left, *right) for right in pairs] for left in pairs])
    values, vectors = mp.eigsy(L)
    nu = [[mp.sqrt(abs(values[n])) * vectors[i, n] for i in range(4)] for n in range(4) if values[n] > 1e-30]
    kappa = [dict(zip(pairs, one, strict=True)) for one in nu]
    for index in product(range(2), repeat=4):
        # The sum over n allows an exchange, as K does; it is K.
        assert abs(paper.total(one[index[:2]] * one[index[2:]] for one in kappa) - kernel(*index)) < 1e-35
    for one in kappa:
        # A single term does not: kappa_n(x1, x2) kappa_n(x3, x4) = kappa_n(x1, x3) kappa_n(x2, x4) fails.
        assert abs(one[0, 0] * one[1, 1] - one[0, 1] * one[1, 0]) > 0.05
    code = lambda *x: sum(reduce(mul, (a @ phi for a in x)) for phi in np.array(features, dtype=float))  # noqa: E731
    assert check_2q_mercer(code, np.eye(2), 2).verdict == "not refuted"


@pytest.mark.parametrize("q", [2, 3])
def test_features_of_a_term_whose_arguments_can_be_exchanged(q):
    # kappa(x1, ..., xq) = c f(x1) ... f(xq); the second line of the proof's features gives K back from kappa alone.
    c, f = mp.mpf(3), exact((2.0, -0.5, 0.75))
    kappa = lambda *index: c * mp.fprod(f[i] for i in index)  # noqa: E731
    a = 0
    phi = [kappa(i, *[a] * (q - 1)) / abs(kappa(*[a] * q)) ** (mp.mpf(q - 1) / q) for i in range(3)]
    for index in product(range(3), repeat=2 * q):
        assert abs(mp.fprod(phi[i] for i in index) - kappa(*index[:q]) * kappa(*index[q:])) < 1e-30
    code = lambda *x: reduce(mul, (one @ np.array(phi, dtype=float) for one in x))  # noqa: E731
    assert check_2q_mercer(code, np.eye(3), q).verdict == "not refuted"


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_the_multinomial_theorem_gives_the_features(m):
    kappa = (0.5, 0.0, 1.5, 0.25)
    points = [[Fraction(value) for value in (*x, x[0] - x[1])] for x in POINTS[:m]]
    expected = Fraction(0)
    for k in product(range(len(kappa)), repeat=3):
        if sum(k) < len(kappa):
            multinomial = Fraction(factorial(sum(k)), prod(map(factorial, k)))
            tau_squared = Fraction(kappa[sum(k)]) * multinomial
            expected += tau_squared * prod(prod(v**p for v, p in zip(x, k, strict=True)) for x in points)
    inner = sum(prod(values) for values in zip(*points, strict=True))
    assert sum(Fraction(value) * inner**q for q, value in enumerate(kappa)) == expected
    code = TaylorSeries(coefficients=kappa)(*np.array(points, dtype=float))
    assert float(code) == pytest.approx(float(expected), rel=1e-14)
