"""Rows that stand for many."""

import numpy as np

from mkbo_plugins.core.training.subset import farthest_point_subset


def covering_radius(X, rows):
    return np.sqrt(((X[:, None] - X[rows]) ** 2).sum(axis=2)).min(axis=1).max()


def test_covers_better_than_chance_and_within_twice_the_best():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    radius = covering_radius(X, farthest_point_subset(X, 30))
    assert radius < 0.7 * min(covering_radius(X, rng.choice(300, 30, replace=False)) for _ in range(20))
    line = np.arange(9.0)[:, None]
    assert covering_radius(line, farthest_point_subset(line, 3)) <= 2


def test_picks_different_rows_in_order_even_where_they_repeat():
    X = np.repeat(np.random.default_rng(1).normal(size=(5, 3)), 4, axis=0)
    for n in (1, 5, 12, 20):
        rows = farthest_point_subset(X, n)
        assert len(set(rows)) == n
        assert (np.diff(rows) > 0).all()
        assert len(np.unique(X[rows], axis=0)) == min(n, 5)


def test_of_rows_that_repeat_each_setting_is_picked_as_often_as_another():
    rng = np.random.default_rng(3)
    setting = rng.permutation(np.repeat(np.arange(40), 20))
    X = rng.uniform(-1, 1, (40, 2))[setting]
    for n in (40, 200, 210, 799):
        counts = np.bincount(setting[farthest_point_subset(X, n)], minlength=40)
        assert np.ptp(counts) <= 1
        assert counts.sum() == n
    uneven = np.repeat([0, 1, 2], [1, 3, 50])
    assert np.bincount(uneven[farthest_point_subset(uneven[:, None] * 1.0, 9)]).tolist() == [1, 3, 5]


def test_rows_whose_distance_vanishes_count_as_equal():
    X = np.array([[0.0], [-0.0], [1e-200], [1.0], [1.0]])
    assert X[farthest_point_subset(X, 3)].max() == 1.0
    assert [len(set(farthest_point_subset(X, n))) for n in range(1, 6)] == [1, 2, 3, 4, 5]


def test_a_rare_level_is_not_missed():
    X = np.zeros((1000, 3))
    X[:, 0] = np.random.default_rng(2).uniform(-1, 1, 1000)
    X[17, 1:] = [1.0, 0.0]
    assert 17 in farthest_point_subset(X, 20)
