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
