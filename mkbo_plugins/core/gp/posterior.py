"""A form conditioned on data: the posterior density of its hyperparameters, and prediction with some of them."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import chunks
from mkbo_plugins.core.components.directed_mean import DirectedMean
from mkbo_plugins.core.components.protocols import ModelComponents
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.gp.exact_gp import ExactGP
from mkbo_plugins.core.gp.form_model import FormModel, Pairs, Points
from mkbo_plugins.core.gp.map_fit import Differentiable, map_fit
from mkbo_plugins.core.priors import NEAR_STOCK, NOISE, Hyperparameter, log_prior, prior_mode

BLOCK = 400
"""Points dealt with at a time: few enough for their features to stay in a processor's cache between uses, and so many
that calls cost little beside them."""

MANY = 1000
"""Points beyond which they are candidates to be ranked, for which the fixed parts may be coarse."""

MOSTLY_NOISE = math.exp(-1.0)
"""Noise variance, in units of the standardised target's, that leaves the function little to explain."""


def prior_mean(directed: DirectedMean | None, points: Points) -> Float[np.ndarray, " m"]:
    """Return the prior mean at points beside the constant, (m,): 0 where no direction is known."""
    return np.zeros(len(points.frame)) if directed is None else directed(points.frame)


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
        The process conditioned on what the data are beyond `directed`.
    noise
        Variance of the noise, one for all data or one for each.
    directed
        Prior mean beside the constant; None where there is none.
    """

    model: FormModel
    theta: Float[np.ndarray, " p"]
    data: Points
    process: ExactGP
    noise: float | Float[np.ndarray, " n"]
    directed: DirectedMean | None = None
    _kept: ValueCache = field(default_factory=lambda: ValueCache(1), init=False, repr=False)

    def mean(self, points: Points) -> Float[np.ndarray, " m"]:
        """Return the mean of the function at points, (m,)."""
        return np.concatenate([block._mean(block._cross(p), p) for block, p in self._blocks(points)])

    def moments(self, points: Points) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and variance of the function, each (m,)."""
        mean, variance = zip(*(block._moments(p) for block, p in self._blocks(points)), strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def joint(self, points: Points) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m m"]]:
        """Return mean (m,) and covariance (m, m) of the function."""
        cross = self._cross(points)
        root = self.process.whitened(cross)
        prior = self.model.value(self.model.pairs(points), self.theta)
        return self._mean(cross, points), prior - root.T @ root

    def at(self, point: Points) -> tuple[Float[np.ndarray, " 1"], Float[np.ndarray, " 1"], Points]:
        """Return mean (1,) and variance (1,) at one point, and the gradients of both, in this order, as two rows."""
        pairs = self.model.from_point(point, self.data)
        slopes = self.model.slopes(pairs, self.theta)
        cross = slopes.value[:, :-1]
        solved = self.process.solve(cross)[:, 0]
        # Both arguments of the prior variance move.
        upstream = np.array([[*self.process.dual, 0.0], [*(-2 * solved), 2.0]])
        of_frame, of_stock = self.model.pull(point, self.data, pairs, upstream, slopes)
        if self.directed is not None:
            of_frame[0] += self.directed.gradient(point.frame)[0]
        variance = slopes.value[:, -1] - cross @ solved
        return self._mean(cross, point), variance, Points(of_frame, of_stock)

    def _blocks(self, points: Points) -> Iterator[tuple["FormPosterior", Points]]:
        """Yield blocks of points with the posterior to use there."""
        m = len(points.frame)
        for rows in chunks(m, BLOCK):
            block = Points(points.frame[rows], points.stock[rows])
            yield self if m <= MANY else self._ranking(block), block

    def _ranking(self, points: Points) -> "FormPosterior":
        """Return the posterior to rank points by."""
        rough = self.model.fixed.rough(self.model.form.parts, self.data.frame, points.frame)
        return self._coarse if rough is None else self._kept.get(id(rough), (), lambda: self._of_rough(rough))

    @cached_property
    def _coarse(self) -> "FormPosterior":
        return replace(self, model=replace(self.model, fixed=self.model.fixed.coarse))

    def _of_rough(self, fixed: ModelComponents) -> "FormPosterior":
        """Return the posterior of other components, which are those between the data too."""
        model = replace(self.model, fixed=fixed)
        covariance = model.value(model.pairs(self.data), self.theta)
        y = self.process.residual + self.process.mean
        process = ExactGP.conditioned(_with_noise(covariance, self.noise), y, self.process.mean)
        return replace(self, model=model, process=process)

    def _moments(self, points: Points) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        cross = self._cross(points)
        prior = self.model.value(self.model.pairs(points, elementwise=True), self.theta)
        mean, variance = self.process.predict(cross, prior)
        return mean + prior_mean(self.directed, points), variance

    def _mean(self, cross: Float[np.ndarray, "m n"], points: Points) -> Float[np.ndarray, " m"]:
        """Return the mean at points, (m,), from their covariances with the data, (m, n)."""
        return self.process.predict_mean(cross) + prior_mean(self.directed, points)

    def _cross(self, points: Points) -> Float[np.ndarray, "m n"]:
        """Return covariances with the data, (m, n)."""
        # The data comes first, since evaluators spend more on the first of two sets.
        return self.model.value(self.model.pairs(self.data, points), self.theta).T


@dataclass(frozen=True, eq=False)
class PosteriorDensity:
    """Posterior density of a form's hyperparameters, as logarithms, with the noise variance behind them if unknown.

    Parameters
    ----------
    model
        The form.
    data
        The training points.
    y
        Standardised values, (n,).
    noise
        Known noise variance in units of the variance of `y`, one for all values or one for each; None if it is
        learned.
    directed
        Prior mean beside the constant; None where there is none.
    """

    model: FormModel
    data: Points
    y: Float[np.ndarray, " n"]
    noise: float | Float[np.ndarray, " n"] | None
    directed: DirectedMean | None = None

    @cached_property
    def pairs(self) -> Pairs:
        """The training points, paired all with all."""
        return self.model.pairs(self.data)

    @cached_property
    def residuals(self) -> Float[np.ndarray, " n"]:
        """The values beyond the prior mean, the constant aside, (n,)."""
        return self.y - prior_mean(self.directed, self.data)

    @property
    def priors(self) -> tuple[Hyperparameter, ...]:
        """Prior of each hyperparameter."""
        return self.model.priors if self.noise is not None else (*self.model.priors, NOISE)

    @property
    def usual_start(self) -> Float[np.ndarray, " p"]:
        """Where the hosts begin: median scales of the form, most likely length scales and noise, as logarithms."""
        scales = len(self.model.form.hyperparameters)
        medians = [prior.log_mean for prior in self.priors[:scales]]
        return np.array(medians + [math.log(prior_mode(prior)) for prior in self.priors[scales:]])

    @property
    def noisy_start(self) -> Float[np.ndarray, " p"]:
        """Where nearly all is noise, else prior medians, as logarithms; where noise is known, these alone."""
        medians = np.array([prior.log_mean for prior in self.priors])
        return medians if self.noise is not None else np.append(medians[:-1], math.log(MOSTLY_NOISE))

    def near_stock(self, theta: Float[np.ndarray, " k"]) -> Float[np.ndarray, " p"]:
        """Return where the form is close to the stock model with hyperparameters theta (k,), all as logarithms.

        Scales that no limit of the stock model needs have their prior medians.
        """
        form = self.model.form
        scales = [
            math.log(NEAR_STOCK[key.name]) if key.name in NEAR_STOCK else prior.log_mean
            for key, prior in zip(form.scales.values(), form.hyperparameters.values(), strict=True)
        ]
        return np.concatenate([scales, theta])

    def split(self, theta: Float[np.ndarray, " p"]) -> tuple[Float[np.ndarray, " q"], float | Float[np.ndarray, " n"]]:
        """Return the form's hyperparameters, still as logarithms, and the noise variance."""
        if self.noise is not None:
            return theta, self.noise
        return theta[:-1], math.exp(theta[-1])

    def posterior(self, theta: Float[np.ndarray, " p"]) -> FormPosterior:
        """Return the process conditioned on the data."""
        of_form, noise = self.split(theta)
        process = self._conditioned(self.model.value(self.pairs, of_form), noise)
        return FormPosterior(self.model, of_form, self.data, process, noise, self.directed)

    def log_evidence(self, theta: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        """Return the log marginal likelihood and its gradient, (p,)."""
        of_form, noise = self.split(theta)
        covariance, slopes = self.model.gradient(self.pairs, of_form)
        process = self._conditioned(covariance, noise)
        slope = process.evidence_slope()
        gradient = np.einsum("ij,ijk->k", slope, slopes)
        if self.noise is None:
            gradient = np.append(gradient, noise * np.trace(slope))
        return process.log_evidence, gradient

    def maximise(
        self, starts: Iterable[Float[np.ndarray, " p"]], prior: Differentiable = log_prior
    ) -> Float[np.ndarray, " p"]:
        """Return the best of the local maxima found from some starting points, (p,); arguments as for `map_fit`.

        A search goes back from where a covariance is not positive definite in double precision.
        """

        def log_evidence(theta: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
            try:
                return self.log_evidence(theta)
            except np.linalg.LinAlgError:
                return -np.inf, np.zeros_like(theta)

        return map_fit(log_evidence, self.priors, starts, prior).x

    def _conditioned(self, covariance: Float[np.ndarray, "n n"], noise: float | Float[np.ndarray, " n"]) -> ExactGP:
        return ExactGP.conditioned(_with_noise(covariance, noise), self.residuals)


def _with_noise(
    covariance: Float[np.ndarray, "n n"], noise: float | Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n n"]:
    return covariance + np.diag(np.full(len(covariance), noise))
