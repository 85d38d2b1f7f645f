"""Feature distances leave out features that are nothing beside the mean diagonal."""

from dataclasses import replace

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.evaluation.damped_truncation import without_small
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.core.reweighted.formulas import FeatureDistance
from mkbo_plugins.core.reweighted.gram import gram

WEIGHTS = (2.0, 0.7, 1.3)


@pytest.fixture(scope="module")
def evaluator():
    rng = np.random.default_rng(0)
    table = WeightedPoints(rng.uniform(-1, 1, (30, 3)), rng.normal(size=30))
    return CertifiedEvaluator(SquaredExponential(sigma=1.0, weights=WEIGHTS), (table,), 3)


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(1)
    corners = rng.choice([-1.0, 0.0, 1.0], (20, 3))
    return np.vstack([rng.uniform(-1, 1, (20, 3)), corners, 1e-3 * rng.normal(size=(5, 3))])


def damped_diagonal(features, evaluator, X):
    P = features.prepare(X)
    return P.diagonal * np.exp(2 * (P.half_log_scale + evaluator.log_damping(X)))


@pytest.mark.parametrize("radius", [1.0, 2.0])
@pytest.mark.parametrize("largest", [1e-1, 1e-4, 1e-8])
def test_no_more_than_allowed_is_left_out_anywhere(evaluator, points, radius, largest):
    features = evaluator.features(radius)
    few = without_small(features, evaluator.base, radius, largest)
    assert len(few.monomials) < len(features.monomials)
    X = radius * points
    lost = damped_diagonal(features, evaluator, X) - damped_diagonal(few, evaluator, X)
    assert (lost <= largest * (1 + 1e-6)).all()
    assert lost.max() > largest / 1e3


def test_a_monomial_stays_with_those_it_is_computed_from(evaluator):
    monomials = without_small(evaluator.features(), evaluator.base, 1.0, 1e-3).monomials
    raised = monomials.exponents[monomials.parents[1:]].copy()
    raised[np.arange(len(raised)), monomials.raised[1:]] += 1
    assert (raised == monomials.exponents[1:]).all()


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
def test_distances_keep_the_tolerance_in_units_of_the_mean_diagonal(evaluator, points, tolerance):
    exact = CertifiedEvaluator(evaluator.base, evaluator.tables, 3, "extended")
    d = gram(FeatureDistance(), exact, points).value
    unit = float(np.mean(damped_diagonal(evaluator.features(), evaluator, points)))
    near = replace(evaluator, tolerance=tolerance, unit=unit)
    assert len(near.features().monomials) < len(replace(evaluator, tolerance=tolerance).features().monomials)
    # Of the three entries in a distance, that between the points counts twice.
    assert np.abs(gram(FeatureDistance(), near, points).value - d).max() < 4 * tolerance * unit
    assert near.prepare(points)[0].form is near.features()
