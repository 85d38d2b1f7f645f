"""Double-double arithmetic against fractions and 50 digits, in NumPy and PyTorch."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins.core.evaluation import doubledouble
from mkbo_plugins.core.evaluation.doubledouble import (
    DoubleDouble,
    add,
    dot,
    exp,
    expm1,
    from_double,
    log,
    multiply,
    scale,
    subtract,
    sum_axis,
    two_product,
    two_sum,
)
from tests.core.helpers import few, seeds

mpmath = pytest.importorskip("mpmath")
MP = mpmath.mp.clone()
MP.dps = 50
EPS = 2.0**-104

doubles = st.floats(-1e150, 1e150)
factors = st.one_of(st.just(0.0), st.floats(1e-140, 1e150), st.floats(-1e150, -1e-140))


@pytest.fixture(params=["numpy", "torch"])
def convert(request):
    """Return the function that makes an array of the namespace under test."""
    return np.asarray if request.param == "numpy" else pytest.importorskip("torch").asarray


def exactly(x, kind=Fraction):
    """Return the entries of a double-double as a list of exact numbers."""
    parts = (np.asarray(part).ravel().tolist() for part in x)
    return [kind(hi) + kind(lo) for hi, lo in zip(*parts, strict=True)]


def random_pair(rng, shape, spread=0):
    hi = rng.normal(size=shape) * 2.0 ** rng.integers(-spread, spread + 1, size=shape)
    return DoubleDouble(hi, hi * rng.uniform(-1, 1, shape) * 2.0**-54)


def as_pair(x, convert):
    return DoubleDouble(*(convert(part) for part in x))


def relative_errors(actual, expected):
    return [abs(float(a / e - 1)) for a, e in zip(actual, expected, strict=True)]


@given(doubles, doubles)
def test_two_sum_is_exact(a, b):
    assert exactly(two_sum(np.array([a]), np.array([b]))) == [Fraction(a) + Fraction(b)]


@given(factors, factors)
def test_two_product_is_exact(a, b):
    assert exactly(two_product(np.array([a]), np.array([b]))) == [Fraction(a) * Fraction(b)]


def test_errors_of_arithmetic(convert):
    rng = np.random.default_rng(0)
    a, b = (random_pair(rng, 2000, spread=40) for _ in range(2))
    A, B = exactly(a), exactly(b)
    a, b = as_pair(a, convert), as_pair(b, convert)
    size = [abs(x) + abs(y) for x, y in zip(A, B, strict=True)]
    for operation, sign in ((add, 1), (subtract, -1)):
        errors = [abs(s - x - sign * y) for s, x, y in zip(exactly(operation(a, b)), A, B, strict=True)]
        assert all(error <= EPS * scale for error, scale in zip(errors, size, strict=True))
    assert max(relative_errors(exactly(multiply(a, b)), [x * y for x, y in zip(A, B, strict=True)])) <= 2 * EPS
    assert exactly(scale(a, convert(-0.25))) == [-x / 4 for x in A]


@few
@given(st.sampled_from([1, 2, 3, 7, 40]), st.sampled_from([0, 30]), seeds)
def test_dot(dimension, spread, seed):
    rng = np.random.default_rng(seed)
    a, b = random_pair(rng, (6, dimension), spread), random_pair(rng, (5, dimension), spread)
    a.hi[0, :] = a.lo[0, :] = 0.0
    A, B = (np.array(exactly(x)).reshape(-1, dimension) for x in (a, b))
    bound = dimension * abs(A).max(axis=1)[:, None] * abs(B).max(axis=1)
    actual = np.array(exactly(dot(a, b))).reshape(6, 5)
    assert np.all(abs(actual - A @ B.T) <= EPS * bound)


def test_dot_cancels_to_the_low_parts(convert):
    a = as_pair(random_pair(np.random.default_rng(2), (4, 3)), convert)
    doubled = DoubleDouble(*(convert(np.tile(part, 2)) for part in a))
    opposite = DoubleDouble(*(convert(np.tile(part, 2) * np.repeat([1.0, -1.0], 3)) for part in a))
    diagonal = np.asarray(dot(doubled, opposite).hi).diagonal()
    assert np.all(np.abs(diagonal) <= 100 * EPS)


@few
@given(st.integers(0, 70), st.sampled_from([0, 1]), seeds)
def test_sum_with_massive_cancellation(count, axis, seed):
    rng = np.random.default_rng(seed)
    big = random_pair(rng, (count, 3), spread=20)
    small = random_pair(rng, (count % 3, 3), spread=2)
    order = rng.permutation(2 * count + count % 3)
    terms = DoubleDouble(*(np.concatenate([x, -x, 2.0**-60 * y])[order] for x, y in zip(big, small, strict=True)))
    exact = np.array(exactly(terms), dtype=object).reshape(-1, 3)
    if axis == 1:
        terms = DoubleDouble(terms.hi.T, terms.lo.T)
    bound = EPS * ((np.log2(max(1, len(exact))) + 3) / 2) ** 2 * abs(exact).sum(axis=0)
    assert np.all(abs(np.array(exactly(sum_axis(terms, axis))) - exact.sum(axis=0)) <= bound)


def exponents():
    """Return exponents over the range of full accuracy, tiny ones, and those halfway between table entries."""
    rng = np.random.default_rng(3)
    halfway = (np.arange(-3000, 3000, 17) + 0.5) * (np.log(2) / 4096)
    hi = np.concatenate(
        [rng.uniform(-671, 700, 800), rng.uniform(-1, 1, 300), -(10.0 ** rng.uniform(-300, 2, 300)), halfway, [0.0]]
    )
    return DoubleDouble(hi, hi * rng.uniform(-1, 1, hi.size) * 2.0**-54)


def test_exp_is_accurate(convert):
    x = exponents()
    expected = [MP.exp(value) for value in exactly(x, MP.mpf)]
    result = exp(as_pair(x, convert))
    assert max(relative_errors(exactly(result, MP.mpf), expected)) <= 3 * EPS
    assert (float(result.hi[-1]), float(result.lo[-1])) == (1.0, 0.0)


def test_expm1_is_accurate_relative_to_itself(convert):
    rng = np.random.default_rng(1)
    hi = rng.choice([-1.0, 1.0], 2000) * 2.0 ** rng.uniform(-300, -16, 2000)
    x = DoubleDouble(hi, hi * rng.uniform(-1, 1, hi.size) * 2.0**-54)
    expected = [MP.expm1(value) for value in exactly(x, MP.mpf)]
    assert max(relative_errors(exactly(expm1(as_pair(x, convert)), MP.mpf), expected)) <= 6 * EPS
    assert exactly(expm1(from_double(convert(np.zeros(1))))) == [0]


def test_exp_is_the_same_in_torch():
    torch = pytest.importorskip("torch")
    x = exponents()
    for ours, theirs in zip(exp(x), exp(as_pair(x, torch.asarray)), strict=True):
        np.testing.assert_array_equal(theirs.numpy(), ours)


@few
@given(st.floats(-745.0, 700.0), st.floats(-1.0, 1.0))
def test_exp_of_any_argument(hi, ratio):
    x = DoubleDouble(np.array([hi]), np.array([hi * ratio * 2.0**-54]))
    (error,) = (a - MP.exp(e) for a, e in zip(exactly(exp(x), MP.mpf), exactly(x, MP.mpf), strict=True))
    assert abs(error) <= max(3 * EPS * MP.exp(hi), MP.mpf(2) ** -1073)


def test_exp_underflows_without_nan(convert):
    hi = np.array([-708.5, -730.0, -745.1, -745.2, -800.0, -1e5, -1e300, -np.inf])
    lo = np.where(hi == -1e300, 1e283, 0.0)
    result = exp(as_pair(DoubleDouble(hi, lo), convert))
    total = np.asarray(result.hi) + np.asarray(result.lo)
    np.testing.assert_allclose(total, np.exp(hi), rtol=1e-15, atol=2.0**-1073)
    assert np.all(total[3:] == 0.0)


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (2, doubledouble.TILE)])
def test_exp_keeps_the_shape_and_its_tiles_fit_together(convert, shape):
    hi = np.random.default_rng(4).uniform(-5, 0, shape)
    result = exp(from_double(convert(hi)))
    np.testing.assert_allclose(np.asarray(result.hi), np.exp(hi), rtol=1e-15)
    assert tuple(result.lo.shape) == shape


def test_log_is_accurate():
    rng = np.random.default_rng(5)
    values = np.concatenate([10.0 ** rng.uniform(-290, 290, 300), rng.uniform(0.5, 2.0, 100), [1.0]])
    result = log(values)
    expected = [MP.log(value) for value in values.tolist()]
    errors = [abs(a - e) for a, e in zip(exactly(result, MP.mpf), expected, strict=True)]
    assert all(error <= EPS * (8 + abs(e)) for error, e in zip(errors, expected, strict=True))
    assert (result.hi[-1], result.lo[-1]) == (0.0, 0.0)


def test_sum_is_the_same_in_torch():
    torch = pytest.importorskip("torch")
    terms = random_pair(np.random.default_rng(6), (4, 77), spread=20)
    for ours, theirs in zip(sum_axis(terms, 1), sum_axis(as_pair(terms, torch.asarray), 1), strict=True):
        np.testing.assert_array_equal(theirs.numpy(), ours)


def test_pair_sum_that_cancels_23_digits(convert):
    """The alternating binomial sum of exp(-k u) is (1 - exp(-u))**10."""
    k = np.arange(11.0)
    binomials = np.array([float(MP.binomial(10, i)) for i in range(11)])
    u = two_product(convert(np.array([[0.1], [0.3]])), convert(np.array([[0.1], [0.03]])))
    exponent = add(dot(u, from_double(convert(-k[:, None]))), as_pair(log(binomials), convert))
    total = sum_axis(scale(exp(exponent), convert((-1.0) ** k)), axis=1)
    expected = [(1 - MP.exp(-value)) ** 10 for value in exactly(u, MP.mpf)]
    errors = [abs(a - e) for a, e in zip(exactly(total, MP.mpf), expected, strict=True)]
    assert max(expected) < 1e-20
    assert max(errors) <= 4 * EPS * 2**10
