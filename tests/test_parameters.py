"""Parameters: how their values map to raw numbers and to coordinates."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mkbo_plugins import ParameterSpace
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.parameters import (
    FRAMES,
    Categorical,
    Numeric,
    Ordered,
    is_finite_number,
    is_number,
    plain_value,
)
from mkbo_plugins.space.parsing import parse_parameter


def coordinate(parameter, raw, frame):
    return parameter.to_coordinates(np.array([raw], dtype=float), frame)[0].tolist()


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ((0, 1), Numeric("a", 0, 1)),
        ((0.5, 2.5), Numeric("a", 0.5, 2.5)),
        ((1e-5, 1e-1, "log"), Numeric("a", 1e-5, 1e-1, log=True)),
        ((1, 6, "int"), Numeric("a", 1, 6, integer=True)),
        ((1, 1024, "log", "int"), Numeric("a", 1, 1024, log=True, integer=True)),
        ((1, 1024, "int", "log"), Numeric("a", 1, 1024, log=True, integer=True)),
        ((np.float32(0.5), np.int64(2)), Numeric("a", 0.5, 2)),
        ({"bounds": [0, 1]}, Numeric("a", 0, 1)),
        ({"bounds": (1, 8), "log": True, "integer": np.True_}, Numeric("a", 1, 8, log=True, integer=True)),
        ({"bounds": [1, 8], "log": False}, Numeric("a", 1, 8)),
        (["x", "y"], Categorical("a", ("x", "y"))),
        ([False, True], Categorical("a", (False, True))),
        ([np.str_("x"), np.str_("y")], Categorical("a", ("x", "y"))),
        (["1", "2"], Categorical("a", ("1", "2"))),
        (["x", 1], Categorical("a", ("x", 1))),
        ([1, 2, 4], Ordered("a", (1, 2, 4))),
        ([np.float64(1.5), np.int64(2), 4], Ordered("a", (1.5, 2, 4))),
        ({"levels": [1, 2]}, Ordered("a", (1, 2))),
        ({"levels": [1, 2], "ordered": False}, Categorical("a", (1, 2))),
        ({"levels": ["S", "M", "L"], "ordered": True}, Ordered("a", ("S", "M", "L"))),
        (Numeric("a", 0, 1), Numeric("a", 0, 1)),
    ],
    ids=str,
)
def test_short_descriptions(entry, expected):
    parsed = parse_parameter("a", entry)
    assert parsed == expected
    assert type(parsed) is type(expected)
    assert parse_parameter("a", parsed.to_spec()) == parsed


def test_levels_keep_their_kind():
    for levels in (["1", 1, True], [False, True], [1, 2.5, 4]):
        parsed = parse_parameter("a", {"levels": levels, "ordered": False})
        assert [type(level) for level in parsed.levels] == [type(level) for level in levels]


@pytest.mark.parametrize(("frame", "ends"), [("centred", (-1.0, 1.0)), ("unit", (0.0, 1.0))])
@pytest.mark.parametrize(
    ("parameter", "low", "high"),
    [
        (Numeric("a", 100, 5500), 100, 5500),
        (Numeric("a", -3, -1), -3, -1),
        (Numeric("a", 1e-5, 1e-1, log=True), 1e-5, 1e-1),
        (Numeric("a", 1, 6, integer=True), 1, 6),
        (Ordered("a", (2, 3, 10)), 2, 10),
        (Ordered("a", ("S", "M", "L")), 0, 2),
    ],
)
def test_endpoints(parameter, low, high, frame, ends):
    assert coordinate(parameter, low, frame) == pytest.approx([ends[0]], abs=1e-15)
    assert coordinate(parameter, high, frame) == pytest.approx([ends[1]], abs=1e-15)


def test_middles():
    assert coordinate(Numeric("a", 0, 10), 5, "centred") == [0]
    assert coordinate(Numeric("a", 1e-4, 1e-2, log=True), 1e-3, "centred") == pytest.approx([0], abs=1e-14)
    assert coordinate(Ordered("a", (2, 4, 10)), 4, "unit") == [0.25]
    assert coordinate(Ordered("a", ("S", "M", "L")), 1, "unit") == [0.5]
    assert coordinate(Numeric("a", 0, 10), 20, "unit") == [2]  # beyond the bounds the map goes on


@pytest.mark.parametrize("frame", FRAMES)
def test_one_hot_stays_zero_and_one_in_both_frames(frame):
    parameter = Categorical("gas", ("Argon", "Nitrogen", "Air"))
    assert parameter.coordinate_names == ("gas=Argon", "gas=Nitrogen", "gas=Air")
    assert np.array_equal(parameter.to_coordinates(np.arange(3.0), frame), np.eye(3))


@given(st.floats(0, 3))
def test_relaxed_index_blends_neighbouring_levels(index):
    values = Categorical("a", ("w", "x", "y", "z")).to_coordinates(np.array([index]), "centred")[0]
    assert values.sum() == pytest.approx(1)
    assert values @ np.arange(4) == pytest.approx(index)
    assert np.count_nonzero(values) <= 2


BOUNDS = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(bounds=BOUNDS, u=st.floats(0, 1, exclude_max=True))
def test_real_from_unit_is_inside_and_evenly_spread(bounds, u):
    parameter = Numeric("a", *bounds)
    raw = parameter.from_unit(np.array([u]))
    assert bounds[0] <= raw[0] <= bounds[1]
    assert parameter.to_coordinates(raw, "unit")[0, 0] == pytest.approx(u, abs=1e-6)


@given(
    low=st.floats(1e-300, 1e299),
    ratio=st.floats(1.001, 1e300),
    u=st.floats(0, 1, exclude_max=True),
)
def test_log_from_unit_is_inside_and_even_in_the_logarithm(low, ratio, u):
    assume(math.isfinite(low * ratio))
    parameter = Numeric("a", low, low * ratio, log=True)
    raw = parameter.from_unit(np.array([u]))
    assert parameter.lower <= raw[0] <= parameter.upper
    assert parameter.to_coordinates(raw, "unit")[0, 0] == pytest.approx(u, abs=1e-9)


def test_log_over_the_whole_range_of_doubles():
    raw = Numeric("a", 1e-300, 1e300, log=True).from_unit(np.array([0.0, 0.5, 0.999]))
    assert raw == pytest.approx([1e-300, 1.0, 10**299.4], rel=1e-9)


@given(low=st.integers(-1000, 1000), span=st.integers(1, 50))
def test_integer_from_unit_reaches_every_whole_number_equally_often(low, span):
    parameter = Numeric("a", low, low + span, integer=True)
    u = (np.arange(20 * (span + 1)) + 0.5) / (20 * (span + 1))
    values, counts = np.unique(parameter.from_unit(u), return_counts=True)
    assert np.array_equal(values, np.arange(low, low + span + 1))
    assert (counts == 20).all()


@pytest.mark.parametrize(
    "parameter", [Categorical("a", ("x", "y", "z")), Ordered("a", ("x", "y", "z")), Ordered("a", (1, 5, 6))]
)
def test_levels_from_unit_are_equally_often(parameter):
    raw = parameter.from_unit((np.arange(30) + 0.5) / 30)
    values, counts = np.unique(raw, return_counts=True)
    assert [parameter.to_raw(parameter.from_raw(value)) for value in values] == values.tolist()
    assert counts.tolist() == [10, 10, 10]


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        (Numeric("a", 0, 10), [0.0, 3.5, 10.0, -4.0, 11.0]),
        (Numeric("a", 1, 6, integer=True), [1, 6, 9]),
        (Numeric("a", 1e-3, 1, log=True), [1e-3, 0.1, 7.0]),
        (Categorical("a", ("x", 1, True)), ["x", 1, True]),
        (Ordered("a", ("S", "M")), ["S", "M"]),
        (Ordered("a", (1, 2.5)), [1, 2.5]),
    ],
)
def test_values_and_raw_numbers_are_inverse(parameter, values):
    for value in values:
        back = parameter.from_raw(parameter.to_raw(value))
        assert back == value
        assert isinstance(back, bool) == isinstance(value, bool)
    assert parameter.check_raw(parameter.to_raw(values[0])) == parameter.to_raw(values[0])


@pytest.mark.parametrize(
    "value", [np.float64(3), np.float32(3), np.int64(3), np.uint8(3), np.float16(3), 3, 3.0], ids=lambda v: str(type(v))
)
def test_numpy_numbers_are_numbers(value):
    for parameter in (Numeric("a", 0, 10), Numeric("a", 0, 10, integer=True), Ordered("a", (1, 3))):
        assert parameter.to_raw(value) == 3.0
        assert type(parameter.to_raw(value)) is float
    assert Categorical("a", (1, 3)).to_raw(value) == 1.0


def test_numpy_booleans_and_texts_are_levels():
    flag = Categorical("a", (False, True))
    assert flag.to_raw(np.True_) == 1
    assert flag.to_raw(np.False_) == 0
    assert Categorical("a", ("x", "y")).to_raw(np.str_("y")) == 1


@pytest.mark.parametrize(("levels", "value"), [((False, True), 1), ((0, 1), True), (("1", "2"), 1), ((1, 2), "1")])
def test_booleans_numbers_and_texts_are_not_taken_for_one_another(levels, value):
    with pytest.raises(SpaceError, match="unknown level"):
        Categorical("a", levels).to_raw(value)


def test_whole_numbers_come_back_as_int():
    assert type(Numeric("a", 0, 9, integer=True).from_raw(3.0)) is int
    assert type(Numeric("a", 0, 9).from_raw(3.0)) is float
    assert math.isnan(Numeric("a", 0, 9, integer=True).from_raw(float("nan")))


def test_equal_and_hashable_however_levels_were_given():
    assert Categorical("a", ["x", "y"]) == Categorical("a", ("x", "y"))
    assert hash(Ordered("a", [1, 2])) == hash(Ordered("a", (1, 2)))
    assert Numeric("a", 0, 1) == Numeric("a", 0.0, 1.0)
    assert Numeric("a", 1, 2) != Numeric("a", 1, 2, log=True)


def test_what_is_a_number():
    assert all(map(is_number, [1, 1.5, np.int8(1), np.float32(1), float("nan"), 10**400]))
    assert not any(map(is_number, [True, np.True_, "1", None, 1j]))
    assert all(map(is_finite_number, [1, 1.5, -0.0, np.float32(1)]))
    assert not any(map(is_finite_number, [float("nan"), float("inf"), 10**400, True, "1", None]))
    assert type(plain_value(np.int64(3))) is int
    assert plain_value("x") == "x"


def test_whole_numbers_on_a_log_scale_are_spread_by_their_logarithm():
    space = ParameterSpace.from_dict({"n": (1, 1000, "log", "int")})
    raw = space.sobol(1024)[:, 0]
    assert set(np.unique(raw)) <= set(range(1, 1001))
    assert {1.0, 2.0, 3.0} <= set(raw)
    assert np.median(raw) == pytest.approx(22.4, rel=0.1)  # half way between 0.5 and 1000.5


def test_numeric_levels_come_back_as_they_were_given():
    (level,) = ParameterSpace.from_dict({"batch": [16, 32, 64]}).from_raw(np.array([[32.0]]))
    assert level["batch"] == 32
    assert isinstance(level["batch"], int)
