"""Pairs of tasks drawn from real tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins.errors import MkboError, TableError
from mkbo_plugins.experiments.benchmark import drawn
from mkbo_plugins.experiments.benchmark.drawn import FAMILIES, MOST_PAIRS, POOL_ROWS, drawn_pairs, drawn_problem
from mkbo_plugins.experiments.benchmark.runner import drawn_names
from mkbo_plugins.experiments.benchmark.tables import SOURCE_ROWS
from tests.conftest import shared_file


@pytest.fixture(scope="module")
def data() -> Path:
    return shared_file("data/lcbench.csv.gz").parent


def test_pairs_are_ordered_and_in_one_half_each(data: Path):
    pairs = drawn_pairs(data)
    names = [pair.name for pair in pairs]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        halves = [pair.half for pair in pairs if pair.family == family.name]
        assert len(halves) == min(MOST_PAIRS, len(family.tasks(data)) * (len(family.tasks(data)) - 1))
        assert 0 <= halves.count("choose") - halves.count("claim") <= 1
    assert {"graphene.PI-to-GOPI", "graphene.GOPI-to-PI"} <= set(names)


def test_the_draw_of_a_family_does_not_depend_on_others(data: Path, monkeypatch: pytest.MonkeyPatch):
    alone = [family for family in FAMILIES if family.name == "hpo_svm"]
    expected = [pair.name for pair in drawn_pairs(data) if pair.family == "hpo_svm"]
    monkeypatch.setattr(drawn, "FAMILIES", alone)
    assert [pair.name for pair in drawn_pairs.__wrapped__(data)] == expected


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_a_pair_of_each_family_is_a_problem(data: Path, family: str):
    name = next(pair.name for pair in drawn_pairs(data) if pair.family == family)
    one, other = (drawn_problem(name, data, member) for member in (0, 1))
    assert len(one.source_y) <= SOURCE_ROWS
    assert len(one.outcome) <= POOL_ROWS
    for values in (one.source_y, one.outcome):
        assert np.isfinite(values).all()
        assert values.std() > 0
    assert one.regret.min() == 0
    assert np.isfinite(one.space.to_coordinates(one.pool_points, "unit")).all()
    if len(one.outcome) == POOL_ROWS:
        assert not np.array_equal(one.outcome, other.outcome)


def test_losses_are_made_small(data: Path):
    name = next(pair.name for pair in drawn_pairs(data) if pair.family == "salinas_deepar")
    problem, task = drawn_problem(name, data, 0), name.split("-to-")[1]
    table = pd.read_csv(data / "salinas_deepar.csv.gz")
    assert problem.outcome.max() == pytest.approx(-np.log(table[table["task"] == task]["metric_CRPS"].min()))


def test_halves_of_the_names_are_apart_and_families_take_turns(data: Path):
    choosing, claiming = (drawn_names(data, 100, claim=claim) for claim in (False, True))
    assert not set(choosing) & set(claiming)
    assert len({name.partition(".")[0] for name in choosing[: len(FAMILIES)]}) == len(FAMILIES)
    with pytest.raises(MkboError, match="--pairs asks for 1000"):
        drawn_names(data, 1000, claim=False)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(TableError, match=r"lcbench\.csv\.gz does not exist"):
        drawn_pairs(tmp_path)


def small_grid(folder: Path) -> Path:
    """Write a grid of support vector machines, 400 configurations, of which the first is there twice."""
    log_c, log_gamma = (axis.ravel() for axis in np.meshgrid(np.linspace(-3, 5, 20), np.linspace(-6, 2, 20)))
    table = pd.DataFrame({"log10_C": log_c, "log10_gamma": log_gamma})
    for shift, task in enumerate(("iris", "wine", "breast_cancer", "digits", "digits_250")):
        table[f"err_{task}"] = 0.01 * (log_c - shift) ** 2 + 0.02 * (log_gamma + shift) ** 2 + shift
    again = table.iloc[[0]].assign(err_wine=table["err_wine"][0] + 1)
    pd.concat([table, again]).to_csv(folder / "hpo_svm_sklearn.csv", index=False)
    return folder


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(drawn, "FAMILIES", [family for family in FAMILIES if family.name == "hpo_svm"])
    return small_grid(tmp_path)


def rows(points: np.ndarray) -> set[tuple[float, ...]]:
    return set(map(tuple, points.tolist()))


def test_pairs_of_a_small_family_are_stable_and_go_both_ways(grid: Path):
    pairs = drawn_pairs.__wrapped__(grid)
    again = drawn_pairs.__wrapped__(grid)
    assert [(pair.name, pair.half) for pair in pairs] == [(pair.name, pair.half) for pair in again]
    assert {"hpo_svm.iris-to-wine", "hpo_svm.wine-to-iris"} <= {pair.name for pair in pairs}
    halves = [{pair.name for pair in pairs if pair.half == half} for half in ("choose", "claim")]
    assert [len(names) for names in halves] == [10, 10]
    assert not halves[0] & halves[1]


def test_a_table_has_the_outcomes_of_its_own_task(grid: Path):
    problem = drawn_problem("hpo_svm.iris-to-digits", grid, 0)
    c, gamma = np.asarray(problem.source_points, float).T
    assert len(problem.source_y) == SOURCE_ROWS
    assert problem.source_y == pytest.approx(-(0.01 * c**2 + 0.02 * gamma**2))
    c, gamma = np.asarray(problem.pool_points, float).T
    assert problem.outcome == pytest.approx(-(0.01 * (c - 3) ** 2 + 0.02 * (gamma + 3) ** 2 + 3))


def test_member_and_name_seed_the_rows(grid: Path):
    first, again, member, name = (
        rows(drawn_problem(name, grid, member).source_points)
        for name, member in (
            ("hpo_svm.iris-to-wine", 0),
            ("hpo_svm.iris-to-wine", 0),
            ("hpo_svm.iris-to-wine", 1),
            ("hpo_svm.iris-to-digits", 0),
        )
    )
    assert first == again
    assert first != member
    assert first != name


def test_rows_with_the_same_parameters_are_one_candidate(grid: Path):
    problem = drawn_problem("hpo_svm.iris-to-wine", grid, 0)
    assert len(rows(problem.pool_points)) == len(problem.outcome) == 400
    (twice,) = np.flatnonzero((np.asarray(problem.pool_points, float) == [-3, -6]).all(1))
    assert problem.outcome[twice] == pytest.approx(-(0.01 * 16 + 0.02 * 25 + 1) - 0.5)


def test_a_row_without_an_outcome_is_left_out(grid: Path):
    path = grid / "hpo_svm_sklearn.csv"
    table = pd.read_csv(path)
    table.loc[5:9, "err_wine"] = np.nan
    table.to_csv(path, index=False)
    assert len(drawn_problem("hpo_svm.iris-to-wine", grid, 0).outcome) == 395


def test_the_rows_of_a_table_are_in_the_pool_as_often_as_by_chance(data: Path):
    names = [pair.name for pair in drawn_pairs(data) if pair.family == "lcbench"][:5]
    problems = [drawn_problem(name, data, 0) for name in names]
    shares = [len(rows(p.source_points) & rows(p.pool_points)) / len(p.source_y) for p in problems]
    assert np.mean(shares) == pytest.approx(POOL_ROWS / 2000, abs=0.06)
