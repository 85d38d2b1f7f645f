"""Inputs go through a function once where the host asks for it twice."""

import copy
import pickle

import pytest
import torch

from mkbo_plugins.botorch.seen import SeenInputs


@pytest.fixture
def counted():
    calls = []

    def square(x):
        calls.append(x)
        return x**2

    return square, calls


def test_the_same_cut_of_a_tensor_is_seen_once_and_its_gradient_is_whole(counted):
    function, calls = counted
    seen, leaf = SeenInputs(), torch.arange(4.0).requires_grad_()
    joined = torch.cat([leaf, leaf])
    total = seen.get(joined[:4], function).sum() + 2 * seen.get(joined[:4], function).sum()
    assert len(calls) == 1
    assert torch.equal(torch.autograd.grad(total, leaf)[0], 6 * leaf.detach())
    other = seen.get(joined[4:], function)
    assert len(calls) == 2
    assert torch.equal(torch.autograd.grad(other.sum(), leaf)[0], 2 * leaf.detach())


def test_a_gradient_comes_back_twice(counted):
    function, calls = counted
    seen, leaf = SeenInputs(), torch.arange(4.0).requires_grad_()
    for _ in range(2):
        (slope,) = torch.autograd.grad(seen.get(leaf[:2], function).sum(), leaf)
        assert torch.equal(slope, torch.tensor([0.0, 2.0, 0.0, 0.0]))
    assert len(calls) == 2


def test_constants_are_compared_by_value(counted):
    function, calls = counted
    seen = SeenInputs()
    for x in (torch.ones(2), torch.ones(2), torch.zeros(2)):
        assert torch.equal(seen.get(x, function), x**2)
    assert len(calls) == 2


def test_changed_inputs_are_not_the_same(counted):
    function, _ = counted
    seen, leaf = SeenInputs(), torch.ones(3).requires_grad_()
    first = seen.get(leaf[:2], function)
    with torch.no_grad():
        leaf[0] = 5.0
    assert first[0] == 1
    assert seen.get(leaf[:2], function)[0] == 25


def test_copies_start_empty(counted):
    function, calls = counted
    seen = SeenInputs()
    seen.get(torch.ones(2), function)
    for other in (copy.deepcopy(seen), pickle.loads(pickle.dumps(seen))):
        other.get(torch.ones(2), function)
    assert len(calls) == 3
