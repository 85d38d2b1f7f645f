"""Parameter spaces: from users' points to raw arrays and to frame coordinates."""

import json
import math
import re
import string

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mkbo_plugins import ParameterSpace
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.messages import hints
from mkbo_plugins.space.parameters import FRAMES, Categorical, Numeric, Ordered
from tests.conftest import MIXED_SPACE, mixed_table

NUMBERS = st.floats(-1e6, 1e6)
TEXTS = st.text(string.printable, min_size=1, max_size=5)
LEVELS = st.one_of(TEXTS, st.booleans(), st.integers(-100, 100), NUMBERS)


def distinct(levels):
    return len({(isinstance(level, bool), level) for level in levels}) == len(levels)


def real(bounds):
    return {"bounds": sorted(bounds)}


ENTRIES = st.one_of(
    st.lists(NUMBERS, min_size=2, max_size=2, unique=True).map(lambda b: tuple(sorted(b))),
    st.lists(st.floats(1e-9, 1e9), min_size=2, max_size=2, unique_by=math.log).map(lambda b: (*sorted(b), "log")),
    st.lists(st.integers(-99, 99), min_size=2, max_size=2, unique=True).map(lambda b: (*sorted(b), "int")),
    st.lists(st.integers(1, 99), min_size=2, max_size=2, unique=True).map(lambda b: (*sorted(b), "int", "log")),
    st.lists(NUMBERS, min_size=2, max_size=5, unique=True).map(lambda v: {"levels": sorted(v)}),
    st.lists(TEXTS, min_size=2, max_size=5, unique=True),
    st.lists(LEVELS, min_size=2, max_size=5).filter(distinct).map(lambda v: {"levels": v, "ordered": False}),
    st.lists(TEXTS, min_size=2, max_size=5, unique=True).map(lambda v: {"levels": v, "ordered": True}),
)
SPACES = st.dictionaries(TEXTS, ENTRIES, min_size=1, max_size=5).map(ParameterSpace.from_dict)


@given(SPACES)
def test_dict_round_trip(space):
    spec = space.to_dict()
    assert ParameterSpace.from_dict(spec) == space
    assert hash(ParameterSpace.from_dict(spec)) == hash(space)
    through_text = ParameterSpace.from_dict(json.loads(json.dumps(spec)))
    assert through_text == space
    assert through_text.names == space.names


@given(SPACES, st.integers(0, 2**32))
def test_sobol_points_are_valid_and_return_to_themselves(space, seed):
    raw = space.sobol(5, seed)
    assert raw.shape == (5, len(space.names))
    assert np.array_equal(raw, space.sobol(5, seed))
    assert np.array_equal(space.to_raw(raw), raw)
    assert np.array_equal(space.to_raw(space.from_raw(raw)), raw)
    for frame in FRAMES:
        Z = space.to_coordinates(raw, frame)
        assert Z.shape == (5, len(space.coordinate_names))
        assert Z.max() <= 1 + 1e-9
        assert Z.min() >= (-1 if frame == "centred" else 0) - 1e-9


@given(SPACES)
def test_frames_differ_by_a_known_map(space):
    raw = space.sobol(8, 3)
    centred, unit = (space.to_coordinates(raw, frame) for frame in ("centred", "unit"))
    hot = np.array([isinstance(p, Categorical) for p in space.parameters for _ in p.coordinate_names])
    assert np.array_equal(centred[:, hot], unit[:, hot])
    assert np.isin(centred[:, hot], [0.0, 1.0]).all()
    assert centred[:, ~hot] == pytest.approx(2 * unit[:, ~hot] - 1, abs=1e-12)
    assert np.array_equal(space.coordinate_ranges("centred"), np.where(hot, 1.0, 2.0))
    assert np.array_equal(space.coordinate_ranges("unit"), np.ones(len(hot)))


def test_names_follow_the_order_given(space):
    assert space.names == ("power", "rate", "layers", "gas")
    assert space.coordinate_names == ("power", "rate", "layers", "gas=Argon", "gas=Nitrogen", "gas=Air")
    assert space.coordinate_owners == ("power", "rate", "layers", "gas", "gas", "gas")
    assert isinstance(space["gas"], Categorical)
    assert space["rate"] == Numeric("rate", 1e-5, 1e-1, log=True)
    reverse = ParameterSpace.from_dict(dict(reversed(MIXED_SPACE.items())))
    assert reverse.names == ("gas", "layers", "rate", "power")
    assert reverse != space


def test_coordinates_by_hand(space):
    raw = np.array([[100, 1e-5, 1, 0], [5500, 1e-1, 6, 2], [2800, 1e-3, 3, 1]])
    expected = [[-1, -1, -1, 1, 0, 0], [1, 1, 1, 0, 0, 1], [0, 0, -0.2, 0, 1, 0]]
    assert space.to_coordinates(raw, "centred") == pytest.approx(np.array(expected), abs=1e-14)
    assert space.to_coordinates(raw, "unit")[2] == pytest.approx([0.5, 0.5, 0.4, 0, 1, 0], abs=1e-14)
    assert np.array_equal(space.to_coordinates(raw), space.to_coordinates(raw, "centred"))


def test_coordinates_keep_leading_axes(space):
    raw = space.sobol(12)
    assert np.array_equal(space.to_coordinates(raw.reshape(3, 2, 2, 4)), space.to_coordinates(raw).reshape(3, 2, 2, 6))


@pytest.mark.parametrize("frame", FRAMES)
def test_numpy_and_torch_agree(space, frame):
    torch = pytest.importorskip("torch")
    raw = space.sobol(64, 5) + np.array([7.0, 0, 0, 0])
    Z = space.to_coordinates(torch.tensor(raw), frame)
    assert Z.dtype == torch.float64
    assert Z.numpy() == pytest.approx(space.to_coordinates(raw, frame), rel=1e-14, abs=1e-14)


def test_torch_gradient_is_the_slope_of_the_map(space):
    torch = pytest.importorskip("torch")
    raw = torch.tensor([[1000.0, 1e-3, 2.0, 1.0]], dtype=torch.float64, requires_grad=True)
    space.to_coordinates(raw)[0, :3].sum().backward()
    assert raw.grad[0, :3].numpy() == pytest.approx([2 / 5400, 2 / (1e-3 * np.log(1e4)), 2 / 5])


# Raw arrays


def test_frames_are_read_by_column_name(space, table):
    raw = space.to_raw(table[list(space.names)])
    shuffled = table.assign(extra="ignored", other=np.nan)[
        ["extra", "gas", "strength", "rate", "other", "layers", "power"]
    ]
    assert np.array_equal(space.to_raw(shuffled), raw)
    assert np.array_equal(space.to_raw(shuffled.set_axis(np.arange(50, 50 + len(table)))), raw)
    assert np.array_equal(raw[:, 0], table["power"])
    assert np.array_equal(raw[:, 3], [MIXED_SPACE["gas"].index(gas) for gas in table["gas"]])


def test_every_shape_of_points_gives_the_same(space, table):
    frame = table[list(space.names)]
    raw = space.to_raw(frame)
    records = frame.to_dict("records")
    rows = [list(record.values()) for record in records]
    for points in (
        records,
        tuple(records),
        [dict(reversed(record.items())) | {"extra": None} for record in records],
        rows,
        np.array(rows, dtype=object),
        raw,
        raw.tolist(),
    ):
        assert np.array_equal(space.to_raw(points), raw)
    assert np.array_equal(space.to_raw(records[3]), raw[3:4])
    assert np.array_equal(space.to_raw(raw.astype(np.float32))[:, 2:], raw[:, 2:])


def test_whole_number_arrays(space):
    raw = np.array([[300, 1, 2, 0], [400, 1, 3, 2]])
    assert np.array_equal(space.to_raw(raw), raw.astype(float))
    assert space.to_raw(raw).dtype == np.float64


def test_column_types_of_pandas(space, table):
    raw = space.to_raw(table)
    for gas in (pd.Categorical(table["gas"]), table["gas"].astype(object), table["gas"].astype("string")):
        assert np.array_equal(space.to_raw(table.assign(gas=gas)), raw)
    for layers in ("int8", "Int64", "float32", "Float64", object):
        assert np.array_equal(space.to_raw(table.astype({"layers": layers})), raw)


def test_booleans_in_lists_are_levels_and_not_indices():
    space = ParameterSpace.from_dict({"power": (0, 10), "flag": [True, False]})
    expected = [[1.0, 0.0], [2.0, 1.0]]
    frame = pd.DataFrame({"power": [1.0, 2.0], "flag": [True, False]})
    for points in (
        [[1.0, True], [2.0, False]],
        [[1.0, np.True_], [2.0, np.False_]],
        frame,
        frame.to_dict("records"),
        frame.astype({"flag": "boolean"}),
        frame.to_numpy(dtype=object),
    ):
        assert space.to_raw(points).tolist() == expected


def test_texts_that_look_like_numbers_are_levels_only_where_levels_are_texts():
    space = ParameterSpace.from_dict({"power": (0, 10), "grade": ["1", "2"]})
    assert space.to_raw([[5, "2"]]).tolist() == [[5.0, 1.0]]
    assert space.to_raw(pd.DataFrame({"power": [5], "grade": ["2"]})).tolist() == [[5.0, 1.0]]
    for power, grade in (("5", "2"), (5, 2)):
        with pytest.raises(SpaceError, match=repr("5" if power == "5" else "grade")):
            space.to_raw([{"power": power, "grade": grade}])


def test_values_beyond_the_bounds_are_points_too(space):
    raw = space.to_raw([{"power": -50, "rate": 10, "layers": 99, "gas": "Air"}])
    assert raw.tolist() == [[-50, 10, 99, 2]]


def test_no_points(space, table):
    assert space.to_raw(table[:0]).shape == (0, 4)
    assert space.to_raw(np.empty((0, 4))).shape == (0, 4)


def test_error_lists_the_faulty_rows(space, table):
    faulty = table.astype({"power": object})
    faulty.loc[[2, 5, 7], "power"] = "?"
    with pytest.raises(SpaceError, match=r"'power'.*'\?'.*\[2, 5, 7\]"):
        space.to_raw(faulty)
    with pytest.raises(SpaceError, match=r"\[102, 105, 107\]"):
        space.to_raw(faulty, row_numbers=list(range(100, 124)))
    faulty["power"] = "?"
    with pytest.raises(SpaceError, match=r"8, 9, \.\.\."):
        space.to_raw(faulty)


def test_user_facing_values(space):
    (point,) = space.from_raw(np.array([[300.0, 1e-3, 2.0, 1.0]]))
    assert point == {"power": 300.0, "rate": 1e-3, "layers": 2, "gas": "Nitrogen"}
    assert list(point) == list(space.names)
    assert type(point["layers"]) is int
    assert type(point["power"]) is float


# Space-filling designs


def test_sobol_fills_the_space(space):
    raw = space.sobol(256, 1)
    assert np.array_equal(raw, space.sobol(256, 1))
    assert not np.array_equal(raw, space.sobol(256, 2))
    assert (raw[:, 0] >= 100).all()
    assert (raw[:, 0] <= 5500).all()
    assert (raw[:, 1] >= 1e-5).all()
    assert (raw[:, 1] <= 1e-1).all()
    assert np.median(raw[:, 1]) == pytest.approx(1e-3, rel=0.2)
    for column, values in ((2, range(1, 7)), (3, range(3))):
        found, counts = np.unique(raw[:, column], return_counts=True)
        assert found.tolist() == list(values)
        assert counts.min() > 0.8 * 256 / len(found)


def test_sobol_of_any_number(space):
    for n in (0, 1, 3, 8, np.int64(9)):
        assert space.sobol(n).shape == (n, 4)
    assert np.array_equal(space.sobol(3, 7), space.sobol(100, 7)[:3])
    assert space.sobol(4, None).shape == (4, 4)


# From a table


def test_from_table_takes_extremes_and_levels(table):
    space = ParameterSpace.from_table(table, "strength")
    assert space.names == ("power", "rate", "layers", "gas")
    assert space["power"] == Numeric("power", table["power"].min(), table["power"].max())
    assert space["layers"] == Numeric("layers", 1, 6, integer=True)
    assert space["gas"] == Categorical("gas", ("Air", "Argon", "Nitrogen"))
    Z = space.to_coordinates(space.to_raw(table))[:, :3]
    assert Z.min(axis=0) == pytest.approx([-1, -1, -1])
    assert Z.max(axis=0) == pytest.approx([1, 1, 1])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False, True], Categorical("a", (False, True))),
        (pd.array([True, False, None], dtype="boolean"), Categorical("a", (False, True))),
        (pd.array([1, 3, None], dtype="Int64"), Numeric("a", 1, 3, integer=True)),
        (pd.Series([1, 2.5, None], dtype=object), Numeric("a", 1, 2.5)),
        (np.array([1, 2, 3], dtype=np.uint8), Numeric("a", 1, 3, integer=True)),
        ([20.0, 30.0, 40.0], Numeric("a", 20, 40, integer=True)),
        ([20.0, 30.5, 40.0], Numeric("a", 20, 40)),
        (pd.Categorical(["x", "y", "x"]), Categorical("a", ("x", "y"))),
        (pd.Categorical([4, 2, 4]), Categorical("a", (2, 4))),
        (pd.array(["b", "a", None], dtype="string"), Categorical("a", ("a", "b"))),
        (["A1", "2", "A1"], Categorical("a", ("2", "A1"))),
    ],
    ids=str,
)
def test_from_table_column_types(values, expected):
    space = ParameterSpace.from_table(pd.DataFrame({"a": values, "y": [1.0, 2.0, 3.0]}), "y")
    assert space.parameters == (expected,)
    assert space.to_raw(pd.DataFrame({"a": values}).dropna()).shape[1] == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["10", "9", "12"], "'10', '9', '12' in rows [0, 1, 2],"),
        (["1,105", "1,126", "2,000"], "'1,105', '1,126', '2,000' in rows [0, 1, 2],"),
        (["0,5", "1,5", "about 2"], "'0,5', '1,5', 'about 2' in rows [0, 1, 2],"),
        (["1.5", "<2", "3"], "'<2' in row 1,"),
        (["1e-3", "1e-2", "none"], "'none' in row 2,"),
        ([900, "950 °C", 1000], "'950 °C' in row 1,"),
        ([900, None, "900-950", 3.5], "'900-950' in row 2,"),
    ],
)
def test_from_table_does_not_make_levels_of_numbers_written_as_text(values, words):
    with pytest.raises(SpaceError, match=re.escape(f"'a' holds text, {words}")):
        ParameterSpace.from_table(pd.DataFrame({"a": values, "y": np.arange(len(values))}), "y")


def test_one_odd_cell_is_named_in_a_column_that_is_text_because_of_it():
    space = ParameterSpace.from_dict({"a": (0, 10)})
    with pytest.raises(SpaceError, match=r"'<2' \(row 2, counting"):
        space.to_raw(pd.DataFrame({"a": ["1.5", "3", "<2"]}))


def test_parameters_may_be_given_as_a_list():
    space = ParameterSpace([Numeric("a", 0, 1), Ordered("b", [1, 2])])
    assert space == ParameterSpace.from_dict({"a": (0, 1), "b": {"levels": [1, 2]}})
    assert hash(space) == hash(ParameterSpace.from_dict(space.to_dict()))


def test_table_of_the_fixture_is_what_the_space_says(space):
    table = mixed_table(16, seed=3)
    assert np.array_equal(space.to_raw(table), space.sobol(16, 3))


def test_of_many_unknown_levels_the_first_rows_are_named_without_a_look_at_the_others(monkeypatch):
    space = ParameterSpace.from_dict({"a": [f"level {i}" for i in range(300)]})
    asked = []
    monkeypatch.setattr(hints, "get_close_matches", lambda *arguments: asked.append(arguments) or [])
    with pytest.raises(SpaceError, match=r"'lavel 0'.*'level 29', \.\.\.\], 300 of them.*rows \[0, 1.* 9, \.\.\.\]"):
        space.to_raw(pd.DataFrame({"a": [f"lavel {i}" for i in range(500)]}))
    assert len(asked) == 11
    numbers = ParameterSpace.from_dict({"a": (0.0, 1.0)})
    with pytest.raises(SpaceError, match=r"got 'x' \(row 700, counting from 0\)"):
        numbers.to_raw(pd.DataFrame({"a": ["0.5"] * 700 + ["x"]}))
