"""One campaign over a pool with one model."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import erfcx, log_ndtr, logsumexp

from mkbo_plugins.core.confidence import gp_ucb_beta
from mkbo_plugins.experiments.benchmark.lookup import Lookup
from mkbo_plugins.experiments.benchmark.models import Model, Prediction
from mkbo_plugins.experiments.record import Campaign

STARTS = 3
SMALLEST_VARIANCE = 1e-12

Acquisition = Callable[[Sequence[Prediction], np.ndarray, int], np.ndarray]
"""Function of predictions, the values seen and the number of the trial to the merit of each candidate."""


@dataclass(frozen=True)
class Record(Campaign):
    """A campaign with the quality and cost of each suggestion.

    Parameters
    ----------
    log_density
        Mean log predictive density of the untried candidates' standardised outcomes before each trial.
    seconds
        Seconds for each suggestion.
    log_weights
        Normalised log weights of the members of the model before each trial.
    """

    log_density: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    log_weights: tuple[tuple[float, ...], ...] = ()


def log_expected_improvement(mean: np.ndarray, variance: np.ndarray, best: float) -> np.ndarray:
    """Return the logarithm of E max(f - best, 0), stable where it is tiny, (m,).

    Source: Ament et al., "Unexpected improvements to expected improvement", 2023, section 4.1.
    """
    deviation = np.sqrt(np.maximum(variance, SMALLEST_VARIANCE))
    u = (mean - best) / deviation
    log_pdf = -(u**2) / 2 - np.log(2 * np.pi) / 2
    low = np.minimum(u, -1.0)
    # phi + u Phi = phi (1 + u Phi / phi), Phi / phi = sqrt(pi / 2) erfcx(-u / sqrt 2)
    tail = np.log1p(np.maximum(low * np.sqrt(np.pi / 2) * erfcx(-low / np.sqrt(2)), -1 + 1e-16))
    high = np.maximum(u, -1.0)
    body = np.log(np.exp(-(high**2) / 2) / np.sqrt(2 * np.pi) + high * np.exp(log_ndtr(high)))
    return np.where(u < -1, log_pdf + tail, body) + np.log(deviation)


def normalised(predictions: Sequence[Prediction]) -> np.ndarray:
    """Return the log weights of predictions, normalised."""
    weights = np.array([prediction.log_weight for prediction in predictions])
    return weights - logsumexp(weights)


def expected_improvement(predictions: Sequence[Prediction], z: np.ndarray, trial: int) -> np.ndarray:
    """Return the logarithm of the expected improvement under the mixture, (M,)."""
    members = [log_expected_improvement(p.mean, p.variance, z.max()) for p in predictions]
    return logsumexp(np.stack(members) + normalised(predictions)[:, None], axis=0)


def upper_confidence_bound(predictions: Sequence[Prediction], z: np.ndarray, trial: int) -> np.ndarray:
    """Return GP-UCB of the mixture's mean and variance with its published schedule, (M,)."""
    weights = np.exp(normalised(predictions))[:, None]
    means = np.stack([p.mean for p in predictions])
    mean = (weights * means).sum(axis=0)
    variance = (weights * (np.stack([p.variance for p in predictions]) + (means - mean) ** 2)).sum(axis=0)
    return mean + np.sqrt(gp_ucb_beta(trial, len(mean)) * np.maximum(variance, 0.0))


ACQUISITIONS: Mapping[str, Acquisition] = MappingProxyType({"ei": expected_improvement, "ucb": upper_confidence_bound})


def log_density(predictions: Sequence[Prediction], values: np.ndarray, where: np.ndarray) -> float:
    """Return the mean log density of values under the mixture, noise included."""
    terms = []
    for p in predictions:
        variance = np.maximum(p.variance[where], 0.0) + p.noise
        terms.append(-((values - p.mean[where]) ** 2) / (2 * variance) - np.log(2 * np.pi * variance) / 2)
    return float(np.mean(logsumexp(np.stack(terms) + normalised(predictions)[:, None], axis=0)))


def run_lookup(
    lookup: Lookup,
    model: Model | None,
    seed: int,
    trials: int,
    acquisition: Acquisition = expected_improvement,
    *,
    repeats: bool = False,
) -> Record:
    """Look up candidates one by one.

    Parameters
    ----------
    lookup
        The problem.
    model
        The model; None picks at random.
    seed
        Seed of the starting points, and of random picks.
    trials
        Trials after the starting points, fewer where the pool ends.
    acquisition
        What is maximised.
    repeats
        Whether a candidate may be tried again, with the same outcome, as hosts do that search a continuous space.
    """
    outcome = lookup.problem.outcome
    rng = np.random.default_rng(seed)
    tried = [int(i) for i in rng.choice(len(outcome), STARTS, replace=False)]
    densities, seconds, weights = [], [], []
    for trial in range(min(trials, len(outcome) - STARTS)):
        untried = np.setdiff1d(np.arange(len(outcome)), tried)
        allowed = np.arange(len(outcome)) if repeats else untried
        if model is None:
            tried.append(int(rng.choice(allowed)))
            continue
        began = time.perf_counter()
        y = outcome[tried]
        centre, spread = y.mean(), float(y.std(ddof=1)) or 1.0
        z = (y - centre) / spread
        predictions = model(lookup, np.array(tried), z)
        merit = acquisition(predictions, z, trial + 1)
        chosen = int(allowed[np.argmax(merit[allowed])])
        seconds.append(time.perf_counter() - began)
        densities.append(log_density(predictions, (outcome[untried] - centre) / spread, untried))
        weights.append(tuple(map(float, normalised(predictions))))
        tried.append(chosen)
    values = tuple(map(float, outcome[tried]))
    return Record(tuple(tried), values, tuple(densities), tuple(seconds), tuple(weights))
