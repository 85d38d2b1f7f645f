"""The fixed parts of a pre-trained covariance."""

from dataclasses import replace

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential, TwoLayerKernel, WeightedPoints, normalise, reweight
from mkbo_plugins.core.components.components import (
    COARSE,
    COMPONENTS,
    ROUGH,
    SEARCHED,
    PretrainedComponents,
)
from mkbo_plugins.core.components.decision import DecisionFunction
from tests.core.helpers import component_of, make_table, numeric_gradient, smallest_eigenvalue

RNG = np.random.default_rng(0)
TABLE = make_table(2, RNG)
X, Y = RNG.uniform(-1, 1, (5, 2)), RNG.uniform(-1, 1, (4, 2))


@pytest.fixture
def fixed():
    decision = DecisionFunction(SquaredExponential(sigma=0.6), WeightedPoints(*TABLE), bias=0.3)
    return PretrainedComponents(decision, mean_diagonal=0.4, decision_mean=0.2, decision_spread=1.7)


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
        "decision": lambda: np.add.outer(*g) / 2,
    }[name]()


@pytest.mark.parametrize("name", COMPONENTS)
def test_parts_between_points(name, fixed):
    values = component_of(fixed, name, X, Y).value
    np.testing.assert_allclose(values, expected(name, fixed), rtol=1e-10, atol=1e-12)
    rowwise = component_of(fixed, name, X[:4], Y, elementwise=True).value
    np.testing.assert_allclose(rowwise, np.diag(values[:4]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", COMPONENTS)
def test_parts_from_a_point_err_like_those_between_points(name, fixed):
    # So large errors are allowed that another way to evaluate them would be seen.
    rough = replace(fixed, choice="features", tolerance=1e-2)
    row = rough.from_point([name], X[:1], Y)[name].value[:, :-1]
    np.testing.assert_allclose(row, component_of(rough, name, X[:1], Y).value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", COMPONENTS)
def test_parts_of_points_with_themselves(name, fixed):
    values = component_of(fixed, name, X).value
    np.testing.assert_allclose(values, component_of(fixed, name, X, X).value, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        component_of(fixed, name, X, elementwise=True).value, np.diag(values), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(values, values.T, rtol=1e-12, atol=1e-13)
    if not name.endswith("distance") and name != "decision":
        assert smallest_eigenvalue(values) > -1e-12


@pytest.mark.parametrize("name", COMPONENTS)
def test_parts_take_batches(name, fixed):
    batch = np.stack([X, X[::-1]])
    separate = np.stack([component_of(fixed, name, x, Y).value for x in batch])
    np.testing.assert_allclose(component_of(fixed, name, batch, Y).value, separate, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", COMPONENTS)
def test_torch_gives_the_same_values(name, fixed):
    torch = pytest.importorskip("torch")
    theirs = component_of(fixed, name, torch.from_numpy(X), torch.from_numpy(Y)).value
    np.testing.assert_allclose(theirs.numpy(), component_of(fixed, name, X, Y).value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("choice", ["features", "pairs", "extended"])
@pytest.mark.parametrize("name", COMPONENTS)
def test_every_way_to_evaluate_gives_the_same_values_and_gradients(name, choice, fixed):
    other = replace(fixed, choice=choice)
    upstream = np.random.default_rng(1).normal(size=(5, 4))
    components = [component_of(cov, name, X, Y) for cov in (fixed, other)]
    np.testing.assert_allclose(*(component.value for component in components), rtol=0, atol=1e-9)
    pulled = [component.vjp(upstream) for component in components]
    for ours, theirs in zip(*pulled, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8)


@pytest.mark.parametrize("choice", ["features", "pairs", "extended"])
@pytest.mark.parametrize("elementwise", [False, True])
@pytest.mark.parametrize("name", COMPONENTS)
def test_gradients_are_those_of_the_values(name, elementwise, choice, fixed):
    cov = replace(fixed, choice=choice)
    right = Y[:4]
    left = X[:4]
    left[0, 0] = 0.0
    upstream = np.random.default_rng(2).normal(size=(4,) if elementwise else (4, 4))

    def total(a, b):
        return float((upstream * component_of(cov, name, a, b, elementwise=elementwise).value).sum())

    of_x, of_y = component_of(cov, name, left, right, elementwise=elementwise).vjp(upstream)
    np.testing.assert_allclose(of_x, numeric_gradient(lambda a: total(a, right), left), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_y, numeric_gradient(lambda b: total(left, b), right), rtol=1e-5, atol=1e-6)


def test_an_unknown_part_is_refused(fixed):
    with pytest.raises(KeyError):
        component_of(fixed, "stock", X)


def chained(fixed):
    return replace(fixed, earlier=(WeightedPoints(*make_table(2, np.random.default_rng(7), 4)),))


def test_a_further_table_reweights_the_kernel_and_leaves_the_decision_function(fixed):
    both = chained(fixed)
    kernel = reweight(reweight(fixed.decision.kernel, *TABLE), both.earlier[0].points, both.earlier[0].alpha)
    np.testing.assert_allclose(component_of(both, "reweighted", X, Y).value, kernel.gram(X, Y) / 0.4, rtol=1e-12)
    np.testing.assert_array_equal(component_of(both, "moment", X, Y).value, component_of(fixed, "moment", X, Y).value)
    np.testing.assert_array_equal(component_of(both, "base", X, Y).value, component_of(fixed, "base", X, Y).value)
    assert both != fixed


@pytest.mark.parametrize("name", COMPONENTS)
def test_gradients_with_a_further_table(name, fixed):
    both = chained(fixed)
    component = component_of(both, name, X, Y)
    upstream = np.random.default_rng(1).normal(size=component.value.shape)
    found, _ = component.vjp(upstream)
    expected = numeric_gradient(lambda Z: (upstream * component_of(both, name, Z, Y).value).sum(), X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_the_coarse_one_is_never_finer(fixed):
    assert fixed.coarse.tolerance == COARSE
    assert replace(fixed, tolerance=1e-4).coarse.tolerance == 1e-4


@pytest.mark.parametrize("name", ["reweighted", "normalised", "feature_distance"])
def test_the_rough_one_is_close_and_for_many_features_only(name, fixed, monkeypatch):
    rng = np.random.default_rng(0)
    data, points = (rng.uniform(-1, 1, (n, X.shape[1])) for n in (30, 200))
    assert fixed.rough([name], data, points) is None
    monkeypatch.setattr("mkbo_plugins.core.components.components.FEW_FEATURES", 1)
    # A few sums over few pairs cost less than any features.
    assert fixed.kernel.evaluator.common_features(data[:1], points[:1]) is None
    table = WeightedPoints(rng.uniform(-1, 1, (60, X.shape[1])), rng.normal(size=60))
    large = replace(fixed, decision=replace(fixed.decision, table=table))
    large = replace(large, mean_diagonal=float(large.kernel(data, data).mean()))
    rough = large.rough([name], data, points)
    assert rough is large.rough([name], data, data)
    assert rough == large
    assert large.rough([name], data, 9 * points) is None
    assert large.rough(["base", "moment"], data, points) is None
    difference = component_of(rough, name, data, points).value - component_of(large, name, data, points).value
    assert 1e-12 < np.abs(difference).max() < 5 * ROUGH


def test_what_is_kept_of_the_decision_function_is_of_the_points_as_they_were(fixed):
    Z, upstream = X.copy(), np.ones((5, 5))
    assert component_of(fixed, "moment", Z).value.shape == (5, 5)
    Z += 0.3
    for ours, theirs in zip(
        component_of(fixed, "moment", X).vjp(upstream),
        component_of(replace(fixed), "moment", X).vjp(upstream),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_likeness_is_the_normalised_free_kernel(fixed):
    np.testing.assert_allclose(fixed.correlation(X, Y), normalise(fixed.decision.kernel).gram(X, Y), rtol=1e-14)
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


def in_box(n, half_width, seed=0):
    return np.random.default_rng(seed).uniform(-half_width, half_width, (n, X.shape[1]))


def with_many_pairs():
    """Return the fixed parts of so many support vectors that features cost less than pairs."""
    rng = np.random.default_rng(3)
    table = WeightedPoints(rng.uniform(-1, 1, (60, 2)), rng.normal(size=60))
    return PretrainedComponents(DecisionFunction(SquaredExponential(sigma=0.6), table, 0.1), 0.4, 0.2, 1.7)


@pytest.mark.parametrize("half_width", [0.9, 1.4])
def test_a_search_is_of_one_covariance_within_its_error(half_width):
    fixed = with_many_pairs()
    unit = fixed.kernel.gram(in_box(50, 1.0)).diagonal().mean()
    fixed = replace(fixed, mean_diagonal=unit)
    span = in_box(20, half_width)
    searched = fixed.searched(["feature_distance", "moment"], span)
    assert searched.tolerance == SEARCHED
    assert fixed.searched(["feature_distance"], in_box(20, half_width, seed=1)) is searched
    small, all_points = in_box(6, 0.3, seed=2), in_box(40, half_width, seed=3)
    both = np.vstack([small, all_points])
    whole, exact = (component_of(part, "feature_distance", both).value for part in (searched, fixed))
    # Points near the middle alone are of the same features as with others.
    np.testing.assert_allclose(
        component_of(searched, "feature_distance", small).value, whole[:6, :6], rtol=1e-9, atol=1e-12
    )
    diagonal = fixed.kernel.gram(both).diagonal() / unit
    allowed = np.maximum(diagonal, 1.0)
    bound = SEARCHED * (np.sqrt(allowed[:, None]) + np.sqrt(allowed)) ** 2
    assert (np.abs(whole - exact) <= bound).all()
    assert (np.abs(whole - exact)).max() > 1e-9
    assert smallest_eigenvalue(np.exp(-whole / 2)) > -1e-12


def test_where_features_do_not_help_a_search_is_coarse(fixed):
    assert fixed.searched(["normalised"], X).tolerance == COARSE
    assert fixed.searched(["moment"], X).tolerance == COARSE
    assert fixed.searched(["feature_distance"], in_box(5, 40.0)).tolerance == COARSE
    rng = np.random.default_rng(9)
    narrow = DecisionFunction(SquaredExponential(sigma=1e-3), WeightedPoints(*make_table(4, rng, 20)), 0.1)
    points = rng.uniform(-1, 1, (5, 4))
    assert replace(fixed, decision=narrow).searched(["feature_distance"], points).tolerance == COARSE
