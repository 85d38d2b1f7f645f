"""Even draws from polytopes, steps in them and rounding within them."""

import numpy as np
import pytest
from scipy.stats import beta, ks_2samp, kstest

from mkbo_plugins.core.region.polytope import Polytope
from mkbo_plugins.core.region.walk import Walk
from mkbo_plugins.errors import SpaceError


def polytope(lower, upper, rows, least, most, whole=None):
    lower = np.array(lower, dtype=float)
    flags = np.zeros(len(lower), dtype=bool) if whole is None else np.array(whole)
    rows = np.array(rows, dtype=float).reshape(-1, len(lower))
    return Polytope(lower, np.array(upper, dtype=float), rows, np.array(least, float), np.array(most, float), flags)


def simplex(d, total=100.0):
    return polytope([0] * d, [total] * d, np.ones((1, d)), [total], [total])


WHOLE_SUM = polytope([0, 0, 0], [4, 5, 6], [[1, 1, 2]], [8], [8], [True] * 3)
MIXED = polytope([0, 0, 0], [3, 10, 10], [[2, 1, 1]], [10], [10], [True, False, False])


@pytest.mark.parametrize("d", [3, 6])
def test_parts_of_a_mixture_are_distributed_as_on_a_simplex(d):
    X = Walk(simplex(d)).draws(1500, np.random.default_rng(0))
    for column in X.T:
        assert kstest(column / 100, beta(1, d - 1).cdf).pvalue > 1e-3


def test_draws_agree_with_those_of_botorch():
    torch = pytest.importorskip("torch")
    sampling = pytest.importorskip("botorch.utils.sampling")
    region = polytope([0, 0, 0, 5], [80, 40, 60, 30], [[1, 1, 1, 1], [1, -2, 0, 0]], [100, -np.inf], [100, 10])
    ours = Walk(region).draws(1000, np.random.default_rng(1))
    theirs = sampling.get_polytope_samples(
        1000,
        torch.tensor(np.array([region.lower, region.upper])),
        inequality_constraints=[(torch.tensor([0, 1]), torch.tensor([-1.0, 2.0]).double(), -10.0)],
        equality_constraints=[(torch.arange(4), torch.ones(4).double(), 100.0)],
        seed=0,
        n_burnin=2000,
        n_thinning=20,
    ).numpy()
    for j in range(4):
        assert ks_2samp(ours[:, j], theirs[:, j]).pvalue > 1e-3


def test_whole_points_are_all_reached_equally_often():
    grid = np.stack(np.meshgrid(range(5), range(6), range(7), indexing="ij"), -1).reshape(-1, 3)
    expected = grid[grid @ [1, 1, 2] == 8]
    found, counts = np.unique(Walk(WHOLE_SUM).draws(6000, np.random.default_rng(0)), axis=0, return_counts=True)
    np.testing.assert_array_equal(found, expected)
    mean = 6000 / len(expected)
    assert np.abs(counts - mean).max() < 5 * np.sqrt(mean)


def test_slices_of_a_mixed_region_are_drawn_by_their_length():
    X = Walk(MIXED).draws(4000, np.random.default_rng(0))
    share = np.bincount(X[:, 0].astype(int), minlength=4) / len(X)
    lengths = 10.0 - 2 * np.arange(4)  # of x1 + x2 = 10 - 2 x0 within the bounds
    np.testing.assert_allclose(share, lengths / lengths.sum(), atol=0.03)


@pytest.mark.parametrize("region", [simplex(4), WHOLE_SUM, MIXED], ids=["simplex", "whole", "mixed"])
def test_steps_stay_inside_and_near_and_reach_the_best_corner(region):
    walk, rng = Walk(region), np.random.default_rng(0)
    X = walk.draws(64, rng)
    for width in (0.1, 0.003):
        near = walk.near(X, width, rng)
        assert region.contains(near).all()
        assert (near[:, region.whole] == np.round(near[:, region.whole])).all()
        free = ~region.whole
        assert np.abs(near - X)[:, free].max(initial=0.0) <= 8 * width * 100 + 2
    slope = np.array([3.0, 1.0, -1.0, 0.5])[: len(region.lower)]
    for width in (0.1,) * 8 + (0.01,) * 8:
        best = X[np.argsort(-(X @ slope))[:8]]
        X = np.concatenate([best, walk.near(np.repeat(best, 8, axis=0), width, rng)])
    reached = slope @ region.extreme(slope)
    assert (X @ slope).max() == pytest.approx(reached, rel=0.01)


@pytest.mark.parametrize("total", [100.0, 99.7, 100 / 3])
def test_rounded_points_keep_the_sum_and_have_few_digits_where_it_allows_that(total):
    region = simplex(4, total)
    X = Walk(region).draws(200, np.random.default_rng(0))
    found = Walk(region).on_steps(X, np.full(4, 1))
    assert region.contains(found).all()
    neat = (found == np.round(found, 1)).sum(axis=1)
    assert (neat >= (3 if total == 100 / 3 else 4)).all()
    assert np.abs(found - X).max() < 0.4


def test_rounding_does_not_leave_a_face():
    region = polytope([0, 0], [1, 1], [[1, 1]], [-np.inf], [2 / 3])
    X = np.array([[1 / 3, 1 / 3], [0.1234, 2 / 3 - 0.1234]])
    found = Walk(region).on_steps(X, np.full(2, 2))
    assert region.contains(found).all()
    np.testing.assert_array_equal(found, np.round(found, 2))


def test_two_inequalities_that_meet_are_an_equality():
    rows = [[1, 1, 1], [1, 1, 1]]
    region = polytope([0] * 3, [1] * 3, rows, [-np.inf, 1], [1, np.inf])
    X = Walk(region).draws(200, np.random.default_rng(0))
    assert region.contains(X).all()
    assert X.std(axis=0).min() > 0.15


def test_an_empty_region_has_no_extreme():
    assert polytope([0, 0], [1, 1], [[1, 1]], [3], [3]).extreme(np.ones(2)) is None
    assert polytope([0, 0], [9, 9], [[2, 2]], [3], [3], [True, True]).extreme(np.ones(2)) is None


def test_the_interval_of_a_form():
    assert simplex(3).interval(np.array([1.0, 2.0, 0.0])) == pytest.approx((0.0, 200.0))


def test_a_region_without_room_is_refused():
    thin = polytope([0, 0], [1, 1], [[1, 1]], [2 + 5e-8], [2 + 5e-8])
    if thin.extreme(np.ones(2)) is None:
        return
    with pytest.raises(SpaceError, match="too little room"):
        Walk(thin).draws(4, np.random.default_rng(0))
