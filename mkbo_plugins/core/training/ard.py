"""Automatic relevance determination on a table: coordinate weights by maximum a posteriori, and the process's dual.

The model is ``y = mean + f + noise`` with ``f`` of covariance ``amplitude * K_2`` and the noise variance of a row
divided by its sample weight, besides noise of known variance. Coordinate weights follow from the marginal likelihood
with weak log-normal priors on length scales, amplitude and noise; all values refer to `y` scaled to unit variance.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Shaped
from scipy.optimize import OptimizeResult

from mkbo_plugins.core.gp.exact_gp import ExactGP, held_out_residuals, symmetric_inverse
from mkbo_plugins.core.gp.map_fit import Differentiable, map_fit
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.priors import log_prior_of_logarithms, table_priors
from mkbo_plugins.core.training.scatter import NO_SCATTER, Scatter

LENGTH_FACTORS = (1.0, 0.3, 0.1)
"""Length scales from which searches begin, in units of their prior median."""

JITTER = 1e-10
"""Variance added to the noise during a search, so that its least values have a Cholesky factor."""


@dataclass(frozen=True)
class ArdFit:
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

    weights: Float[np.ndarray, " d"]
    alpha: Float[np.ndarray, " N"]
    bias: float
    loo_residuals: Float[np.ndarray, " N"]
    converged: bool


def mean_and_std(y: Float[np.ndarray, " N"], weight: Float[np.ndarray, " N"] | None) -> tuple[float, float]:
    """Return mean and standard deviation of values y (N,) with positive weights (N,); None weighs all alike."""
    mean = float(np.average(y, weights=weight))
    return mean, float(np.sqrt(np.average((y - mean) ** 2, weights=weight)))


def ard_map(
    kernel: FreeKernel,
    X: Float[np.ndarray, "N d"],
    y: Float[np.ndarray, " N"],
    ranges: Float[np.ndarray, " d"],
    *,
    ard: bool,
    sample_weight: Float[np.ndarray, " N"] | None = None,
    groups: Shaped[np.ndarray, " N"] | None = None,
    known_noise: Float[np.ndarray, " N"] | None = None,
    scatter: Scatter = NO_SCATTER,
    report: Callable[[int, int | None], None] | None = None,
) -> ArdFit:
    """Fit the process by maximum a posteriori from a few fixed starting points.

    Parameters
    ----------
    kernel
        Free kernel whose weights are replaced; its other parameters stay.
    X
        Frame coordinates, (N, d).
    y
        Values, (N,).
    ranges
        Width each coordinate spans in the frame, (d,), the unit of its length scale under the prior.
    ard
        Whether every coordinate has its own weight, or all share one.
    sample_weight
        Positive weights, (N,), which divide each row's noise variance.
    groups
        Group labels, (N,), held out together in `loo_residuals`.
    known_noise
        Standard deviations of known noise, (N,), to which the common noise comes on top.
    scatter
        What measurements, whose means the values are, show of the noise of one of weight 1.
    report
        Called with the number of steps of the optimiser so far, and None since nobody knows how many it takes.
    """
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    mean, std = mean_and_std(y, weight)
    known = np.zeros(len(y)) if known_noise is None else (known_noise / std) ** 2
    scatter = scatter._replace(sum_of_squares=scatter.sum_of_squares / std**2)
    table = TableEvidence(kernel, X, (y - mean) / std, 1 / weight, known, scatter)
    fit = fit_weights(table.log_evidence, ranges, ard=ard, report=report)
    kernel, amplitude, noise = table.unpack(fit.x)
    inverse = symmetric_inverse(amplitude * kernel.gram(X) + np.diag(noise / weight + known))
    dual = inverse @ table.y
    return ArdFit(
        weights=np.array(kernel.weights),
        alpha=amplitude * dual * std,
        bias=mean,
        loo_residuals=-std * held_out_residuals(inverse, dual, groups),
        converged=bool(fit.success),
    )


def fit_weights(
    log_evidence: Differentiable,
    ranges: Float[np.ndarray, " d"],
    *,
    ard: bool,
    report: Callable[[int, int | None], None] | None,
) -> OptimizeResult:
    """Return the log weights, log amplitude and log noise of greatest posterior density, as the ``x``, (p,), of a fit.

    Parameters
    ----------
    log_evidence
        Log evidence as a function of them, as for `map_fit`.
    ranges, ard, report
        As for `ard_map`.
    """
    priors, steps = table_priors(ranges, ard=ard), itertools.count(1)
    medians = np.array([prior.log_mean for prior in priors[:-2]])
    starts = [np.append(medians - 2 * np.log(factor), [0.0, -3.0]) for factor in LENGTH_FACTORS]
    callback = None if report is None else lambda _: report(next(steps), None)
    return map_fit(log_evidence, priors, starts, log_prior_of_logarithms, callback=callback)


@dataclass(frozen=True, eq=False)
class TableEvidence:
    """Log evidence of a table as a function of log weights, log amplitude and log noise.

    Parameters
    ----------
    kernel, X
        As for `ard_map`.
    y
        Values less their mean, in units of their standard deviation, (N,).
    noise_factor
        Noise variance of each row in units of the common one, (N,).
    known
        Known noise variances that come on top, (N,).
    scatter
        What further measurements show of the common noise.
    """

    kernel: FreeKernel
    X: Float[np.ndarray, "N d"]
    y: Float[np.ndarray, " N"]
    noise_factor: Float[np.ndarray, " N"]
    known: Float[np.ndarray, " N"] | float = 0.0
    scatter: Scatter = NO_SCATTER

    def unpack(self, theta: Float[np.ndarray, " p"]) -> tuple[FreeKernel, float, float]:
        """Return the kernel with its weights, one each or one for all coordinates, the amplitude and the noise."""
        weights = np.exp(theta[:-2]) * np.ones(self.X.shape[1])
        return replace(self.kernel, weights=tuple(weights)), float(np.exp(theta[-2])), float(np.exp(theta[-1]))

    def log_evidence(self, theta: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        """Return the log evidence up to a constant and its gradient, (p,).

        It is minus infinity where double precision holds no Gram matrix, or none that is positive definite.
        """
        kernel, amplitude, noise = self.unpack(theta)
        variances = noise * self.noise_factor
        with np.errstate(over="ignore", invalid="ignore"):
            gram = kernel.gram(self.X)
        impossible = -np.inf, np.zeros_like(theta)
        if not np.isfinite(gram).all():
            return impossible
        try:
            process = ExactGP.conditioned(amplitude * gram + np.diag(variances + self.known + JITTER), self.y, mean=0.0)
        except np.linalg.LinAlgError:
            return impossible
        slope = process.evidence_slope()
        of_weights = amplitude * np.array(kernel.weights) * weight_slopes(kernel, self.X, gram, slope)
        of_amplitude, of_noise = amplitude * np.sum(slope * gram), np.sum(np.diag(slope) * variances)
        of_weights = of_weights.reshape(len(theta) - 2, -1).sum(axis=1)
        deviance = process.deviance
        if self.scatter.freedom:
            misfit = self.scatter.sum_of_squares / noise
            deviance += self.scatter.freedom * theta[-1] + misfit
            of_noise += (misfit - self.scatter.freedom) / 2
        return -deviance / 2, np.append(of_weights, [of_amplitude, of_noise])


def weight_slopes(
    kernel: FreeKernel, X: Float[np.ndarray, "N d"], gram: Float[np.ndarray, "N N"], slope: Float[np.ndarray, "N N"]
) -> Float[np.ndarray, " d"]:
    """Return sum_ij slope_ij dK_2(x_i, x_j) / dlambda_k for every coordinate k, (d,)."""
    if kernel.exponent_rate is None:
        of_product = slope * kernel.derivative(kernel.weighted(X) @ X.T)
    else:
        of_product = slope * gram * kernel.exponent_rate
    of_square = kernel.damping_rate * np.sum(slope * gram, axis=1)
    return np.sum(X * (of_product @ X), axis=0) - 2 * of_square @ X**2
