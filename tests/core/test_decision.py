"""The decision function of a machine."""

import numpy as np
import pytest

from mkbo_plugins.core import Polynomial, SquaredExponential, WeightedPoints
from mkbo_plugins.core.components.decision import DecisionFunction


def function():
    return DecisionFunction(
        SquaredExponential(sigma=0.5), WeightedPoints([[0.0, 1.0], [0.5, -0.5]], [2.0, -3.0]), bias=0.7
    )


def test_sums_the_kernel_over_the_table():
    g = function()
    x = np.array([0.3, 0.2])
    expected = 2 * g.kernel(x, [0.0, 1.0]) - 3 * g.kernel(x, [0.5, -0.5]) + 0.7
    np.testing.assert_allclose(g(x[None]), [expected], rtol=1e-13)


def test_takes_batches():
    g = function()
    X = np.random.default_rng(0).uniform(-1, 1, (3, 4, 2))
    np.testing.assert_allclose(g(X), np.stack([g(x) for x in X]), rtol=1e-13)


def test_torch_gives_the_same_values():
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(1).uniform(-1, 1, (4, 2))
    np.testing.assert_allclose(function()(torch.from_numpy(X)).numpy(), function()(X), rtol=1e-13)


def test_compares_by_value():
    assert function() == function()
    assert function() != DecisionFunction(Polynomial(), function().table, 0.7)
