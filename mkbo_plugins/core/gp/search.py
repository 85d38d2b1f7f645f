"""A Gaussian process as the search of an acquisition function sees it: joint moments of batches, with gradients.

Hyperparameters and data stay the same from step to step, and so do points that all batches share, as the ones of noisy
expected improvement; all that is of them alone is computed once.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.gp.form_model import Pairs, Points
from mkbo_plugins.core.gp.posterior import FormPosterior, prior_mean

KEPT_SHARED = 2
"""Sets of points that all batches share of which moments are kept."""


class _Shared(NamedTuple):
    """Points that all batches share, with what the data say of them."""

    others: Points
    """The data, and behind them the points that are none of them."""
    chosen: Float[np.ndarray, "m s"]
    """Which of these each is, as a column of zeros and a one."""
    mean: Float[np.ndarray, " s"]
    covariance: Float[np.ndarray, "s s"]
    solved: Float[np.ndarray, "n s"]
    """``K^-1`` times their covariances with the data."""


@dataclass(frozen=True, eq=False)
class SearchPosterior:
    """A process conditioned on data, for many batches of a few points each.

    Parameters
    ----------
    posterior
        The process.
    """

    posterior: FormPosterior
    _shared: ValueCache = field(default_factory=lambda: ValueCache(KEPT_SHARED), init=False, repr=False)

    def moments(self, own: Points, batches: int, shared: Points) -> "BatchMoments":
        """Return the joint moments of each batch.

        Parameters
        ----------
        own
            Points of the batches, one batch after the other.
        batches
            Their number b.
        shared
            Points that come first in each batch; none of their gradients is asked for.
        """
        kept = self._shared.get("shared", (shared.frame, shared.stock), self._conditioned)
        return BatchMoments(self.posterior, own, batches, kept)

    def _conditioned(self, frame: Float[np.ndarray, "s d"], stock: Float[np.ndarray, "s k"]) -> _Shared:
        posterior, points = self.posterior, Points(frame, stock)
        data, model = posterior.data, posterior.model
        both = [np.concatenate([p.frame, p.stock], axis=1) for p in (data, points)]
        same = (both[1][:, None, :] == both[0][None, :, :]).all(axis=2)
        new = ~same.any(axis=1)
        index = np.where(new, len(both[0]) + np.cumsum(new) - 1, same.argmax(axis=1))
        others = Points(np.concatenate([data.frame, frame[new]]), np.concatenate([data.stock, stock[new]]))
        if not len(frame):
            none = np.zeros((len(data.frame), 0))
            return _Shared(others, none, none[0], none[:0], none)
        cross = model.value(model.pairs(points, data), posterior.theta)
        mean, covariance = posterior.joint(points)
        chosen = (np.arange(len(others.frame))[:, None] == index).astype(float)
        return _Shared(others, chosen, mean, covariance, posterior.process.solve(cross))


@dataclass(frozen=True, eq=False)
class BatchMoments:
    """Joint moments of s shared points and k own ones in each of b batches, made by `SearchPosterior.moments`."""

    posterior: FormPosterior
    own: Points
    batches: int
    shared: _Shared

    @cached_property
    def mean(self) -> Float[np.ndarray, "b r"]:
        """Means, (b, s + k)."""
        cross = self._prior[:, : self._data]
        own = self.posterior.process.predict_mean(cross) + prior_mean(self.posterior.directed, self.own)
        shared = np.broadcast_to(self.shared.mean, (self.batches, len(self.shared.mean)))
        return np.concatenate([shared, own.reshape(self.batches, self._size)], axis=1)

    @cached_property
    def covariance(self) -> Float[np.ndarray, "b r r"]:
        """Covariances, (b, s + k, s + k)."""
        b, k, s = self.batches, self._size, len(self.shared.mean)
        model, theta = self.posterior.model, self.posterior.theta
        value = self._prior
        cross = value[:, : self._data]
        covariance = np.empty((b, s + k, s + k))
        prior = model.value(self._pairs_within, theta).reshape(b, k, k)
        covariance[:, s:, s:] = prior - cross.reshape(b, k, -1) @ self._solved.reshape(b, k, -1).swapaxes(1, 2)
        if s:
            across = value @ self.shared.chosen - cross @ self.shared.solved
            covariance[:, s:, :s] = across.reshape(b, k, s)
            covariance[:, :s, s:] = covariance[:, s:, :s].swapaxes(1, 2)
            covariance[:, :s, :s] = self.shared.covariance
        return covariance

    def vjp(self, of_mean: Float[np.ndarray, "b r"], of_covariance: Float[np.ndarray, "b r r"]) -> Points:
        """Pull gradients with respect to both moments back to the own points."""
        b, k, s = self.batches, self._size, len(self.shared.mean)
        posterior, model, theta = self.posterior, self.posterior.model, self.posterior.theta
        symmetric = of_covariance[:, s:, :] + of_covariance[:, :, s:].swapaxes(1, 2)
        within, slope = symmetric[:, :, s:], of_mean[:, s:].reshape(-1, 1)
        upstream = np.zeros_like(self._prior)
        upstream[:, : self._data] = slope * posterior.process.dual
        upstream[:, : self._data] -= (within @ self._solved.reshape(b, k, -1)).reshape(b * k, -1)
        if s:
            across = symmetric[:, :, :s].reshape(b * k, s)
            upstream += across @ self.shared.chosen.T
            upstream[:, : self._data] -= across @ self.shared.solved.T
        of_frame, of_stock = model.pull(
            self.own, self.shared.others, self._pairs, upstream, model.slopes(self._pairs, theta)
        )
        (first, second), slopes = self._ends, model.slopes(self._pairs_within, theta)
        if second is None:
            of_itself = model.pull(first, None, self._pairs_within, within.ravel() / 2, slopes)
        else:
            of_pairs = model.pull(first, second, self._pairs_within, within.ravel(), slopes)
            of_itself = tuple(part.reshape(b * k, k, -1).sum(axis=1) for part in of_pairs)
        of_frame, of_stock = of_frame + of_itself[0], of_stock + of_itself[1]
        if posterior.directed is not None:
            of_frame = of_frame + slope * posterior.directed.gradient(self.own.frame)
        return Points(of_frame, of_stock)

    @property
    def _data(self) -> int:
        return len(self.posterior.data.frame)

    @property
    def _size(self) -> int:
        return len(self.own.frame) // self.batches

    @cached_property
    def _pairs(self) -> Pairs:
        return self.posterior.model.pairs(self.own, self.shared.others)

    @cached_property
    def _prior(self) -> Float[np.ndarray, "own m"]:
        """Prior covariances of own points with data and shared points, (b k, m)."""
        return self.posterior.model.value(self._pairs, self.posterior.theta)

    @cached_property
    def _solved(self) -> Float[np.ndarray, "own n"]:
        return self.posterior.process.solve(self._prior[:, : self._data]).T

    @cached_property
    def _ends(self) -> tuple[Points, Points | None]:
        """Both points of all pairs within batches, row by row; None for the second where they are the same."""
        if self._size == 1:
            return self.own, None
        left, right = self._both
        return self.own.at(left), self.own.at(right)

    @cached_property
    def _both(self) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        k = self._size
        rows = np.arange(self.batches * k).reshape(self.batches, k)
        return np.repeat(rows, k, axis=1).ravel(), np.tile(rows, (1, k)).ravel()

    @cached_property
    def _pairs_within(self) -> Pairs:
        return self.posterior.model.pairs(*self._ends, elementwise=True)
