"""Prediction with a form of given hyperparameters, conditioned on data."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mkbo_plugins.core.arrays import runs
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.process import Process

BLOCK = 200
"""Points dealt with at a time: few enough for their features to stay in a processor's cache between uses."""

MANY = 1000
"""Points beyond which they are candidates to be ranked, for which the fixed parts may be coarse."""


@dataclass(frozen=True, eq=False)
class FormPosterior:
    """A Gaussian process whose covariance is a form, conditioned on data.

    Parameters
    ----------
    model, theta
        The form and the logarithms of its hyperparameters.
    data
        The points of the data.
    process
        The process conditioned on them.
    """

    model: FormModel
    theta: np.ndarray
    data: Points
    process: Process

    def mean(self, points: Points) -> np.ndarray:
        """Return the mean of the function at points, (m,)."""
        return np.concatenate([block.process.predict_mean(block._cross(p)) for block, p in self._blocks(points)])

    def moments(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the function, each (m,)."""
        found = [block._moments(p) for block, p in self._blocks(points)]
        mean, variance = zip(*found, strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def joint(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (m,) and covariance (m, m) of the function."""
        cross = self._cross(points)
        root = self.process.explained(cross)
        prior = self.model.value(self.model.pairs(points), self.theta)
        return self.process.predict_mean(cross), prior - root.T @ root

    def at(self, point: Points) -> tuple[np.ndarray, np.ndarray, Points]:
        """Return mean (1,) and variance (1,) at one point, and the gradients of both, in this order, as two rows."""
        # The same point twice, so that both gradients go one way back.
        twice = Points(np.tile(point.frame, (2, 1)), np.tile(point.stock, (2, 1)))
        pairs, itself = self.model.pairs(twice, self.data), self.model.pairs(point, elementwise=True)
        cross = self.model.value(pairs, self.theta)[:1]
        solved = self.process.solve(cross)[:, 0]
        upstream = np.stack([self.process.dual, -2 * solved])
        of_frame, of_stock = self.model.pull(twice, self.data, pairs, upstream, self.theta)
        of_prior = self.model.pull(point, None, itself, np.ones(1), self.theta)
        both = np.array([[0.0], [1.0]])
        gradients = Points(of_frame + both * of_prior[0], of_stock + both * of_prior[1])
        return self.process.predict_mean(cross), self.model.value(itself, self.theta) - cross @ solved, gradients

    def _blocks(self, points: Points) -> Iterator[tuple["FormPosterior", Points]]:
        """Yield blocks of points with the posterior to use there."""
        m = len(points.frame)
        posterior = self if m <= MANY else replace(self, model=replace(self.model, fixed=self.model.fixed.coarse))
        for rows in runs(m, BLOCK):
            yield posterior, Points(points.frame[rows], points.stock[rows])

    def _moments(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        cross = self._cross(points)
        prior = self.model.value(self.model.pairs(points, elementwise=True), self.theta)
        return self.process.predict_mean(cross), prior - (self.process.explained(cross) ** 2).sum(axis=0)

    def _cross(self, points: Points) -> np.ndarray:
        """Return covariances with the data, (m, n)."""
        # The data comes first, since evaluators spend more on the first of two sets.
        return self.model.value(self.model.pairs(self.data, points), self.theta).T
