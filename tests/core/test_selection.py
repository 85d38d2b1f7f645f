"""The grid search: the same winner as a plain loop, whatever is abandoned and however many workers there are."""

import itertools
import warnings

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.training import selection, svr
from mkbo_plugins.core.training.selection import select
from mkbo_plugins.core.training.svr import leave_one_out
from mkbo_plugins.errors import FitError

GRID = {"C": [0.1, 1.0, 10.0], "epsilon": [0.0, 0.1, 0.4], "sigma": [0.05, 0.5, 5.0]}


def problem(seed, n=16):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.sin(2.5 * X[:, 0]) + 0.5 * X[:, 1] + rng.normal(0, 0.15, n)
    return (lambda sigma: SquaredExponential(sigma=sigma).gram(X)), y


def plain_loop(gram, y, grid, groups, weight):
    """Refit without each group of rows in every cell, with the solver alone."""
    labels = np.arange(len(y)) if groups is None else groups
    errors = {}
    for C, epsilon, sigma in itertools.product(*grid.values()):
        K, residuals = gram(sigma), np.empty(len(y))
        for label in np.unique(labels):
            held, kept = labels == label, labels != label
            fit = svr.fit_svr(K[np.ix_(kept, kept)], y[kept], C, epsilon, None if weight is None else weight[kept])
            residuals[held] = K[np.ix_(held, kept)] @ fit.alpha + fit.bias - y[held]
        errors[C, epsilon, sigma] = np.average(residuals**2, weights=weight)
    return min(errors, key=lambda cell: (errors[cell], cell[0], cell[1], -cell[2])), errors


def cell_of(result):
    return result.C, result.epsilon, result.sigma


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_finds_the_winner_of_a_plain_loop(seed, grouped, weighted):
    gram, y = problem(seed)
    groups = np.arange(len(y)) // 2 if grouped else None
    weight = np.random.default_rng(4).uniform(0.2, 4, len(y)) if weighted else None
    winner, errors = plain_loop(gram, y, GRID, groups, weight)
    result = select(gram, y, **GRID, sample_weight=weight, groups=groups)
    assert cell_of(result) == winner
    assert result.loo.error == pytest.approx(errors[winner], rel=1e-3)


def test_finds_the_winner_of_labels():
    gram, values = problem(0, n=30)
    y = np.where(values > np.median(values), 1.0, -1.0)
    grid = GRID | {"epsilon": [0.0]}
    errors = {
        (C, 0.0, sigma): leave_one_out(gram(sigma), y, C, 0.0, labels=True).error
        for C, sigma in itertools.product(grid["C"], grid["sigma"])
    }
    result = select(gram, y, **grid, labels=True)
    assert cell_of(result) == min(errors, key=errors.get)
    assert result.loo.error == errors[cell_of(result)]


def test_cells_are_abandoned(monkeypatch):
    gram, y = problem(0)
    outcomes = []

    def watched(*args, **options):
        outcomes.append(leave_one_out(*args, **options))
        return outcomes[-1]

    monkeypatch.setattr(selection, "leave_one_out", watched)
    select(gram, y, **GRID)
    assert any(np.isinf(outcome.error) for outcome in outcomes)


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


@pytest.mark.parametrize("seed", range(5))
def test_the_estimate_cannot_change_the_winner(seed, monkeypatch):
    """Whatever the estimates are, they only order the search."""
    gram, y = problem(seed)
    expected = select(gram, y, **GRID)
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(svr, "span_estimate", lambda machine: rng.normal(size=len(y)))
    result = select(gram, y, **GRID)
    assert cell_of(result) == cell_of(expected)
    np.testing.assert_allclose(result.loo.residuals, expected.loo.residuals, rtol=0, atol=1e-12)


def test_few_refits_find_the_winner(monkeypatch):
    gram, y = problem(0, n=40)
    refits, refit = [], svr.fit_without
    monkeypatch.setattr(svr, "fit_without", lambda *a: refits.append(1) or refit(*a))
    select(gram, y, **GRID)
    assert len(refits) < 0.25 * len(y) * 27


def test_the_best_looking_cell_alone_sets_the_first_bar(monkeypatch):
    gram, y = problem(0)
    bars = []

    def watched(*args, **options):
        bars.append(options["abandon_above"])
        return leave_one_out(*args, **options)

    monkeypatch.setattr(selection, "leave_one_out", watched)
    select(gram, y, **GRID)
    assert bars[0] == np.inf
    assert np.isfinite(bars[1:]).all()


def test_early_stops_are_reported_even_of_cells_that_look_hopeless(monkeypatch):
    gram, y = problem(2, n=40)
    monkeypatch.setattr(svr, "MAX_ITERATIONS", 150)
    stopped = {
        (C, epsilon, sigma)
        for C, epsilon, sigma in itertools.product(*GRID.values())
        if not svr.fit_svr(gram(sigma), y, C, epsilon, tolerance=1e-4).converged
    }
    assert stopped
    assert stopped <= set(select(gram, y, **GRID).not_converged)


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("cells", [1, 9, 17])
def test_goes_on_where_it_was_interrupted(cells, monkeypatch):
    gram, y = problem(1)
    expected = select(gram, y, **GRID)
    kept, searched = {}, []

    def keep(outcomes):
        kept.update(outcomes)
        if len(kept) >= cells:
            raise StoppedError

    with pytest.raises(StoppedError):
        select(gram, y, **GRID, keep=keep)
    known = dict(kept)
    monkeypatch.setattr(selection, "leave_one_out", lambda *a, **k: searched.append(1) or leave_one_out(*a, **k))
    result = select(gram, y, **GRID, known=known)
    assert same(result, expected)
    assert len(searched) == 27 - len(known)


def test_outcomes_of_other_cells_are_ignored():
    gram, y = problem(1)
    known = {(7.0, 0.1, 0.5): svr.LeaveOneOut(0.0, np.zeros(len(y)), True)}
    assert same(select(gram, y, **GRID, known=known), select(gram, y, **GRID))


def select_by(error, monkeypatch, **grid):
    """Return the cell chosen when the error is a given function of C, epsilon and sigma."""

    def outcome(gram, y, C, epsilon, **options):
        return svr.LeaveOneOut(error(C, epsilon, float(gram[0, 0])), np.zeros(len(y)), True)

    monkeypatch.setattr(selection, "leave_one_out", outcome)
    return select(lambda sigma: np.full((3, 3), sigma), np.arange(3.0), **{**GRID, **grid})


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
        return svr.LeaveOneOut(C if options["abandon_above"] >= C else np.inf, np.zeros(len(y)), C > 0.1)

    monkeypatch.setattr(selection, "leave_one_out", outcome)
    result = select(gram, y, **GRID)
    assert result.C == 1.0
    assert result.loo.error == 1.0, "an error that is not trusted is no bar for others"
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
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[0] == (0, 27)
    assert seen[-1] == (27, 27)
    assert {cells for _, cells in seen} == {27}
