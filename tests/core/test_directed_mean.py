"""The mean of a process whose direction is known."""

import copy

import numpy as np
import pytest

from mkbo_plugins.core.components.directed_mean import HALF, DirectedMean
from tests.core.helpers import numeric_gradient
from tests.several_tables import combined


def standardised(member, Z):
    """Return the standardised decision function of a table from its definition."""
    K = np.exp(-((Z[:, None, :] - member.support) ** 2 * member.weights).sum(axis=-1) / (2 * member.sigma))
    fixed = member.fixed
    return (K @ member.alpha + member.bias - fixed.decision_mean) / fixed.decision_spread


@pytest.mark.parametrize("signs", [(1.0, 0.0), (0.0, -1.0), (1.0, -1.0), (-1.0, -1.0)])
def test_known_tables_share_the_half(signs):
    cov = combined()
    Z = np.random.default_rng(0).uniform(-1, 1, (6, 3))
    views = zip(signs, cov.members, ([0, 1], [1, 2]), strict=True)
    known = [sign * standardised(member, Z[:, columns]) for sign, member, columns in views if sign]
    mean = DirectedMean(cov.fixed, signs)
    np.testing.assert_allclose(mean(Z), 0.5 * np.mean(known, axis=0), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(mean.gradient(Z), numeric_gradient(lambda z: float(mean(z).sum()), Z), atol=1e-7)


def test_one_table_has_the_whole_half(cov):
    Z = np.random.default_rng(1).uniform(-1, 1, (6, cov.support.shape[1]))
    for sign in (1.0, -1.0):
        np.testing.assert_allclose(DirectedMean(cov.fixed, (sign,))(Z), sign * HALF * standardised(cov, Z), rtol=1e-12)


def test_copies_are_the_same_object(cov):
    mean = DirectedMean(cov.fixed, (1.0,))
    assert copy.deepcopy(mean) is mean
