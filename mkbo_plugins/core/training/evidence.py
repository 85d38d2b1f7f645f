"""Gaussian-process evidence of a table: coordinate weights by maximum a posteriori, and the process's dual vector.

The model is ``y = mean + f + noise`` with ``f`` of covariance ``amplitude * K_2`` and the noise variance of a row
divided by its sample weight. Coordinate weights follow from the marginal likelihood with weak log-normal priors on
length scales, amplitude and noise; all values refer to `y` scaled to unit variance.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from mkbo_plugins.core.kernels import FreeKernel

_NOISE_PRIOR = (-4.0, 1.0)
_AMPLITUDE_PRIOR = (0.0, 1.0)
_LENGTH_SCALE_SPREAD = np.sqrt(3.0)
_LENGTH_SCALE_BOUNDS = (2.5e-2, 1e3)
_STARTS = (1.0, 0.3, 0.1)
_REJECTED = 1e10


@dataclass(frozen=True)
class Evidence:
    """The Gaussian process of greatest posterior density found for a table.

    Parameters
    ----------
    weights
        Coordinate weights lambda_j, (d,), all equal when they were tied.
    alpha
        Dual vector, (N,), such that the posterior mean is ``sum_i alpha_i K_2(x_i, x) + bias`` in units of `y`.
    bias
        Mean of the process, in units of `y`.
    loo_residuals
        Held-out prediction minus value in units of `y`, (N,), in closed form given the hyperparameters and the mean.
    converged
        Whether the optimiser met its tolerance.
    """

    weights: np.ndarray
    alpha: np.ndarray
    bias: float
    loo_residuals: np.ndarray
    converged: bool


def mean_and_spread(y: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    """Return mean and standard deviation of values y (N,) with positive weights (N,); None weighs all alike."""
    mean = float(np.average(y, weights=weight))
    return mean, float(np.sqrt(np.average((y - mean) ** 2, weights=weight)))


def fit_evidence(
    kernel: FreeKernel,
    X: np.ndarray,
    y: np.ndarray,
    ranges: np.ndarray,
    *,
    ard: bool,
    sample_weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    report: Callable[[int, int | None], None] | None = None,
) -> Evidence:
    """Fit the process by maximum a posteriori from a few fixed starting points.

    Parameters
    ----------
    kernel
        Free kernel whose weights are replaced; its other parameters stay.
    X
        Frame coordinates, (N, d).
    y
        Values, (N,), not constant.
    ranges
        Width each coordinate spans inside the bounds, (d,); the prior on length scales is relative to it.
    ard
        Whether every coordinate has its own weight, or all share one.
    sample_weight
        Positive weights, (N,), which divide each row's noise variance.
    groups
        Group labels, (N,), held out together in `loo_residuals`.
    report
        Called with the number of steps of the optimiser so far, and None since nobody knows how many it takes.
    """
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    mean, spread = mean_and_spread(y, weight)
    problem = _Problem(kernel, X, (y - mean) / spread, 1 / weight, ranges, tied=not ard)
    steps = itertools.count(1)

    def after_step(_: np.ndarray) -> None:
        if report is not None:
            report(next(steps), None)

    fits = [
        minimize(
            problem,
            problem.start(scale),
            jac=True,
            method="L-BFGS-B",
            bounds=problem.bounds,
            callback=after_step,
        )
        for scale in _STARTS
    ]
    best = min(fits, key=lambda fit: float(fit.fun))
    weights, amplitude, noise = problem.unpack(best.x)
    covariance = amplitude * problem.gram(weights) + np.diag(noise / weight)
    inverse = np.linalg.inv(covariance)
    inverse = (inverse + inverse.T) / 2
    dual = inverse @ problem.y
    return Evidence(
        weights=weights,
        alpha=amplitude * dual * spread,
        bias=mean,
        loo_residuals=-spread * held_out_residuals(inverse, dual, groups),
        converged=bool(best.success),
    )


def held_out_residuals(inverse: np.ndarray, dual: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return value minus held-out prediction for each row, (N,).

    Parameters
    ----------
    inverse
        Inverse of the covariance of the values, noise included, (N, N).
    dual
        The inverse times the values minus their mean, (N,).
    groups
        Group labels, (N,), held out together; None holds out single rows.
    """
    if groups is None:
        return dual / np.diag(inverse)
    residuals = np.empty_like(dual)
    for label in np.unique(groups):
        held = groups == label
        residuals[held] = np.linalg.solve(inverse[np.ix_(held, held)], dual[held])
    return residuals


class _Problem:
    """Negative log posterior density of log weights, log amplitude and log noise, with its gradient."""

    def __init__(
        self,
        kernel: FreeKernel,
        X: np.ndarray,
        y: np.ndarray,
        noise_factor: np.ndarray,
        ranges: np.ndarray,
        *,
        tied: bool,
    ) -> None:
        self.kernel, self.X, self.y, self.noise_factor, self.tied = kernel, X, y, noise_factor, tied
        # The prior of BoTorch's default model on unit-cube inputs, carried over to coordinates of other widths.
        log_length = np.sqrt(2.0) + np.log(X.shape[1]) / 2 + np.log(ranges)
        self.prior_mean = -2 * log_length
        self.prior_spread = 2 * _LENGTH_SCALE_SPREAD
        if tied:
            self.prior_mean = np.array([self.prior_mean.mean()])
        low, high = (-2 * np.log(length) for length in reversed(_LENGTH_SCALE_BOUNDS))
        self.bounds = [(low, high)] * len(self.prior_mean) + [(-8.0, 8.0), (-14.0, 4.0)]

    def start(self, length_factor: float) -> np.ndarray:
        """Return parameters with length scales at `length_factor` times the prior median."""
        return np.concatenate([self.prior_mean - 2 * np.log(length_factor), [0.0, -3.0]])

    def unpack(self, parameters: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Return weights (d,), amplitude and noise variance."""
        weights = np.exp(parameters[:-2])
        if self.tied:
            weights = np.repeat(weights, self.X.shape[1])
        return weights, float(np.exp(parameters[-2])), float(np.exp(parameters[-1]))

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return K_2 between the rows, (N, N)."""
        return replace(self.kernel, weights=tuple(weights)).gram(self.X)

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights, amplitude, noise = self.unpack(parameters)
        with np.errstate(over="ignore", invalid="ignore"):
            gram = self.gram(weights)
        diagonal = noise * self.noise_factor
        if not np.isfinite(gram).all():
            return _REJECTED, np.zeros_like(parameters)
        try:
            factor = cho_factor(amplitude * gram + np.diag(diagonal + 1e-10), lower=True)
        except np.linalg.LinAlgError:
            return _REJECTED, np.zeros_like(parameters)
        dual = cho_solve(factor, self.y)
        value = 0.5 * self.y @ dual + np.log(np.diag(factor[0])).sum()
        # d value / d K = (K^-1 - dual dual') / 2
        slope = (cho_solve(factor, np.eye(len(self.y))) - np.outer(dual, dual)) / 2
        of_weights = amplitude * weights * self._weight_slopes(weights, gram, slope)
        gradient = np.concatenate(
            [
                [of_weights.sum()] if self.tied else of_weights,
                [amplitude * np.sum(slope * gram), np.sum(np.diag(slope) * diagonal)],
            ]
        )
        means = np.concatenate([self.prior_mean, [_AMPLITUDE_PRIOR[0], _NOISE_PRIOR[0]]])
        spreads = np.concatenate(
            [np.full(len(self.prior_mean), self.prior_spread), [_AMPLITUDE_PRIOR[1], _NOISE_PRIOR[1]]]
        )
        standardised = (parameters - means) / spreads
        return float(value + 0.5 * standardised @ standardised), gradient + standardised / spreads

    def _weight_slopes(self, weights: np.ndarray, gram: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return sum_ij slope_ij dK_2(x_i, x_j) / dlambda_k for every coordinate k, (d,)."""
        kernel = replace(self.kernel, weights=tuple(weights))
        if kernel.exponent_rate is None:
            of_product = slope * kernel.derivative((self.X * weights) @ self.X.T)
        else:
            of_product = slope * gram * kernel.exponent_rate
        of_square = kernel.damping_rate * np.sum(slope * gram, axis=1)
        return np.sum(self.X * (of_product @ self.X), axis=0) - 2 * of_square @ self.X**2
