"""The grid search: the same winner as a plain loop, whatever is abandoned and however many workers there are."""

import itertools
import warnings

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential, selection, svr
from mkbo_plugins.core.selection import select
from mkbo_plugins.core.svr import leave_one_out_svr
from mkbo_plugins.errors import FitError

GRID = {"C": [0.1, 1.0, 10.0], "epsilon": [0.0, 0.1, 0.4], "sigma": [0.05, 0.5, 5.0]}


def problem(seed, n=16):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.sin(2.5 * X[:, 0]) + 0.5 * X[:, 1] + rng.normal(0, 0.15, n)
    return (lambda sigma: SquaredExponential(sigma=sigma).gram(X)), y


def plain_loop(gram, y, grid, **options):
    errors = {
        cell: leave_one_out_svr(gram(cell[2]), y, cell[0], cell[1], **options).mean_squared_error
        for cell in itertools.product(*grid.values())
    }
    return min(errors, key=lambda cell: (errors[cell], cell[0], cell[1], -cell[2])), errors


def cell_of(result):
    return result.C, result.epsilon, result.sigma


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_finds_the_winner_of_a_plain_loop(seed):
    gram, y = problem(seed)
    winner, errors = plain_loop(gram, y, GRID)
    result = select(gram, y, **GRID)
    assert cell_of(result) == winner
    assert result.loo.mean_squared_error == errors[winner]


def test_weights_and_groups_reach_every_cell():
    gram, y = problem(3)
    options = {
        "sample_weight": np.random.default_rng(4).uniform(0.2, 4, len(y)),
        "groups": np.arange(len(y)) // 2,
    }
    winner, errors = plain_loop(gram, y, GRID, **options)
    result = select(gram, y, **GRID, **options)
    assert cell_of(result) == winner
    assert result.loo.mean_squared_error == errors[winner]


def test_cells_are_abandoned(monkeypatch):
    gram, y = problem(0)
    outcomes = []

    def watched(*args, **options):
        outcomes.append(leave_one_out_svr(*args, **options))
        return outcomes[-1]

    monkeypatch.setattr(selection, "leave_one_out_svr", watched)
    select(gram, y, **GRID)
    assert any(np.isinf(outcome.mean_squared_error) for outcome in outcomes)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_batches_do_not_matter(batch, monkeypatch):
    gram, y = problem(1)
    expected = select(gram, y, **GRID)
    monkeypatch.setattr(selection, "BATCH", batch)
    result = select(gram, y, **GRID)
    assert cell_of(result) == cell_of(expected)
    np.testing.assert_array_equal(result.loo.residuals, expected.loo.residuals)


def same(first, second):
    np.testing.assert_array_equal(first.loo.residuals, second.loo.residuals)
    return (cell_of(first), first.at_edge, first.not_converged) == (
        cell_of(second),
        second.at_edge,
        second.not_converged,
    )


def test_workers_and_repetition_do_not_matter():
    gram, y = problem(2)
    first = select(gram, y, **GRID, n_jobs=1)
    assert same(first, select(gram, y, **GRID, n_jobs=1))
    assert same(first, select(gram, y, **GRID, n_jobs=2))


def test_two_workers_leave_warnings_alone_and_see_every_early_stop(monkeypatch):
    gram, y = problem(2, n=40)
    monkeypatch.setattr(svr, "MAX_ITERATIONS", 150)
    first = select(gram, y, **GRID, n_jobs=1)
    assert 0 < len(first.not_converged) < 27
    for _ in range(3):
        assert same(first, select(gram, y, **GRID, n_jobs=2))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            select(gram, y, **GRID, n_jobs=2)
            warnings.warn("heard", UserWarning, stacklevel=1)
        assert [str(warning.message) for warning in caught] == ["heard"]


def constant_outcome(error):
    def outcome(gram, y, C, epsilon, **options):
        return svr.LeaveOneOut(error(C, epsilon, float(gram[0, 0])), np.zeros(len(y)), True)

    return outcome


def select_by(error, monkeypatch, **grid):
    """Return the cell chosen when the error is a given function of C, epsilon and sigma."""
    monkeypatch.setattr(selection, "leave_one_out_svr", constant_outcome(error))
    return select(lambda sigma: np.full((1, 1), sigma), np.zeros(3), **{**GRID, **grid})


def test_of_equal_cells_the_smoothest_wins(monkeypatch):
    assert cell_of(select_by(lambda C, epsilon, sigma: 1.0, monkeypatch)) == (0.1, 0.0, 5.0)


@pytest.mark.parametrize(
    ("best", "names"),
    [
        ((1.0, 0.1, 0.5), ()),
        ((0.1, 0.1, 0.5), ("C",)),
        ((10.0, 0.4, 5.0), ("C", "epsilon", "sigma")),
        ((1.0, 0.0, 0.05), ("sigma",)),
    ],
)
def test_edges_of_the_grid_are_named(best, names, monkeypatch):
    result = select_by(lambda *cell: sum(abs(a - b) for a, b in zip(cell, best, strict=True)), monkeypatch)
    assert cell_of(result) == best
    assert result.at_edge == names


def test_a_single_value_is_no_edge(monkeypatch):
    grid = {"C": [2.0], "epsilon": [0.1], "sigma": [1.0]}
    assert select_by(lambda *cell: 1.0, monkeypatch, **grid).at_edge == ()


def test_cells_that_stopped_early_do_not_win(monkeypatch):
    gram, y = problem(0)

    def outcome(gram, y, C, epsilon, **options):
        return svr.LeaveOneOut(C, np.zeros(len(y)), C > 0.1)

    monkeypatch.setattr(selection, "leave_one_out_svr", outcome)
    result = select(gram, y, **GRID)
    assert result.C == 1.0
    assert set(result.not_converged) == set(itertools.product([0.1], GRID["epsilon"], GRID["sigma"]))


def test_a_grid_in_which_no_cell_converges_is_refused(monkeypatch):
    monkeypatch.setattr(svr, "MAX_ITERATIONS", 1)
    gram, y = problem(0)
    with pytest.raises(FitError, match="every grid cell"):
        select(gram, y, [100.0], [0.0], [0.5, 1.0])


def test_progress_counts_up_to_the_whole_grid():
    gram, y = problem(0)
    seen = []
    select(gram, y, **GRID, report=lambda done, cells: seen.append((done, cells)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (27, 27)
    assert {cells for _, cells in seen} == {27}
