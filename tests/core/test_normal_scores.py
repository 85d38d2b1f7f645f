"""Outcomes by rank: what no unit, scale or tail changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm, rankdata

from mkbo_plugins.core.training.normal_scores import normal_scores

VALUES = arrays(float, st.integers(3, 30), elements=st.integers(-20, 20).map(float)).filter(lambda y: np.ptp(y) > 0)


@given(VALUES)
def test_scores_are_quantiles_of_ranks_and_no_monotone_change_matters(y):
    scores, noise = normal_scores(y)
    np.testing.assert_allclose(scores, norm.ppf((rankdata(y) - 0.5) / len(y)), rtol=1e-12, atol=1e-12)
    assert noise is None
    np.testing.assert_array_equal(normal_scores(np.exp(y) * 1e-3)[0], scores)
    np.testing.assert_array_equal(normal_scores(-y)[0], -scores)


@given(VALUES, st.integers(0, 2**31))
def test_a_weight_is_a_number_of_rows(y, seed):
    counts = np.random.default_rng(seed).integers(1, 4, len(y))
    repeated = normal_scores(np.repeat(y, counts))[0]
    np.testing.assert_allclose(normal_scores(y, 0.3 * counts)[0], repeated[np.cumsum(counts) - 1], rtol=1e-9, atol=1e-9)


def test_rows_of_hardly_any_weight_have_finite_scores():
    for y in (np.arange(4.0), -np.arange(4.0)):
        scores, _ = normal_scores(y, np.array([1.0, 1.0, 1.0, 1e-30]))
        assert np.isfinite(scores).all()
        assert np.abs(scores[3]) > 10


def test_noise_is_what_it_changes_of_the_score():
    scores = norm.ppf((np.arange(1001) + 0.5) / 1001)
    unit, noise = 3.0, np.full(1001, 0.15)
    _, of_scores = normal_scores(unit * scores + 7.0, noise=noise)
    np.testing.assert_allclose(of_scores[5:-5], noise[5:-5] / unit, rtol=0.15)
    assert of_scores[[0, -1]] == pytest.approx(noise[[0, -1]] / unit, rel=0.5)
    _, twins = normal_scores(np.array([0.0, 1.0, 1.0 + 1e-9]), noise=np.full(3, 0.1))
    assert (twins > 0).all()
    assert twins.max() < 2 * norm.ppf(5 / 6)
