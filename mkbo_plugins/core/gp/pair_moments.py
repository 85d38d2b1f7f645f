"""Means of points and covariances of some pairs of them under a process conditioned on data, with gradients."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from mkbo_plugins.core.gp.form_model import Pairs, Points
from mkbo_plugins.core.gp.posterior import FormPosterior, prior_mean


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Moments of points, of whose covariances only those of some pairs are asked for.

    Parameters
    ----------
    posterior
        The process.
    points
        The points.
    left, right
        Rows of both points of each pair.
    """

    posterior: FormPosterior
    points: Points
    left: Int[np.ndarray, " pairs"]
    right: Int[np.ndarray, " pairs"]

    @cached_property
    def mean(self) -> Float[np.ndarray, " m"]:
        """Means of the points, (m,)."""
        return self.posterior.process.predict_mean(self._cross) + prior_mean(self.posterior.directed, self.points)

    @cached_property
    def covariance(self) -> Float[np.ndarray, " pairs"]:
        """Covariances of the pairs."""
        prior = self.posterior.model.value(self._pairs, self.posterior.theta)
        return prior - np.einsum("ij,ij->i", self._cross[self.left], self._solved[self.right])

    def vjp(self, of_mean: Float[np.ndarray, " m"], of_covariance: Float[np.ndarray, " pairs"]) -> Points:
        """Pull gradients with respect to both moments back to the points."""
        posterior, model, theta = self.posterior, self.posterior.model, self.posterior.theta
        first, second = self._with_data, self._pairs
        weighed, dual = of_covariance[:, None] * self._solved[self.right], posterior.process.dual
        upstream = of_mean[:, None] * dual - self._summed(self.left, weighed)
        upstream -= self._summed(self.right, of_covariance[:, None] * self._solved[self.left])
        of_frame, of_stock = model.pull(self.points, posterior.data, first, upstream, model.slopes(first, theta))
        ends = model.pull_both(self._first, second, of_covariance, model.slopes(second, theta))
        for rows, end in zip((self.left, self.right), ends, strict=True):
            of_frame, of_stock = of_frame + self._summed(rows, end.frame), of_stock + self._summed(rows, end.stock)
        if posterior.directed is not None:
            of_frame = of_frame + of_mean[:, None] * posterior.directed.gradient(self.points.frame)
        return Points(of_frame, of_stock)

    def _summed(
        self, rows: Int[np.ndarray, " pairs"], values: Float[np.ndarray, "pairs k"]
    ) -> Float[np.ndarray, "m k"]:
        """Sum values over the pairs of each point."""
        pairs = np.arange(len(rows) + 1)
        picked = csr_array((np.ones(len(rows)), rows, pairs), shape=(len(rows), len(self.points.frame)))
        return picked.T @ values

    @cached_property
    def _with_data(self) -> Pairs:
        return self.posterior.model.pairs(self.points, self.posterior.data)

    @cached_property
    def _cross(self) -> Float[np.ndarray, "m n"]:
        """Prior covariances of points with data."""
        return self.posterior.model.value(self._with_data, self.posterior.theta)

    @cached_property
    def _solved(self) -> Float[np.ndarray, "m n"]:
        return self.posterior.process.solve(self._cross).T

    @cached_property
    def _pairs(self) -> Pairs:
        return self.posterior.model.pairs(self._first, self.points.at(self.right), elementwise=True)

    @cached_property
    def _first(self) -> Points:
        return self.points.at(self.left)
