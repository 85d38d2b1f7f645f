"""The fixed parts of a pre-trained covariance."""

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential, TwoLayerKernel, WeightedPoints, normalise, reweight
from mkbo_plugins.core.covariance import PARTS, FixedCovariance
from mkbo_plugins.core.decision import DecisionFunction
from tests.core.helpers import make_table, smallest_eigenvalue

RNG = np.random.default_rng(0)
TABLE = make_table(2, RNG)
X, Y = RNG.uniform(-1, 1, (5, 2)), RNG.uniform(-1, 1, (4, 2))


@pytest.fixture
def fixed():
    decision = DecisionFunction(SquaredExponential(sigma=0.6), WeightedPoints(*TABLE), bias=0.3)
    return FixedCovariance(decision, mean_diagonal=0.4, decision_mean=0.2, decision_spread=1.7)


def expected(name, fixed):
    """Return the part between X and Y from the public kernels."""
    kernel = reweight(fixed.decision.kernel, *TABLE)
    g = (fixed.decision(X) - 0.2) / 1.7, (fixed.decision(Y) - 0.2) / 1.7
    return {
        "base": lambda: fixed.decision.kernel.gram(X, Y),
        "reweighted": lambda: kernel.gram(X, Y) / 0.4,
        "normalised": lambda: normalise(kernel).gram(X, Y),
        "feature_distance": lambda: -2 * np.log(TwoLayerKernel(kernel, scale=0.4).gram(X, Y)),
        "moment": lambda: np.multiply.outer(*g),
    }[name]()


@pytest.mark.parametrize("name", PARTS)
def test_parts_between_points(name, fixed):
    values = fixed.part(name, X, Y)
    np.testing.assert_allclose(values, expected(name, fixed), rtol=1e-10, atol=1e-12)
    rowwise = fixed.part(name, X[:4], Y, elementwise=True)
    np.testing.assert_allclose(rowwise, np.diag(values[:4]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_points_with_themselves(name, fixed):
    values = fixed.part(name, X)
    np.testing.assert_allclose(values, fixed.part(name, X, X), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(fixed.part(name, X, elementwise=True), np.diag(values), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(values, values.T, rtol=1e-12, atol=1e-13)
    if name != "feature_distance":
        assert smallest_eigenvalue(values) > -1e-12


@pytest.mark.parametrize("name", PARTS)
def test_parts_take_batches(name, fixed):
    batch = np.stack([X, X[::-1]])
    separate = np.stack([fixed.part(name, x, Y) for x in batch])
    np.testing.assert_allclose(fixed.part(name, batch, Y), separate, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PARTS)
def test_torch_gives_the_same_values(name, fixed):
    torch = pytest.importorskip("torch")
    theirs = fixed.part(name, torch.from_numpy(X), torch.from_numpy(Y))
    np.testing.assert_allclose(theirs.numpy(), fixed.part(name, X, Y), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["reweighted", "normalised", "feature_distance"])
def test_parts_use_the_evaluator_they_are_given(name, fixed):
    other = reweight(fixed.decision.kernel, TABLE[0], 3 * TABLE[1]).evaluator
    factor = 1 if name == "normalised" else 9
    tripled = fixed.part(name, X, Y, evaluator=other)
    np.testing.assert_allclose(tripled, factor * fixed.part(name, X, Y), rtol=1e-10, atol=1e-12)


def test_an_unknown_part_is_refused(fixed):
    with pytest.raises(KeyError):
        fixed.part("stock", X)
