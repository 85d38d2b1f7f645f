"""Hyperparameters of a form of greatest posterior density: marginal likelihood of the target times priors."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize

from mkbo_plugins.core.forms import Hyperparameter
from mkbo_plugins.core.gp.form_model import FormModel, Pairs, Points
from mkbo_plugins.core.gp.posterior import FormPosterior
from mkbo_plugins.core.gp.process import Process

NOISE = Hyperparameter(-4.0, 1.0, lower=1e-4, upper=1e2)
"""Noise variance in units of the standardised target's variance.

Source: as for `length_scale_prior`; the lower bound is BoTorch's.
"""


LogPrior: TypeAlias = Callable[[np.ndarray, Sequence[Hyperparameter]], tuple[float, np.ndarray]]
"""Function of logarithms of hyperparameters and their priors to a log density and its gradient."""


def log_bounds(priors: Iterable[Hyperparameter]) -> np.ndarray:
    """Return bounds on the hyperparameters' logarithms, (p, 2)."""
    return np.array([(math.log(prior.lower), math.log(prior.upper)) for prior in priors]).reshape(-1, 2)


def log_prior_of_logarithms(theta: np.ndarray, priors: Sequence[Hyperparameter]) -> tuple[float, np.ndarray]:
    """Return the log density of the logarithms theta (p,) of hyperparameters, up to a constant, and its gradient (p,).

    Integrals over hyperparameters, unlike their most likely values, do not depend on which density is taken; an
    expansion of the integrand about its maximum is good in the coordinates in which the prior is normal.
    """
    spreads = np.array([prior.log_spread for prior in priors])
    scores = (theta - np.array([prior.log_mean for prior in priors])) / spreads
    return -float(scores @ scores) / 2, -scores / spreads


def log_prior(theta: np.ndarray, priors: Sequence[Hyperparameter]) -> tuple[float, np.ndarray]:
    """Return the log density of hyperparameters exp(theta), up to a constant, and its gradient in theta, (p,).

    It is the density in the hyperparameters themselves, so that its maximum is that of BoTorch's models.
    """
    value, slope = log_prior_of_logarithms(theta, priors)
    return value - float(theta.sum()), slope - 1


def prior_mode(prior: Hyperparameter) -> float:
    """Return the most likely value of a hyperparameter under its prior and bounds."""
    return max(prior.lower, math.exp(prior.log_mean - prior.log_spread**2))


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
    """

    model: FormModel
    data: Points
    y: np.ndarray
    noise: float | np.ndarray | None

    @cached_property
    def pairs(self) -> Pairs:
        """The training points, paired all with all."""
        return self.model.pairs(self.data)

    @property
    def priors(self) -> tuple[Hyperparameter, ...]:
        """Prior of each hyperparameter."""
        return self.model.priors if self.noise is not None else (*self.model.priors, NOISE)

    @property
    def usual_start(self) -> np.ndarray:
        """Where the hosts begin: median scales of the form, most likely length scales and noise, as logarithms."""
        scales = len(self.model.form.hyperparameters)
        medians = [prior.log_mean for prior in self.priors[:scales]]
        return np.array(medians + [math.log(prior_mode(prior)) for prior in self.priors[scales:]])

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, float | np.ndarray]:
        """Return the form's hyperparameters, still as logarithms, and the noise variance."""
        if self.noise is not None:
            return theta, self.noise
        return theta[:-1], math.exp(theta[-1])

    def posterior(self, theta: np.ndarray) -> FormPosterior:
        """Return the process conditioned on the data."""
        of_form, noise = self.split(theta)
        covariance = _with_noise(self.model.value(self.pairs, of_form), noise)
        return FormPosterior(self.model, of_form, self.data, Process.conditioned(covariance, self.y))

    def log_evidence(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log marginal likelihood and its gradient, (p,)."""
        of_form, noise = self.split(theta)
        covariance, slopes = self.model.gradient(self.pairs, of_form)
        process = Process.conditioned(_with_noise(covariance, noise), self.y)
        slope = process.evidence_slope()
        gradient = np.einsum("ij,ijk->k", slope, slopes)
        if self.noise is None:
            gradient = np.append(gradient, noise * np.trace(slope))
        return process.log_evidence, gradient

    def maximise(self, starts: Iterable[np.ndarray], prior: LogPrior = log_prior) -> np.ndarray:
        """Return the best of the local maxima found from some starting points, (p,).

        Parameters
        ----------
        starts
            Logarithms of hyperparameters, (p,) each.
        prior
            Log density that is added to the log evidence.

        Raises
        ------
        LinAlgError
            If a covariance on the way is not positive definite.
        """

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            evidence, added = self.log_evidence(theta), prior(theta, self.priors)
            return -evidence[0] - added[0], -evidence[1] - added[1]

        bounds = log_bounds(self.priors)
        fits = [
            minimize(objective, np.clip(start, *bounds.T), jac=True, method="L-BFGS-B", bounds=bounds)
            for start in starts
        ]
        return min(fits, key=lambda fit: float(fit.fun)).x


def _with_noise(covariance: np.ndarray, noise: float | np.ndarray) -> np.ndarray:
    return covariance + np.diag(np.full(len(covariance), noise))
