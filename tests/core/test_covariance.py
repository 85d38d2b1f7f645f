"""The fixed parts of a pre-trained covariance."""

from dataclasses import replace

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential, TwoLayerKernel, WeightedPoints, normalise, reweight
from mkbo_plugins.core.components.covariance import PARTS, FixedCovariance
from mkbo_plugins.core.components.decision import DecisionFunction
from tests.core.helpers import make_table, numeric_gradient, smallest_eigenvalue

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
        "decision_distance": lambda: np.subtract.outer(*g) ** 2,
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
    if not name.endswith("distance"):
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


@pytest.mark.parametrize("choice", ["features", "pairs", "extended"])
@pytest.mark.parametrize("name", PARTS)
def test_every_way_to_evaluate_gives_the_same_values_and_gradients(name, choice, fixed):
    other = replace(fixed, choice=choice)
    upstream = np.random.default_rng(1).normal(size=(5, 4))
    values = [cov.part(name, X, Y) for cov in (fixed, other)]
    np.testing.assert_allclose(*values, rtol=0, atol=1e-9)
    pulled = [cov.pull_part(name, X, Y, values[0], upstream) for cov in (fixed, other)]
    for ours, theirs in zip(*pulled, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8)


@pytest.mark.parametrize("choice", ["features", "pairs", "extended"])
@pytest.mark.parametrize("elementwise", [False, True])
@pytest.mark.parametrize("name", PARTS)
def test_gradients_are_those_of_the_values(name, elementwise, choice, fixed):
    cov = replace(fixed, choice=choice)
    right = Y[:4]
    left = X[:4]
    left[0, 0] = 0.0
    upstream = np.random.default_rng(2).normal(size=(4,) if elementwise else (4, 4))

    def total(a, b):
        return float((upstream * cov.part(name, a, b, elementwise=elementwise)).sum())

    value = cov.part(name, left, right, elementwise=elementwise)
    of_x, of_y = cov.pull_part(name, left, right, value, upstream, elementwise=elementwise)
    np.testing.assert_allclose(of_x, numeric_gradient(lambda a: total(a, right), left), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_y, numeric_gradient(lambda b: total(left, b), right), rtol=1e-5, atol=1e-6)


def test_an_unknown_part_is_refused(fixed):
    with pytest.raises(KeyError):
        fixed.part("stock", X)


def chained(fixed):
    return replace(fixed, earlier=(WeightedPoints(*make_table(2, np.random.default_rng(7), 4)),))


def test_a_further_table_reweights_the_kernel_and_leaves_the_decision_function(fixed):
    both = chained(fixed)
    kernel = reweight(reweight(fixed.decision.kernel, *TABLE), both.earlier[0].points, both.earlier[0].alpha)
    np.testing.assert_allclose(both.part("reweighted", X, Y), kernel.gram(X, Y) / 0.4, rtol=1e-12)
    np.testing.assert_array_equal(both.part("moment", X, Y), fixed.part("moment", X, Y))
    np.testing.assert_array_equal(both.part("base", X, Y), fixed.part("base", X, Y))
    assert both != fixed


@pytest.mark.parametrize("name", PARTS)
def test_gradients_with_a_further_table(name, fixed):
    both = chained(fixed)
    value = both.part(name, X, Y)
    upstream = np.random.default_rng(1).normal(size=value.shape)
    found, _ = both.pull_part(name, X, Y, value, upstream)
    expected = numeric_gradient(lambda Z: (upstream * both.part(name, Z, Y)).sum(), X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_likeness_is_the_normalised_free_kernel(fixed):
    np.testing.assert_allclose(fixed.likeness(X, Y), normalise(fixed.decision.kernel).gram(X, Y), rtol=1e-14)
    assert fixed.tables == 1
    ((view, Z),) = fixed.views(X)
    assert view is fixed
    assert Z is X


def test_what_is_handed_out_can_be_written_to(cov):
    Z = cov.to_coordinates(cov.space.sobol(5))
    first = cov.fixed.standardised_decision(Z)
    expected = first.copy()
    first[:] = 0
    np.testing.assert_array_equal(cov.fixed.standardised_decision(Z), expected)
