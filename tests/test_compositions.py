"""Columns that sum to a constant are found, and accidents are not."""

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.errors import TableWarning
from mkbo_plugins.inspection import inspect_table
from mkbo_plugins.tables.compositions import constant_sums


def parts(n=40, k=4, total=100.0, decimals=2, seed=0, prefix="part"):
    X = (np.random.default_rng(seed).dirichlet(np.ones(k), n) * total).round(decimals)
    return pd.DataFrame(X, columns=[f"{prefix}{j}" for j in range(k)])


def others(n=40, k=3, seed=1):
    return pd.DataFrame(
        np.random.default_rng(seed).uniform(0, 50, (n, k)).round(1), columns=[f"z{j}" for j in range(k)]
    )


def plate(n=40):
    """Return rows that use three of six parts each, and four that use none."""
    rng, X = np.random.default_rng(0), np.zeros((n, 6))
    for row in X[:-4]:
        row[rng.choice(6, 3, replace=False)] = rng.dirichlet(np.ones(3)) * 50
    return pd.DataFrame(X.round(1), columns=[f"well{j}" for j in range(6)])


def found(table):
    return constant_sums({name: table[name].tolist() for name in table})


@pytest.mark.parametrize("decimals", [0, 1, 2, 6, 15])
@pytest.mark.parametrize("total", [100.0, 250.0])
def test_parts_of_a_mixture_are_found_whatever_was_rounded(decimals, total):
    (one,) = found(parts(total=total, decimals=decimals))
    assert one.names == ("part0", "part1", "part2", "part3")
    assert (one.total, one.unused, one.odd) == (total, (), ())


def test_subsets_are_found_among_other_columns_in_any_order():
    table = pd.concat([parts(prefix="a", k=3), parts(prefix="b", total=1.0, decimals=4, seed=2), others(k=4)], axis=1)
    table = table[list(np.random.default_rng(0).permutation(table.columns))]
    assert {frozenset(one.names): one.total for one in found(table)} == {
        frozenset(["a0", "a1", "a2"]): 100.0,
        frozenset(["b0", "b1", "b2", "b3"]): 1.0,
    }


def test_among_many_columns_too():
    table = pd.concat([others(60, 7), parts(60), parts(60, 3, 1.0, 3, seed=5, prefix="b"), others(60, 6, 3)], axis=1)
    table = table.set_axis([f"c{j}" for j in range(table.shape[1])], axis=1)
    expected = {frozenset(f"c{j}" for j in range(7, 11)), frozenset(f"c{j}" for j in range(11, 14))}
    shuffled = table[list(np.random.default_rng(1).permutation(table.columns))]
    assert {frozenset(one.names) for one in found(shuffled)} == expected


@pytest.mark.parametrize("empty", [0.0, np.nan])
def test_rows_of_a_plate_need_not_use_all_parts_or_any(empty):
    (one,) = found(plate().replace(0.0, empty))
    assert one.names == tuple(f"well{j}" for j in range(6))
    assert (one.total, one.unused, one.odd) == (50.0, (36, 37, 38, 39), ())


def test_rows_with_a_mistake_are_named():
    table = parts()
    table.loc[[3, 17], "part0"] += 7
    (one,) = found(table)
    assert (one.total, one.odd) == (100.0, (3, 17))


A = np.random.default_rng(7).uniform(0, 100, 40).round(1)


@pytest.mark.parametrize(
    "table",
    [
        pd.get_dummies(pd.Series(list("abcab" * 8))).astype(float),
        pd.get_dummies(pd.Series(list("abcab" * 8))) * np.tile([49.9, 50.0, 50.1, 50.0], 10)[:, None],
        pd.DataFrame({"a": A, "b": 137 - A}),
        pd.DataFrame({"a": range(1, 7), "b": range(6, 0, -1)}),
        pd.DataFrame({"a": A, "b": -A}),
        pd.DataFrame(np.random.default_rng(0).integers(1, 4, (40, 6))).set_axis(list("abcdef"), axis=1),
        pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (40, 10))).set_axis(list("abcdefghij"), axis=1),
        pd.DataFrame({"a": [5.0] * 38 + [1, 2], "b": [3.0] * 38 + [4, 5], "c": A}),
        parts(4),
        pd.DataFrame({"a": A, "b": ["x"] * 40}),
    ],
    ids=[
        "one-hot",
        "one-part-each",
        "pair",
        "ramps",
        "negatives",
        "small",
        "random",
        "mostly-constant",
        "few-rows",
        "text",
    ],
)
def test_accidents_are_not(table):
    assert found(table) == []


@pytest.mark.parametrize("total", [1.0, 100.0])
def test_two_parts_of_a_whole_are_a_mixture(total):
    (one,) = found(pd.DataFrame({"a": A * total / 100, "b": total - A * total / 100}))
    assert one.total == total


def remarks(table, space=None):
    return [f.message for f in inspect_table(table, "y", space) if "sum to" in f.message]


def test_a_check_says_what_to_write_and_a_space_that_says_it_ends_the_remark():
    table = pd.concat([parts(), others()], axis=1).assign(y=A)
    assert "without --space, mkbo pretrain takes this as a constraint" in remarks(table)[0]
    bounds = dict.fromkeys(table.columns.drop("y"), (0, 100))
    (remark,) = remarks(table, ParameterSpace.from_dict(bounds))
    assert 'sum = ["part0", "part1", "part2", "part3"] and equals = 100' in remark
    names = ["part0", "part1", "part2", "part3"]
    assert remarks(table, ParameterSpace.from_dict(bounds, constraints=[{"sum": names, "equals": 100}])) == []
    assert remarks(table.assign(part0=others()["z0"] + 1)) == []


def test_empty_cells_do_not_hide_the_sum():
    table = plate().replace(0.0, np.nan).assign(y=A)
    assert "sum to 50 in every row that uses them" in remarks(table)[0]


def test_training_remarks_once_for_each_table():
    table = pd.concat([parts(24), others(24, 1)], axis=1).assign(y=A[:24])
    space = ParameterSpace.from_dict(dict.fromkeys(table.columns.drop("y"), (0, 100)))
    with pytest.warns(TableWarning, match="table 2: columns .* sum to 100 in every row") as caught:
        pretrain([table.assign(part0=A[:24]), table], "y", space, trainer="gp", progress=False)
    assert sum("sum to" in str(w.message) for w in caught) == 1
