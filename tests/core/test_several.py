"""Covariances of several tables that share some of their coordinates."""

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential, WeightedPoints
from mkbo_plugins.core.components.components import COARSE, COMPONENTS, PretrainedComponents
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.components.several import SeveralTables
from mkbo_plugins.core.forms import FORMS, get_form, of_table
from tests.core.helpers import component_of, make_table, numeric_gradient, smallest_eigenvalue

COLUMNS = ((0, 1, 2), (3, 1, 2))
RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-1, 1, (9, 4)), RNG.uniform(-1, 1, (6, 4))


def member(sigma, rows, *, weights):
    decision = DecisionFunction(
        SquaredExponential(sigma=sigma, weights=weights), WeightedPoints(*make_table(3, RNG, rows)), bias=0.1
    )
    return PretrainedComponents(decision, mean_diagonal=0.3 * sigma, decision_mean=0.2, decision_spread=0.7)


@pytest.fixture(scope="module")
def several():
    return SeveralTables((member(0.5, 8, weights=(1.0, 0.3, 0.8)), member(1.1, 5, weights=(0.2, 1.0, 0.5))), COLUMNS)


def brute_force(table, kernel, x, y):
    """Return sum_ij alpha_i alpha_j K_4(x_i, x_j, x, y)."""
    return sum(
        a * b * float(kernel(p, q, x, y))
        for a, p in zip(table.alpha, table.points, strict=True)
        for b, q in zip(table.alpha, table.points, strict=True)
    )


def test_the_sum_of_two_tables_is_the_brute_force_sum(several):
    form = get_form("reweighted", 2)
    scales = {"output_scale_1": 1.7, "output_scale_2": 0.4}
    gram = form.combine({name: component_of(several, name, X, Y).value for name in form.parts}, None, scales)
    expected = np.zeros_like(gram)
    for (fixed, columns), scale in zip(zip(several.members, COLUMNS, strict=True), scales.values(), strict=True):
        table, kernel = fixed.decision.table, fixed.decision.kernel
        for i, x in enumerate(X[:, list(columns)]):
            for j, y in enumerate(Y[:, list(columns)]):
                expected[i, j] += scale * brute_force(table, kernel, x, y) / fixed.mean_diagonal
    np.testing.assert_allclose(gram, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("plain", COMPONENTS)
def test_a_table_does_not_see_the_others_coordinates(several, plain):
    name = of_table(plain, 0, 2)
    moved = X.copy()
    moved[::2, 3] += 0.5
    assert np.array_equal(component_of(several, name, X).value, component_of(several, name, moved).value)
    assert not np.allclose(
        component_of(several, of_table(plain, 1, 2), X).value, component_of(several, of_table(plain, 1, 2), moved).value
    )


@pytest.mark.parametrize("plain", COMPONENTS)
@pytest.mark.parametrize("elementwise", [False, True])
def test_gradients(several, plain, elementwise):
    name, left, right = of_table(plain, 1, 2), X[:4], Y[:4]
    component = component_of(several, name, left, right, elementwise=elementwise)
    upstream = np.random.default_rng(1).normal(size=component.value.shape)
    of_x, of_y = component.vjp(upstream)
    for index, found in enumerate((of_x, of_y)):

        def total(Z, index=index):
            points = (Z, right) if index == 0 else (left, Z)
            return (upstream * component_of(several, name, *points, elementwise=elementwise).value).sum()

        expected = numeric_gradient(total, (left, right)[index])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_two_tables_are_positive_semidefinite_and_contain_those_of_one(several, name):
    form, single = get_form(name, 2), get_form(name)
    stock = SquaredExponential(sigma=0.4).gram(X)
    parts = {part: component_of(several, part, X).value for part in form.parts}
    scales = dict.fromkeys(form.hyperparameters, 0.8)
    assert smallest_eigenvalue(form.combine(parts, stock, scales)) > -1e-12
    # The second table's terms vanish, and what is left is the form of the first.
    vanishing = ("output_scale_2", "moment_scale_2", "link_scale_2", "similarity_scale_2")
    absent = dict.fromkeys(vanishing, 0.0) | {"feature_scale_2": np.inf}
    scales |= {scale: absent[scale] for scale in scales if scale in absent}
    first = {plain: component_of(several, of_table(plain, 0, 2), X).value for plain in single.parts}
    expected = single.combine(first, stock, dict.fromkeys(single.hyperparameters, 0.8))
    np.testing.assert_allclose(form.combine(parts, stock, scales), expected, rtol=1e-14, atol=1e-300)


def test_an_unknown_part_is_refused(several):
    with pytest.raises(KeyError):
        component_of(several, "moment", X)


def test_components_come_in_the_order_asked_for(several):
    names = ["moment_2", "base_1", "reweighted_2", "moment_1"]
    assert list(several.components(names, X)) == names


def test_each_table_sees_its_own_coordinates(several):
    for (fixed, Z), member, columns in zip(several.views(X), several.members, COLUMNS, strict=True):
        assert fixed is member
        np.testing.assert_array_equal(Z, X[:, list(columns)])


def test_likeness_is_the_product_over_tables(several):
    expected = np.prod(
        [fixed.correlation(Z, W) for (fixed, Z), (_, W) in zip(several.views(X), several.views(Y), strict=True)], axis=0
    )
    np.testing.assert_allclose(several.correlation(X, Y), expected, rtol=1e-14)
    np.testing.assert_allclose(np.diag(several.correlation(X, X)), 1.0, rtol=1e-12)


def test_the_coarse_one_is_close_and_the_same_thing(several):
    assert several.coarse == several
    assert {member.tolerance for member in several.coarse.members} == {COARSE}
    for name in ("reweighted_1", "reweighted_2"):
        np.testing.assert_allclose(
            component_of(several.coarse, name, X).value, component_of(several, name, X).value, atol=1e-5
        )


def test_a_rough_one_is_of_the_tables_that_have_many_features(several, monkeypatch):
    names = ["reweighted_1", "reweighted_2"]
    assert several.rough(names, X, X) is None
    first, rough = several.members[0], several.members[0].coarse
    monkeypatch.setattr(PretrainedComponents, "rough", lambda self, *_: rough if self is first else None)
    found = several.rough(names, X, X)
    assert found.members[0] is rough
    assert found.members[1] is several.members[1].coarse
    assert several.rough(names, X, X) is found
    assert several.rough(["base_2"], X, X) is None


@pytest.mark.parametrize("tables", [1, 2, 12])
@pytest.mark.parametrize("name", FORMS)
def test_names_lead_back_to_tables(name, tables):
    form = get_form(name, tables)
    shared = {"output_scale"} if form.uses_stock or name == "two_layer" else set()
    for external, (plain, table) in (*form.parts.items(), *form.scales.items()):
        assert external == (plain if plain in shared else of_table(plain, table or 0, tables))
        assert (table is None) == (tables == 1 or plain in shared)
    assert list(form.hyperparameters) == list(form.scales)
