"""Mapping of the host's dimensions by name: order, levels, soft levels, descriptions, and what is refused."""

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from skopt.space import Categorical, Integer, Real, Space

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.core.forms import get_form
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.skopt import parameter_space, pretrained_regressor
from mkbo_plugins.skopt.columns import column_map
from mkbo_plugins.skopt.dimensions import INPUTS
from tests.skopt.conftest import as_records, mixed_dimensions, normalised


def mapped(cov, dimensions, form="transfer_link", **settings):
    return column_map(cov, dimensions, get_form(form), **settings)


@pytest.fixture(scope="module")
def sizes_cov():
    """Return a covariance over sizes that are ordered numbers, grades that are ordered words, and a depth."""
    space = ParameterSpace.from_dict(
        {
            "size": [16, 32, 128],
            "grade": {"levels": ["low", "mid", "high"], "ordered": True},
            "depth": (1.0, 9.0, "log"),
        }
    )
    X = space.sobol(15)
    return pretrain((X, X[:, 0] / 32 + X[:, 1] ** 2 - X[:, 2]), space=space, trainer="gp")


def test_columns_are_found_by_name_whatever_their_order(cov):
    dimensions = mixed_dimensions()
    rows = normalised(dimensions).rvs(5, random_state=0)
    expected = cov.to_coordinates(as_records(dimensions, rows))
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        moved = [mixed_dimensions()[j] for j in order]
        columns = normalised(moved).transform([[row[j] for j in order] for row in rows])
        assert np.allclose(mapped(cov, moved).points(columns, "normalised").frame, expected, rtol=1e-12, atol=1e-12)


def test_host_inputs_are_unit_scaled_with_one_column_per_level(cov):
    columns = mapped(cov, mixed_dimensions())
    assert columns.stock == ("gas", "layers", "power", "tip", "rate")
    assert columns.stock_dims == 3 + 1 + 1 + 2 + 1
    space = normalised(mixed_dimensions())
    x = space.transform([["Argon", 3, 200.0, "used", 1e-1]])
    assert np.allclose(columns.points(x, "normalised").stock, [[0, 1, 0, 0.5, 0, 0, 1, 1]])
    only_extra = mapped(cov, mixed_dimensions(), "two_layer")
    assert only_extra.stock == ("tip",)
    assert np.allclose(only_extra.points(x, "normalised").stock, [[0, 1]])


def test_inputs_fed_raw_are_those_fed_normalised(cov):
    columns, space = mapped(cov, mixed_dimensions()), Space(mixed_dimensions())
    rows = space.rvs(5, random_state=0)
    for dimension in space.dimensions:
        dimension.set_transformer("onehot" if isinstance(dimension, Categorical) else "identity")
    raw = columns.points(space.transform(rows), "raw")
    expected = columns.points(normalised(mixed_dimensions()).transform(rows), "normalised")
    assert np.allclose(raw.frame, expected.frame, rtol=0, atol=1e-12)
    assert np.allclose(raw.stock, expected.stock, rtol=0, atol=1e-12)


def test_fractional_integers_are_linear_and_soft_levels_are_rounded(cov):
    columns = mapped(cov, mixed_dimensions())
    x = normalised(mixed_dimensions()).transform([["Argon", 3, 200.0, "used", 1e-1]])[0]
    soft = x.copy()
    soft[:3] = 0.2, 0.3, 0.9  # the host's search does not keep the sum at 1
    soft[3] = 0.37
    frame = columns.points(soft[None, :], "normalised").frame[0]
    named = dict(zip(cov.space.coordinate_names, frame, strict=True))
    assert [named["gas=Air"], named["gas=Argon"], named["gas=Nitrogen"]] == [0, 0, 1]
    assert named["layers"] == pytest.approx(2 * (0.37 * 4) / 5 - 1)


def test_gradients_are_pulled_back_through_the_map(cov):
    columns = mapped(cov, mixed_dimensions())
    x = np.random.default_rng(0).uniform(0.1, 0.9, columns.size)
    for inputs, at in (("normalised", x), ("raw", np.array([0.2, 0.5, 0.3, 2.5, 900.0, 0.4, -7.0]))):
        d = len(cov.space.coordinate_names)
        of_frame, of_stock = np.eye(d, d + columns.stock_dims), np.eye(columns.stock_dims, d + columns.stock_dims, d)
        found = columns.vjp(at, inputs, of_frame.T, of_stock.T)
        for j in range(columns.size):
            step = 1e-6 * max(1, abs(at[j])) * np.eye(columns.size)[j]
            ahead, behind = (columns.points((at + s)[None, :], inputs) for s in (step, -step))
            numeric = np.hstack([ahead.frame - behind.frame, ahead.stock - behind.stock])[0] / (2 * step[j])
            assert np.allclose(found[:, j], numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("base", [2, 10])
def test_logarithms_of_any_base(cov, base):
    rate = Real(1e-4, 1e-1, prior="log-uniform", base=base, name="rate")
    dimensions = [rate, *mixed_dimensions()[:3]]
    rows = [[value, "Air", 2, 900.0] for value in (1e-4, 3e-3, 1e-1)]
    expected = cov.to_coordinates(as_records(dimensions, rows))
    assert np.allclose(
        mapped(cov, dimensions).points(normalised(dimensions).transform(rows), "normalised").frame, expected
    )
    raw = Space(dimensions)
    for dimension in dimensions[:1] + dimensions[2:]:
        dimension.set_transformer("identity")
    assert np.allclose(mapped(cov, dimensions).points(raw.transform(rows), "raw").frame, expected)


def test_numeric_and_ordered_levels(sizes_cov):
    dimensions = [
        Categorical([128, 16, 32], name="size"),
        Categorical(["high", "low"], name="grade"),
        Integer(2, 8, name="depth"),
    ]
    rows = [[16, "low", 2], [128, "high", 8], [32, "low", 4]]
    points = mapped(sizes_cov, dimensions).points(normalised(dimensions).transform(rows), "normalised")
    assert np.allclose(points.frame, sizes_cov.to_coordinates(as_records(dimensions, rows)))
    assert np.allclose(points.stock[:, 0], [0, 1, (32 - 16) / 112])
    numbers = [Real(16.0, 128.0, name="size"), dimensions[1], dimensions[2]]
    rows = [[20.5, "low", 2]]
    points = mapped(sizes_cov, numbers).points(normalised(numbers).transform(rows), "normalised")
    assert points.frame[0, 0] == pytest.approx(2 * (20.5 - 16) / 112 - 1)


def test_one_level_is_a_constant(cov):
    dimensions = [Categorical(["Argon"], name="gas"), *mixed_dimensions()[1:]]
    columns = mapped(cov, dimensions)
    assert columns.size == 5
    assert "gas" in columns.stock
    assert columns.stock_dims == 5
    rows = normalised(dimensions).rvs(3, random_state=0)
    points = columns.points(normalised(dimensions).transform(rows), "normalised")
    assert np.allclose(points.frame, cov.to_coordinates(as_records(dimensions, rows)))


def test_parameters_the_target_keeps_constant(cov):
    dimensions = [d for d in mixed_dimensions() if d.name not in ("gas", "rate")]
    columns = mapped(cov, dimensions, fixed={"gas": "Air", "rate": 1e-3})
    rows = normalised(dimensions).rvs(3, random_state=0)
    records = [{**record, "gas": "Air", "rate": 1e-3} for record in as_records(dimensions, rows)]
    found = columns.points(normalised(dimensions).transform(rows), "normalised").frame
    assert np.allclose(found, cov.to_coordinates(records))


def test_descriptions_the_host_takes(cov):
    plain = [["Air", "Argon", "Nitrogen"], (1, 5), (200.0, 5000.0), ("new", "used"), (1e-4, 1e-1, "log-uniform", 2)]
    names = ["gas", "layers", "power", "tip", "rate"]
    expected = mapped(cov, mixed_dimensions())
    assert mapped(cov, plain, names=names) == expected
    assert mapped(cov, Space(mixed_dimensions())) == expected
    by_name = {d.name: d for d in mixed_dimensions()}
    for described in (by_name, [by_name], [(by_name, 20)]):
        assert mapped(cov, described).names == tuple(sorted(names))
    renamed = {f"model__{name}": dimension for name, dimension in by_name.items()}
    for dimension in renamed.values():
        dimension.name = None
    assert mapped(cov, renamed, names={f"model__{name}": name for name in names}).names == tuple(sorted(names))


def test_the_map_is_shared_compared_and_pickled(cov):
    columns = mapped(cov, mixed_dimensions())
    assert copy.deepcopy(columns) is columns
    assert pickle.loads(pickle.dumps(columns)) == columns
    assert columns != mapped(cov, mixed_dimensions()[::-1])


def test_dimensions_of_the_user_are_left_alone(cov):
    dimensions = mixed_dimensions()
    before = [(d.name, d.transform_) for d in dimensions]
    pretrained_regressor(cov, dimensions)
    assert [(d.name, d.transform_) for d in dimensions] == before


def test_inputs_are_recognised(cov):
    columns = mapped(cov, mixed_dimensions())
    space = Space(mixed_dimensions())
    rows = space.rvs(6, random_state=0)
    for dimension in space.dimensions:
        dimension.set_transformer("onehot" if isinstance(dimension, Categorical) else "identity")
    assert columns.recognise(space.transform(rows)) == "raw"
    assert columns.recognise(normalised(mixed_dimensions()).transform(rows)) == "normalised"
    with pytest.raises(SpaceError, match="dimension 'gas' run from 7"):
        columns.recognise(np.full((2, 7), 7.0))
    with pytest.raises(SpaceError, match=r"'power'.*inputs='normalised'"):
        columns.check_normalised(space.transform([[*rows[0][:1], 1, *rows[0][2:]]]))


def test_a_space_for_pretraining():
    dimensions = [*mixed_dimensions(), Categorical(["only"], name="constant")]
    assert (
        parameter_space(dimensions).to_dict()
        == ParameterSpace.from_dict(
            {
                "gas": ["Air", "Argon", "Nitrogen"],
                "layers": (1, 5, "int"),
                "power": (200.0, 5000.0),
                "tip": ["new", "used"],
                "rate": (1e-4, 1e-1, "log"),
            }
        ).to_dict()
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[1:], r"lack pre-trained parameters \['gas'\].*fixed"),
        (lambda d: [*d, d[0]], r"must differ, found twice: \['gas'\]"),
        (
            lambda d: [Categorical(["new", "blunt"], name="power"), *(x for x in d if x.name != "power")],
            "'power' takes finite numbers, got 'new'.*leave the level",
        ),
        (
            lambda d: [*d[1:], Real(0.0, 1.0, name="gas")],
            r"'gas' has the levels \['Argon'.*numeric here",
        ),
        (lambda d: [*d[:4], Real(-1.0, 1.0, name="rate")], "'rate' begins at .* raise its lower bound"),
        (lambda d: [*d, (0.0, 1.0)], r"dimensions \[5\].*have no name.*names="),
        (lambda d: [{"a": d[0]}, {"b": d[1]}], "2 sub-spaces.*one BayesSearchCV for each"),
        (lambda d: [], "dimensions are empty"),
    ],
)
def test_dimensions_that_do_not_fit_are_refused(cov, change, message):
    with pytest.raises(SpaceError, match=message):
        pretrained_regressor(cov, change(mixed_dimensions()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"names": ["a", "b"]}, "5 names"),
        ({"names": ["layers", "gas", "power", "tip", "rate"]}, "'gas' is called 'layers' in names"),
        ({"names": {"gaz": "gas"}}, r"\['gaz'\] are no dimensions"),
        ({"fixed": {"colour": 1}}, r"\['colour'\] are not pre-trained"),
        ({"fixed": {"gas": "Air"}}, r"\['gas'\] are both fixed and dimensions"),
    ],
)
def test_names_and_fixed_values_that_do_not_fit_are_refused(cov, settings, message):
    with pytest.raises(SpaceError, match=message):
        pretrained_regressor(cov, mixed_dimensions(), **settings)


def test_a_log_parameter_must_stay_above_0(cov):
    columns = mapped(cov, [*mixed_dimensions()[:4], Real(1e-4, 1e-1, name="rate")])
    x = np.full((1, 7), 0.5)
    x[0, -1] = -0.1
    with pytest.raises(SpaceError, match="'rate' is on a log scale"):
        columns.points(x, "normalised")


@pytest.mark.parametrize("levels", [("a", "b"), ("a", "b", "c", "d")])
def test_a_mixture_of_levels_is_taken_as_the_one_the_host_rounds_it_to(levels):
    dimension = Categorical(levels, name="gas", transform="onehot")
    pretrained = SimpleNamespace(space=ParameterSpace.from_dict({"gas": list(levels)}), frame="centred")
    columns = mapped(pretrained, [dimension])
    mixed = np.random.default_rng(0).uniform(0, 1, (50, columns.size))
    rounded = np.reshape(dimension.transform(dimension.inverse_transform(mixed)), (50, columns.size))
    for inputs in INPUTS:
        found, expected = columns.points(mixed, inputs), columns.points(rounded, inputs)
        np.testing.assert_array_equal(found.frame, expected.frame)
        np.testing.assert_array_equal(found.stock, expected.stock)


def test_dimensions_of_one_name_are_told_apart_by_names(cov):
    dimensions = mixed_dimensions()
    names = [d.name for d in dimensions]
    twice = mixed_dimensions()
    twice[2].name = twice[4].name = "x"
    assert mapped(cov, twice, names=names) == mapped(cov, dimensions)
    for settings in ({}, {"names": {"x": "power"}}):
        with pytest.raises(SpaceError, match=r"found twice: .*names=\[...\], one for each"):
            pretrained_regressor(cov, twice, **settings)
