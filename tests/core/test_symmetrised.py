"""Symmetrised products of two-argument kernels."""

from itertools import permutations
from math import prod

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from mkbo_plugins.core import SquaredExponential, SymmetrisedProduct
from mkbo_plugins.core.theory.symmetrised import pairings
from mkbo_plugins.errors import KernelError

BASE = SquaredExponential(sigma=0.6)
KERNEL = SymmetrisedProduct(BASE)


def matern(x, y):
    distance = np.sqrt(((x - y) ** 2).sum(axis=-1))
    return Matern(1.0, nu=1.5)(np.zeros((1, 1)), distance.reshape(-1, 1))[0].reshape(distance.shape)


@pytest.mark.parametrize("kernel", [BASE, matern])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_is_the_mean_over_all_permutations(kernel, q):
    points = np.random.default_rng(q).normal(size=(2 * q, 3))
    terms = [
        prod(float(kernel(points[order[2 * i]], points[order[2 * i + 1]])) for i in range(q))
        for order in permutations(range(2 * q))
    ]
    assert float(SymmetrisedProduct(kernel)(*points)) == pytest.approx(np.mean(terms), rel=1e-12)


@pytest.mark.parametrize("q", [1, 2, 3, 4])
def test_each_pairing_occurs_once(q):
    found = [frozenset(map(frozenset, pairs)) for pairs in pairings(tuple(range(2 * q)))]
    assert len(found) == len(set(found)) == prod(range(1, 2 * q, 2))


@pytest.mark.parametrize("q", [2, 3])
def test_form_of_a_vector_is_the_power_of_the_quadratic_form(q):
    rng = np.random.default_rng(0)
    X, alpha = rng.normal(size=(4, 2)), rng.normal(size=4)
    axes = [X.reshape((1,) * i + (4,) + (1,) * (2 * q - 1 - i) + (2,)) for i in range(2 * q)]
    total = KERNEL(*axes)
    for _ in range(2 * q):
        total = total @ alpha
    assert float(total) == pytest.approx((alpha @ BASE.gram(X) @ alpha) ** q, rel=1e-10)


def test_gram_is_that_of_the_kernel():
    X = np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_allclose(KERNEL.gram(X), BASE.gram(X), rtol=1e-12)
    np.testing.assert_allclose(KERNEL.gram(X, X[:2]), BASE.gram(X, X[:2]), rtol=1e-12)


def test_bad_arguments_are_refused():
    with pytest.raises(KernelError, match="even number"):
        KERNEL(*np.zeros((3, 2)))
    with pytest.raises(KernelError, match="function of two points"):
        SymmetrisedProduct("se")
