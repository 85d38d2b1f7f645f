"""Listing of monomials with their weights."""

import numpy as np
import pytest

from mkbo_plugins.core import Polynomial, feature_weights, reweight
from mkbo_plugins.errors import KernelError
from tests.core.helpers import FAMILIES, make_reweighted


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_give_back_the_kernel(family):
    rng = np.random.default_rng(0)
    kernel = make_reweighted(family, 2, rng, weighted=True)
    listing = feature_weights(kernel)
    assert (np.diff(np.abs(listing.w)) <= 0).all()
    X, Y = rng.uniform(-1, 1, (2, 5, 2))
    theta = [np.prod(points[:, None] ** listing.exponents, axis=-1) for points in (X, Y)]
    damping = np.exp(kernel.base.log_damping(X)[:, None] + kernel.base.log_damping(Y))
    gram = kernel.gram(X, Y)
    scale = np.sqrt(np.outer(kernel(X, X), kernel(Y, Y)))
    np.testing.assert_allclose(((theta[0] * listing.w**2) @ theta[1].T) * damping / scale, gram / scale, atol=1e-9)


def test_weights_of_a_polynomial_written_out():
    kernel = reweight(Polynomial(degree=2), [[0.5, 2.0]], [3.0])
    found = {tuple(k): (tau, w) for k, tau, w in zip(*vars(feature_weights(kernel)).values(), strict=True)}
    for exponents, squared, value in (
        ((0, 0), 1, 1.0),
        ((1, 0), 2, 0.5),
        ((0, 1), 2, 2.0),
        ((2, 0), 1, 0.25),
        ((1, 1), 2, 1.0),
        ((0, 2), 1, 4.0),
    ):
        assert found[exponents] == pytest.approx((squared**0.5, 3 * squared**0.5 * value), rel=1e-12)
    lines = str(feature_weights(kernel)).splitlines()
    assert len(lines) == len(found) == 6
    assert lines[0].startswith("x2^2 ")
    assert any(line.startswith("x1 x2 ") for line in lines)


def test_kernels_without_a_table_are_refused():
    with pytest.raises(KernelError, match="reweight"):
        feature_weights(Polynomial(degree=2))
