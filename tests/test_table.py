"""What training takes from a table."""

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace
from mkbo_plugins.errors import SpaceError, TableError, TableWarning
from mkbo_plugins.tables.table import FAR_OUTSIDE, read_table
from tests.conftest import MIXED_SPACE, mixed_table

TABLE = mixed_table()
SPACE = ParameterSpace.from_dict(MIXED_SPACE)
N = len(TABLE)


def read(table=TABLE, target="strength", **settings):
    return read_table(table, target, SPACE, **settings)


def test_raw_values_and_target():
    data = read()
    assert np.array_equal(data.X, SPACE.to_raw(TABLE))
    assert np.array_equal(data.y, TABLE["strength"])
    assert data.target == "strength"
    assert data.groups is None
    assert data.sample_weight is None


def test_order_of_columns_and_index_do_not_matter():
    shuffled = TABLE[["gas", "strength", "layers", "power", "rate"]].set_axis([f"row {i}" for i in range(N)])
    assert np.array_equal(read(shuffled).X, read().X)
    assert np.array_equal(read(shuffled).y, read().y)


def test_the_table_given_is_left_as_it_was():
    before = TABLE.copy(deep=True)
    raw, y = SPACE.to_raw(TABLE), TABLE["strength"].to_numpy()
    read(log_target=True, sample_weight=[2.0] * N, groups=list(range(N)))
    data = read((raw, y), None)
    assert data.X is not raw
    pd.testing.assert_frame_equal(TABLE, before)


@pytest.mark.parametrize("kind", ["raw", "list", "objects", "lists of levels", "frame", "frame with another index"])
def test_arrays_equal_the_frame(kind):
    frame, y = TABLE.drop(columns="strength"), TABLE["strength"]
    X = {
        "raw": SPACE.to_raw(TABLE),
        "list": SPACE.to_raw(TABLE).tolist(),
        "objects": frame.to_numpy(dtype=object),
        "lists of levels": [list(row) for row in frame.itertuples(index=False)],
        "frame": frame[["gas", "rate", "layers", "power"]],
        "frame with another index": frame.set_axis(range(7, 7 + N)),
    }[kind]
    for values in (y, y.to_numpy(), y.tolist(), y.set_axis(range(9, 9 + N))):
        data = read((X, values), None)
        assert np.array_equal(data.X, read().X)
        assert np.array_equal(data.y, read().y)
        assert data.target == "target"
    assert read((X, y), "hardness").target == "hardness"


@pytest.mark.parametrize("dtype", ["float32", "Float64", object])
def test_target_types(dtype):
    data = read(TABLE.astype({"strength": dtype}))
    assert data.y.dtype == np.float64
    assert data.y == pytest.approx(read().y, rel=1e-6)


def test_whole_number_targets():
    whole = TABLE.assign(strength=np.arange(N))
    for dtype in ("int64", "Int32", "uint8", "category"):
        assert np.array_equal(read(whole.astype({"strength": dtype})).y, np.arange(N))


def gaps(**cells):
    table = TABLE.astype(object)
    for column, row in cells.items():
        table.iloc[row, table.columns.get_loc(column)] = np.nan if column != "gas" else None
    return table


def test_rows_with_gaps_are_dropped_on_request():
    table = gaps(power=1, gas=4, strength=9)
    kept = [i for i in range(N) if i not in (1, 4, 9)]
    weight = np.arange(1.0, N + 1)
    with pytest.warns(TableWarning, match=r"\[1, 4, 9\]"):
        data = read(table, missing="drop", groups=list(range(N)), sample_weight=weight)
    assert np.array_equal(data.X, read().X[kept])
    assert np.array_equal(data.y, read().y[kept])
    assert data.sample_weight == pytest.approx(weight[kept] / weight[kept].mean())
    assert len(set(data.groups)) == len(kept)
    with pytest.raises(TableError, match=r"'power', 'gas', 'strength'.*\[1, 4, 9\]"):
        read(table)


def test_groups_and_weights_of_dropped_rows_may_be_missing():
    groups, weight = [None, *range(N - 1)], [np.nan, *[1.0] * (N - 1)]
    with pytest.warns(TableWarning):
        data = read(gaps(power=0), missing="drop", groups=groups, sample_weight=weight)
    assert len(data.groups) == len(data.sample_weight) == N - 1


def test_too_few_rows_left():
    with pytest.warns(TableWarning), pytest.raises(TableError, match="at least 3 rows, got 2"):
        read(gaps(power=slice(2, N)), missing="drop")


def test_gaps_of_arrays_are_dropped_too():
    raw = SPACE.to_raw(TABLE)
    raw[2, 2] = raw[5, 3] = np.nan
    with pytest.warns(TableWarning, match=r"'layers', 'gas'.*\[2, 5\]"):
        data = read((raw, TABLE["strength"]), None, missing="drop")
    assert np.array_equal(data.X, np.delete(read().X, [2, 5], axis=0))


def test_log_of_the_target():
    assert np.array_equal(read(log_target=True).y, np.log(TABLE["strength"]))


def partition(labels):
    return {frozenset(np.flatnonzero(np.asarray(labels, dtype=object) == label)) for label in set(labels)}


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pd.Categorical])
@pytest.mark.parametrize("labels", [[i // 3 for i in range(N)], [f"batch {i % 5}" for i in range(N)]])
def test_groups_keep_their_rows_together(kind, labels):
    data = read(groups=kind(labels))
    assert partition(data.groups.tolist()) == partition(labels)
    column = read(TABLE.assign(batch=labels), groups="batch")
    assert np.array_equal(column.groups, data.groups)


def test_a_parameter_can_be_the_group():
    assert partition(read(groups="gas").groups.tolist()) == partition(TABLE["gas"].tolist())


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e307, 1e-323])
def test_weights_are_relative(scale):
    weight = np.resize([1.0, 2.0, 3.0], N)
    data = read(sample_weight=weight * scale)
    assert data.sample_weight.mean() == pytest.approx(1)
    assert data.sample_weight == pytest.approx(weight / 2, rel=0.3 if scale < 1e-310 else 1e-12)
    assert np.array_equal(read(TABLE.assign(w=weight * scale), sample_weight="w").sample_weight, data.sample_weight)


def test_bounds_are_crossed_with_a_warning_only_beyond_a_margin():
    for share, warns in ((0.9 * FAR_OUTSIDE, False), (1.1 * FAR_OUTSIDE, True)):
        for value in (100 - share * 5400, 5500 + share * 5400):
            table = TABLE.copy()
            table.loc[3, "power"] = value
            if warns:
                with pytest.warns(TableWarning, match=r"'power' lies outside.*row 3,"):
                    data = read(table)
            else:
                data = read(table)
            assert data.X[3, 0] == value


def test_far_outside_on_a_log_scale_is_judged_by_the_logarithm():
    table = TABLE.copy()
    table.loc[3, "rate"] = 1e-5 * 0.95
    read(table)
    table.loc[3, "rate"] = 1e-6
    with pytest.warns(TableWarning, match="'rate' lies outside"):
        read(table)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.1] * 7 + [0.0], "above 0, got 0 in"),
        ([0.1] * 7 + [-0.2], "above 0, got -0.2 in"),
        ([0.1] * 7 + [np.nan], "finite numbers, got nan in"),
        ([0.1] * 7 + ["wide"], "finite numbers, got 'wide' in"),
        ([0.1] * 5, "one value for each of the 8 rows"),
        ("spread", "'spread' is not a column"),
    ],
)
def test_noise_that_is_no_standard_deviation_is_refused(values, words):
    with pytest.raises(TableError, match=f"noise.*{words}"):
        read(TABLE[:8], noise=values)


def test_noise_takes_the_place_of_weights_and_labels_have_none():
    deviations = np.linspace(0.1, 0.5, len(TABLE))
    assert read(TABLE, noise=deviations).noise == pytest.approx(deviations)
    with pytest.raises(TableError, match="relative terms; leave one"):
        read(TABLE, noise=deviations, sample_weight=deviations)
    labels = TABLE.assign(strength=TABLE["strength"] > TABLE["strength"].median())
    with pytest.raises(TableError, match="labels have no noise"):
        read(labels, noise=deviations, task="classification")


def test_noise_of_a_logarithm_is_the_relative_one():
    positive = TABLE.assign(strength=TABLE["strength"] - TABLE["strength"].min() + 1)
    data = read(positive, noise=0.01 * positive["strength"], log_target=True)
    assert data.noise == pytest.approx(0.01)


def test_a_frame_beside_its_target_must_have_the_space_s_columns():
    space = ParameterSpace.from_dict({"a": (0, 1), "b": (0, 1)})
    inputs = pd.DataFrame({"a": [0.1, 0.2, 0.3], "c": [0.1, 0.3, 0.2]})
    with pytest.raises(SpaceError, match=r"columns \['b'\] are missing"):
        read_table((inputs, [1.0, 2.0, 3.0]), None, space)
