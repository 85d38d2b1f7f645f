"""Points that are the same in every batch."""

import numpy as np
import pytest

from mkbo_plugins.core.reweighted.shared_rows import SharedRows

RNG = np.random.default_rng(0)


def batches(own, b=3, n=5):
    """Return points of which those at the positions `own` differ between batches."""
    X = np.tile(RNG.normal(size=(1, n, 2)), (b, 1, 1))
    X[:, own, :] = RNG.normal(size=(b, len(own), 2))
    return X


@pytest.mark.parametrize("own", [[], [0], [4], [2], [1, 3], [0, 1, 2, 3, 4]])
def test_own_and_common_points_are_told_apart_and_put_together(own):
    X = batches(own)
    found = SharedRows.of(X)
    assert found.own.shape == (3 * len(own), 2)
    (together,) = found.spread([found.own] if own else None, [found.shared] if len(own) < 5 else None, 3)
    together = np.broadcast_to(together, X.shape)
    np.testing.assert_array_equal(found.restore(together, axis=1), X)
    np.testing.assert_array_equal(found.sort(X, axis=1), together)


def test_a_point_that_differs_in_one_batch_and_one_coordinate_is_no_common_one():
    X = batches([])
    X[2, 1, 1] = np.nextafter(X[2, 1, 1], 1)
    assert SharedRows.of(X).positions.tolist() == [1, 0, 2, 3, 4]


def test_undefined_points_are_no_common_ones():
    X = batches([])
    X[:, 3, 0] = np.nan
    assert SharedRows.of(X).own_count == 1


def test_points_without_batches_and_of_a_single_one_are_common():
    X = batches([])[:1]
    for points in (X, X[0]):
        found = SharedRows.of(points)
        assert found.own_count == 0
        np.testing.assert_array_equal(found.shared, X[0])


def test_torch_tells_the_same_apart():
    torch = pytest.importorskip("torch")
    X = batches([1, 3])
    ours, theirs = SharedRows.of(X), SharedRows.of(torch.from_numpy(X))
    np.testing.assert_array_equal(ours.own, theirs.own.numpy())
    np.testing.assert_array_equal(ours.shared, theirs.shared.numpy())
    np.testing.assert_array_equal(ours.restore(X, axis=1), theirs.restore(torch.from_numpy(X), axis=1).numpy())
