"""Explicit features of kernels of 2q arguments."""

import numpy as np
import pytest

from mkbo_plugins.core import Exponential, Polynomial, SymmetrisedProduct, normalise, reweight
from mkbo_plugins.core.theory.kernel_features import has_finite_features, kernel_features
from mkbo_plugins.errors import KernelError
from tests.core.helpers import FAMILIES, make_kernel, make_reweighted


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("kind", ["free", "reweighted", "normalised", "normalised reweighted"])
@pytest.mark.parametrize("family", FAMILIES)
def test_features_give_back_the_kernel_of_2q_arguments(family, kind, q):
    rng = np.random.default_rng(0)
    make = make_reweighted if "reweighted" in kind else make_kernel
    kernel = make(family, 2, rng, weighted=True)
    if "normalised" in kind:
        kernel = normalise(kernel)
    points = rng.uniform(-0.9, 0.9, (2 * q, 2))
    features = kernel_features(kernel, points, q)(points)
    size = np.abs(features).prod(axis=0).sum()
    np.testing.assert_allclose(kernel(*points), features.prod(axis=0).sum(), rtol=0, atol=1e-8 * size)


def test_kernels_with_finitely_many_features_are_known():
    polynomial = Polynomial(degree=3)
    assert has_finite_features(polynomial, 4)
    assert has_finite_features(normalise(polynomial), 4)
    assert not has_finite_features(polynomial, 40)
    assert not has_finite_features(FAMILIES["squared_exponential"](), 1)
    assert not has_finite_features(SymmetrisedProduct(polynomial), 1)


def test_a_series_is_complete_where_the_table_reaches_far():
    kernel = reweight(Exponential(1.0), np.array([[3.0], [-2.5]]), np.array([1.0, 0.7]))
    x = np.array([[1.0]])
    for q in (1, 2):
        total = (kernel_features(kernel, x, q)(x) ** (2 * q)).sum()
        assert total == pytest.approx(float(kernel(*[x[0]] * (2 * q))), rel=1e-10)


def test_a_series_without_an_end_is_refused():
    with pytest.raises(KernelError, match="degrees above"):
        kernel_features(Exponential(0.004), np.array([[1.0]]), 2)
