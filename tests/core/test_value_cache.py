"""Results kept for arrays seen a moment ago."""

import copy
import pickle

import numpy as np
import pytest
import torch

from mkbo_plugins.core.evaluation.value_cache import ValueCache


class Counted:
    """The sum of arrays, and how often it was asked for."""

    def __init__(self):
        self.calls = 0

    def __call__(self, *arrays):
        self.calls += 1
        return sum(a.sum() for a in arrays)


@pytest.fixture(params=[np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def array(request):
    return lambda values, dtype=np.float64: request.param(np.array(values, dtype=dtype))


def test_equal_values_are_computed_once(array):
    recent, compute = ValueCache(2), Counted()
    assert recent.get("a", (array([1.0, 2.0]),), compute) == 3.0
    assert recent.get("a", (array([1.0, 2.0]),), compute) == 3.0
    assert compute.calls == 1


def test_other_keys_values_shapes_and_dtypes_are_computed(array):
    recent, compute = ValueCache(8), Counted()
    recent.get("a", (array([1.0, 2.0]),), compute)
    recent.get("b", (array([1.0, 2.0]),), compute)
    recent.get("a", (array([1.0, 3.0]),), compute)
    recent.get("a", (array([[1.0, 2.0]]),), compute)
    recent.get("a", (array([1.0, 2.0], np.float32),), compute)
    recent.get("a", (array([1.0, 2.0]), array([1.0, 2.0])), compute)
    recent.get("a", (array([np.nan]),), compute)
    assert recent.get("a", (array([np.nan]),), compute) != 0
    assert compute.calls == 8


def test_arrays_changed_in_place_are_seen(array):
    recent, compute = ValueCache(2), Counted()
    X = array([1.0, 2.0])
    recent.get("a", (X,), compute)
    X[0] = 5.0
    assert recent.get("a", (X,), compute) == 7.0
    assert recent.get("a", (array([1.0, 2.0]),), compute) == 3.0
    assert compute.calls == 2


def test_the_least_recent_result_goes_first(array):
    recent, compute = ValueCache(2), Counted()
    for value in (1.0, 2.0, 1.0, 3.0, 1.0):
        recent.get("a", (array([value]),), compute)
    assert compute.calls == 3
    recent.get("a", (array([2.0]),), compute)
    assert compute.calls == 4


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda recent: pickle.loads(pickle.dumps(recent))])
def test_copies_start_empty_and_keep_as_many(duplicate):
    recent, compute = ValueCache(1), Counted()
    recent.get("a", (np.ones(2),), compute)
    fresh = duplicate(recent)
    for value in (1.0, 1.0, 2.0, 1.0):
        fresh.get("a", (np.full(2, value),), compute)
    assert compute.calls == 4
