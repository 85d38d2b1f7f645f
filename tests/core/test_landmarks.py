"""Regression in the span of few rows against its definition and refits."""

import numpy as np
import pytest

from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.training import landmarks
from mkbo_plugins.core.training.landmarks import landmark_fit

KERNEL = SquaredExponential(sigma=0.8)


def problem(n=60, m=12):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    y = 3 + np.sin(3 * X[:, 0]) * X[:, 1] + rng.normal(0, 0.2, n)
    return X, y, np.sort(rng.choice(n, m, replace=False)), rng.uniform(0.5, 2, n)


def held_out_errors(X, y, chosen, weight, groups, penalty):
    """Return residuals by solving the normal equations without the rows of every group."""
    K, cross, mean = KERNEL.gram(X[chosen]), KERNEL.gram(X, X[chosen]), np.average(y, weights=weight)
    K = K + landmarks.JITTER * np.eye(len(K))
    residuals = np.empty(len(y))
    for label in np.unique(groups):
        kept = groups != label
        left, of = cross[kept], weight[kept]
        alpha = np.linalg.solve(left.T @ (of[:, None] * left) + penalty * K, left.T @ (of * (y - mean)[kept]))
        residuals[~kept] = mean + cross[~kept] @ alpha - y[~kept]
    return residuals


@pytest.mark.parametrize("block", [7, 4000])
@pytest.mark.parametrize("groups", [None, np.arange(60) // 4, np.minimum(np.arange(60) // 25, 1)])
def test_held_out_residuals_are_those_of_refits(monkeypatch, block, groups):
    monkeypatch.setattr(landmarks, "BLOCK", block)
    X, y, chosen, weight = problem()
    fit = landmark_fit(KERNEL, X, y, X[chosen], weight, groups)
    labels = np.arange(60) if groups is None else groups
    weight = weight / weight.mean()
    tried = [held_out_errors(X, y, chosen, weight, labels, penalty) for penalty in landmarks.PENALTIES]
    best = min(tried, key=lambda residuals: np.average(residuals**2, weights=weight))
    np.testing.assert_allclose(fit.residuals, best, atol=1e-6)


def test_with_all_rows_as_landmarks_it_is_kernel_ridge_regression():
    X, y, _, _ = problem()
    fit = landmark_fit(KERNEL, X, y, X)
    K, r = KERNEL.gram(X), y - y.mean()
    hats = [K @ np.linalg.inv(K + penalty * np.eye(len(K))) for penalty in landmarks.PENALTIES]
    errors = [np.mean(((H @ r - r) / (1 - np.diag(H))) ** 2) for H in hats]
    best = int(np.argmin(errors))
    np.testing.assert_allclose(fit.values, y.mean() + hats[best] @ r, atol=1e-5)
    # The mean of a Gaussian process with this noise has these standard errors.
    np.testing.assert_allclose(fit.errors**2, errors[best] * np.diag(hats[best]), rtol=1e-4)


def test_blocks_hold_every_row_once_and_groups_whole(monkeypatch):
    monkeypatch.setattr(landmarks, "BLOCK", 10)
    groups = np.random.default_rng(1).integers(0, 9, 100)
    blocks = list(landmarks._blocks(groups))
    assert sorted(np.concatenate(blocks)) == list(range(100))
    assert sum(len(np.unique(groups[rows])) for rows in blocks) == len(np.unique(groups))
    assert [len(rows) for rows in landmarks._blocks(np.arange(25))] == [10, 10, 5]
