"""Explicit features of kernels of 2q arguments."""

import numpy as np
import pytest

from mkbo_plugins.core import Polynomial, SymmetrisedProduct, normalise
from mkbo_plugins.core.kernel_features import has_finite_features, kernel_features
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
