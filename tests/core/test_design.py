"""The choice of a few good points that do not crowd."""

import warnings

import numpy as np
import pytest

from mkbo_plugins.core import Linear, SquaredExponential, normalise
from mkbo_plugins.core.gp.design import distance_to_front, upper_confidence_design


def candidates(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (n, 2)), rng.normal(size=n)


def conditioned_loop(score, kernel, X, n):
    """Pick by score plus posterior standard deviation, conditioning anew on all picked points each time."""
    gram = normalise(kernel).gram(X)
    picked = []
    for _ in range(n):
        given = gram[:, picked]
        explained = np.einsum("ij,ji->i", given, np.linalg.solve(gram[np.ix_(picked, picked)], given.T))
        optimistic = score + np.sqrt(np.maximum(np.diag(gram) - explained, 0))
        optimistic[picked] = -np.inf
        picked.append(int(np.argmax(optimistic)))
    return picked


@pytest.mark.parametrize("seed", range(4))
def test_conditions_on_every_point_picked_before(seed):
    X, score = candidates(seed=seed)
    kernel = SquaredExponential(sigma=0.3)
    np.testing.assert_array_equal(
        upper_confidence_design(score, normalise(kernel).gram, X, 8), conditioned_loop(score, kernel, X, 8)
    )


def test_of_one_point_is_the_best():
    X, score = candidates()
    assert upper_confidence_design(score, normalise(SquaredExponential()).gram, X, 1) == [np.argmax(score)]


def test_of_all_points_holds_each_once():
    X, score = candidates(15)
    X[7] = X[3]
    picked = upper_confidence_design(score, normalise(SquaredExponential(sigma=0.5)).gram, X, 15)
    assert sorted(picked) == list(range(15))


def test_a_repeated_point_waits_for_all_others():
    X, _ = candidates(10)
    X[9] = X[0]
    score = np.zeros(10)
    score[[0, 9]] = 0.5
    picked = upper_confidence_design(score, normalise(SquaredExponential(sigma=0.01)).gram, X, 10)
    assert picked[0] == 0
    assert picked[-1] == 9


def test_leaves_its_arguments_alone():
    X, score = candidates()
    before = X.copy(), score.copy()
    upper_confidence_design(score, normalise(Linear()).gram, X, 5)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(score, before[1])


def test_more_points_than_the_kernel_can_tell_apart():
    """Long length scales leave no variance after a few picks; dividing by it must not blow up."""
    candidates = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    score = np.sin(candidates.sum(axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picked = upper_confidence_design(score, normalise(SquaredExponential(sigma=50.0)).gram, candidates, 200)
    assert len(set(picked.tolist())) == 200


def test_distance_to_front_of_one_objective_is_what_is_missing_to_its_maximum():
    _, score = candidates()
    np.testing.assert_allclose(distance_to_front(score[:, None]), score.max() - score)


def test_distance_to_front_is_the_shift_after_which_nothing_dominates():
    values = np.random.default_rng(1).normal(size=(40, 3))
    behind = distance_to_front(values)
    for i, value in enumerate(values):
        dominated = (values > value[None]).all(axis=1)
        assert (behind[i] > 0) == dominated.any()
        assert not (values > value + behind[i] + 1e-12).all(axis=1).any()
        assert behind[i] == 0 or (values > value + behind[i] - 1e-12).all(axis=1).any()
