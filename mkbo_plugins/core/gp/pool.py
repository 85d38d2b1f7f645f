"""Campaigns over a finite pool: exact Gaussian processes whose fixed parts are computed once for all candidates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist

from mkbo_plugins.core.components.protocols import FixedComponents
from mkbo_plugins.core.forms import get_form
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.improvement import log_noisy_improvement
from mkbo_plugins.core.gp.moments import Moments, posterior_moments, spread_of
from mkbo_plugins.core.gp.posterior import FormPosterior, PosteriorDensity


class Known(NamedTuple):
    """A component between candidates, looked up."""

    value: Float[np.ndarray, "..."]


@dataclass(frozen=True, eq=False)
class PoolParts:
    """The fixed parts of a covariance between candidates, which are named by their numbers, (n, 1).

    Parameters
    ----------
    fixed
        The fixed parts.
    pool
        Frame coordinates of all candidates, (M, d).
    """

    fixed: FixedComponents
    pool: Float[np.ndarray, "M d"]
    _known: dict[str, Float[np.ndarray, "M M"]] = field(default_factory=dict, init=False, repr=False)

    @property
    def coarse(self) -> "PoolParts":
        """Itself, being as fast as can be."""
        return self

    def rough(self, names: Iterable[str], X: Float[np.ndarray, "n 1"], Y: Float[np.ndarray, "m 1"]) -> None:
        """Return None: they are never slow."""

    @property
    def tables(self) -> int:
        """Number of tables."""
        return self.fixed.tables

    def components(
        self,
        names: Iterable[str],
        X: Float[np.ndarray, "n 1"],
        Y: Float[np.ndarray, "m 1"] | None = None,
        *,
        elementwise: bool = False,
    ) -> dict[str, Known]:
        """Return what `PretrainedComponents.components` does, without a way back of gradients."""
        grams = {name: self.between_all(name) for name in names}
        if not grams:  # of models without components, whose points have no numbers
            return {}
        rows = X[:, 0].astype(int)
        columns = rows if Y is None else Y[:, 0].astype(int)
        return {
            name: Known(gram[rows, columns] if elementwise else gram[rows][:, columns]) for name, gram in grams.items()
        }

    def between_all(self, name: str) -> Float[np.ndarray, "M M"]:
        """Return a component between all candidates, (M, M)."""
        if name not in self._known:
            self._known[name] = self.computed(name)
        return self._known[name]

    def computed(self, name: str) -> Float[np.ndarray, "M M"]:
        """Return the same, computed."""
        return np.asarray(self.fixed.components((name,), self.pool)[name].value)


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates, each of which can be tried.

    Parameters
    ----------
    parts
        The fixed parts of the covariance between them.
    unit
        Their inputs scaled to [0, 1], (M, k).
    """

    parts: PoolParts
    unit: Float[np.ndarray, "M k"]

    def points(self, indices: Int[np.ndarray, " n"], stock_dims: int) -> Points:
        """Return candidates by number, for models with all or none of the stock inputs."""
        return Points(indices[:, None].astype(float), self.unit[indices, :stock_dims])

    def fit(self, form: str, indices: Int[np.ndarray, " n"], z: Float[np.ndarray, " n"]) -> "Fit":
        """Return the form with its most likely hyperparameters, conditioned on standardised values z (n,)."""
        stock_dims = self.unit.shape[1] if get_form(form).uses_stock else 0
        model = FormModel(self.parts, form, stock_dims)  # type: ignore[arg-type]
        density = PosteriorDensity(model, self.points(indices, stock_dims), z, None)
        return Fit(self, density, density.maximise([density.usual_start]))


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted form.

    Parameters
    ----------
    pool
        The candidates.
    density
        What was maximised.
    theta
        Where its maximum is.
    """

    pool: Pool
    density: PosteriorDensity
    theta: Float[np.ndarray, " p"]

    @cached_property
    def posterior(self) -> FormPosterior:
        """The process conditioned on the data."""
        return self.density.posterior(self.theta)

    @cached_property
    def moments(self) -> Moments:
        """Moments of the function."""
        model, tried = self.density.model, self.density.data
        theta, noise = self.density.split(self.theta)
        pool = self.pool.points(np.arange(len(self.pool.unit)), model.stock_dims)
        cross = model.value(model.pairs(tried, pool), theta).T
        variance = model.value(model.pairs(pool, elementwise=True), theta)
        indices = tried.frame[:, 0].astype(int)
        return posterior_moments(self.posterior.process, cross, variance, cross, indices, float(noise))


def trials_until(
    pool: Pool,
    form: str,
    outcomes: Float[np.ndarray, " M"],
    good: Bool[np.ndarray, " M"],
    starts: Sequence[int],
    most: int,
    mean: Float[np.ndarray, " M"] | None = None,
) -> int:
    """Return how many trials a campaign takes to a good candidate, `most` and one if it takes more.

    Each candidate is tried once, by the noisy expected improvement of a form with its most likely hyperparameters.

    Parameters
    ----------
    pool
        The candidates.
    form
        Name of the form.
    outcomes, good
        Their outcomes, large ones wanted, and which are good enough, (M,).
    starts
        Numbers of the first trials.
    most
        Trials after which it ends.
    mean
        Prior mean of the standardised outcome at the candidates beside the constant, (M,); None is 0.
    """
    mean = np.zeros(len(outcomes)) if mean is None else mean
    tried = list(starts)
    while not good[tried].any() and len(tried) < min(most, len(outcomes)):
        y, indices = outcomes[tried], np.array(tried)
        z = (y - y.mean()) / spread_of(y)
        moments = pool.fit(form, indices, z - mean[indices]).moments.around(mean)
        merit = log_noisy_improvement(moments, indices)
        merit[indices] = -np.inf
        tried.append(int(np.argmax(merit)))
    return first_good(good[tried], most)


def first_good(good: Bool[np.ndarray, " n"], most: int) -> int:
    """Return the number of the first good one of trials, (n,), counting from 1; `most` and one if it comes later."""
    first = int(np.argmax(good)) + 1 if good.any() else most + 1
    return min(first, most + 1)


def nearest_candidates(points: Float[np.ndarray, "n k"], unit: Float[np.ndarray, "M k"]) -> list[int]:
    """Return the nearest candidate to each of some points that is none of those before, all scaled to [0, 1]."""
    chosen: list[int] = []
    for distances in cdist(points, unit, "sqeuclidean"):
        distances[chosen] = np.inf
        chosen.append(int(np.argmin(distances)))
    return chosen
