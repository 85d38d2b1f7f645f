"""The necessary condition of 2q-kernels, and that it is not sufficient."""

from itertools import permutations

import numpy as np
import pytest

from mkbo_plugins.core import Linear, Polynomial, SquaredExponential, SymmetrisedProduct, check_2q_mercer
from mkbo_plugins.errors import KernelError

POINTS = np.random.default_rng(0).uniform(-1, 1, (4, 2))


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize(
    "kernel",
    [Linear(), Polynomial(degree=3), SquaredExponential(sigma=0.5), SymmetrisedProduct(SquaredExponential(sigma=0.5))],
)
def test_kernels_of_this_package_are_not_refuted(kernel, q):
    found = check_2q_mercer(kernel, POINTS, q)
    assert found.verdict == "not refuted"
    assert found.asymmetry <= 1e-14


def test_an_asymmetric_function_fails():
    found = check_2q_mercer(lambda a, b, c, d: a[..., 0] + (a + b + c + d).sum(axis=-1), POINTS, 2)
    assert found.verdict == "fails"
    assert np.isnan(found.smallest_eigenvalue)


def test_an_indefinite_function_fails():
    found = check_2q_mercer(lambda *x: -Polynomial(degree=2)(*x), POINTS, 2)
    assert found.verdict == "fails"
    assert found.asymmetry <= 1e-14
    assert found.smallest_eigenvalue == pytest.approx(-1)


def test_a_function_without_a_value_fails():
    assert check_2q_mercer(lambda *x: np.nan * Linear()(*x), POINTS, 1).verdict == "fails"


def choi_lam_moments():
    """Return the symmetric tensor (4, 4, 4, 4) of moments in x, y, z, w that the condition does not refute."""
    moments = np.zeros((4,) * 4)
    for index in np.ndindex(moments.shape):
        counts = tuple(sorted(np.bincount(index, minlength=4)))
        if counts == (0, 0, 0, 4):
            moments[index] = 0.01 if index[0] == 3 else 300.0
        elif counts in {(0, 0, 2, 2), (1, 1, 1, 1)}:
            moments[index] = 1.0
    return moments


def test_the_condition_is_not_sufficient():
    moments = choi_lam_moments()
    kernel = lambda a, b, c, d: np.einsum("ijkl,...i,...j,...k,...l->...", moments, a, b, c, d)  # noqa: E731
    found = check_2q_mercer(kernel, np.eye(4), 2)
    assert found.verdict == "not refuted"
    # Choi and Lam's form w^4 + x^2 y^2 + y^2 z^2 + z^2 x^2 - 4 x y z w is nowhere negative, by the inequality of
    # means, so that it would pair with any 4-kernel to a value of at least 0.
    form = np.zeros((4,) * 4)
    for monomial, coefficient in (((3,) * 4, 1), ((0, 0, 1, 1), 1), ((1, 1, 2, 2), 1), ((2, 2, 0, 0), 1)):
        for index in set(permutations(monomial)):
            form[index] += coefficient / len(set(permutations(monomial)))
    for index in permutations(range(4)):
        form[index] -= 4 / 24
    assert np.sum(form * moments) == pytest.approx(-0.99)
    v = np.random.default_rng(0).normal(size=(1000, 4))
    assert np.einsum("ijkl,ni,nj,nk,nl->n", form, v, v, v, v).min() >= 0


@pytest.mark.parametrize(
    ("points", "q", "message"),
    [(POINTS, 0, "q must be"), (POINTS, 1.5, "q must be"), (np.zeros((50, 1)), 2, "at most 45"), ([1.0], 1, "points")],
)
def test_bad_arguments_are_refused(points, q, message):
    with pytest.raises(KernelError, match=message):
        check_2q_mercer(Linear(), points, q)
