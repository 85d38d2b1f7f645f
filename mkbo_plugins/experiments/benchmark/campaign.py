"""One campaign over a pool with one model."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from mkbo_plugins.core.confidence import gp_ucb_beta
from mkbo_plugins.core.gp.improvement import log_expected_improvement, log_noisy_improvement
from mkbo_plugins.core.gp.moments import spread_of
from mkbo_plugins.experiments.benchmark.lookup import Lookup
from mkbo_plugins.experiments.benchmark.models import Model, Prediction
from mkbo_plugins.experiments.record import Campaign

STARTS = 3


class Seen(NamedTuple):
    """What was tried, (n,), the standardised values (n,) and the number of the trial to come."""

    indices: np.ndarray
    z: np.ndarray
    trial: int


Acquisition = Callable[[Sequence[Prediction], Seen], np.ndarray]
"""Function of predictions and what was seen to the merit of each candidate, (M,)."""


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


def normalised(predictions: Sequence[Prediction]) -> np.ndarray:
    """Return the log weights of predictions, normalised."""
    weights = np.array([prediction.log_weight for prediction in predictions])
    return weights - logsumexp(weights)


def expected_improvement(predictions: Sequence[Prediction], seen: Seen) -> np.ndarray:
    """Return the logarithm of the expected improvement on the largest value under the mixture, (M,)."""
    members = [log_expected_improvement(p.moments.mean, p.moments.variance, seen.z.max()) for p in predictions]
    return logsumexp(np.stack(members) + normalised(predictions)[:, None], axis=0)


def noisy_expected_improvement(predictions: Sequence[Prediction], seen: Seen) -> np.ndarray:
    """Return the logarithm of the expected improvement on the function at what was tried under the mixture, (M,).

    Source: Letham et al., "Constrained Bayesian optimization with noisy experiments", Bayesian Analysis 14, 495, 2019,
    section 4: expected improvement given the function at what was tried, averaged over draws of that.
    """
    members = [log_noisy_improvement(prediction.moments, seen.indices) for prediction in predictions]
    return logsumexp(np.stack(members) + normalised(predictions)[:, None], axis=0)


def upper_confidence_bound(predictions: Sequence[Prediction], seen: Seen) -> np.ndarray:
    """Return GP-UCB of the mixture's mean and variance with its published schedule, (M,)."""
    weights = np.exp(normalised(predictions))[:, None]
    means = np.stack([p.moments.mean for p in predictions])
    mean = (weights * means).sum(axis=0)
    variance = (weights * (np.stack([p.moments.variance for p in predictions]) + (means - mean) ** 2)).sum(axis=0)
    return mean + np.sqrt(gp_ucb_beta(seen.trial, len(mean)) * np.maximum(variance, 0.0))


ACQUISITIONS: Mapping[str, Acquisition] = MappingProxyType(
    {"ei": expected_improvement, "nei": noisy_expected_improvement, "ucb": upper_confidence_bound}
)


def log_density(predictions: Sequence[Prediction], values: np.ndarray, where: np.ndarray) -> float:
    """Return the mean log density of values under the mixture, noise included."""
    terms = []
    for _, moments in predictions:
        variance = np.maximum(moments.variance[where], 0.0) + moments.noise
        terms.append(-((values - moments.mean[where]) ** 2) / (2 * variance) - np.log(2 * np.pi * variance) / 2)
    return float(np.mean(logsumexp(np.stack(terms) + normalised(predictions)[:, None], axis=0)))


def run_lookup(
    lookup: Lookup,
    model: Model | None,
    seed: int,
    trials: int,
    acquisition: Acquisition = expected_improvement,
    *,
    repeats: bool = False,
    starts: Sequence[int] | None = None,
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
    starts
        Numbers of the starting points; None draws them by the seed.
    """
    outcome = lookup.problem.outcome
    rng = np.random.default_rng(seed)
    drawn = [int(i) for i in rng.choice(len(outcome), STARTS, replace=False)]
    tried = drawn if starts is None else [*starts]
    densities, seconds, weights = [], [], []
    for trial in range(min(trials, len(outcome) - len(tried))):
        untried = np.setdiff1d(np.arange(len(outcome)), tried)
        allowed = np.arange(len(outcome)) if repeats else untried
        if model is None:
            tried.append(int(rng.choice(allowed)))
            continue
        began = time.perf_counter()
        y = outcome[tried]
        centre, spread = y.mean(), spread_of(y)
        z = (y - centre) / spread
        predictions = model(lookup, np.array(tried), z)
        merit = acquisition(predictions, Seen(np.array(tried), z, trial + 1))
        chosen = int(allowed[np.argmax(merit[allowed])])
        seconds.append(time.perf_counter() - began)
        densities.append(log_density(predictions, (outcome[untried] - centre) / spread, untried))
        weights.append(tuple(map(float, normalised(predictions))))
        tried.append(chosen)
    values = tuple(map(float, outcome[tried]))
    return Record(tuple(tried), values, tuple(densities), tuple(seconds), tuple(weights))
