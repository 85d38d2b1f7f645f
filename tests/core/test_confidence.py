"""The published schedule of GP-UCB."""

import math

import numpy as np
import pytest

from mkbo_plugins.core.confidence import gp_ucb_beta
from mkbo_plugins.errors import MkboError


def test_bounds_fail_with_at_most_the_given_probability():
    # Union bound of theorem 1: over all trials and candidates, exp(-beta_t / 2) sums to delta.
    delta, candidates = 0.2, 50
    total = sum(candidates * math.exp(-gp_ucb_beta(t, candidates, delta) / 2) for t in range(1, 20_000))
    assert total == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize(("trial", "candidates", "delta"), [(0, 5, 0.1), (1, 0, 0.1), (1, 5, 0.0), (1.5, 5, 0.1)])
def test_what_has_no_meaning_is_refused(trial, candidates, delta):
    with pytest.raises(MkboError, match="must"):
        gp_ucb_beta(trial, candidates, delta)


def test_whole_numbers_of_numpy_are_whole():
    assert gp_ucb_beta(np.int64(3), np.int64(10)) == gp_ucb_beta(3, 10)
