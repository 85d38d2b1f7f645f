"""The next experiments of a campaign, each with what is expected of it and why it was chosen."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from scipy.stats import norm

from mkbo_plugins.botorch.candidates import FiniteCandidates, SpaceCandidates
from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.botorch.models import pretrained_gp
from mkbo_plugins.core.design import upper_confidence_design
from mkbo_plugins.core.form_model import Points
from mkbo_plugins.core.verdict import Verdict, judge
from mkbo_plugins.errors import MkboError
from mkbo_plugins.parameters import Level
from mkbo_plugins.pretrained import FEWEST, Direction, PretrainedCovariance
from mkbo_plugins.space import ParameterSpace
from mkbo_plugins.trials import Trials

SAMPLES = 256
"""Draws of the outcomes of pending experiments, over which improvement is averaged."""

SMOOTHING = 1e-6
"""Temperature at which improvements over pending outcomes are smoothed, in standard deviations of the outcomes."""

VERDICT_FROM = 10
"""Outcomes from which on it is said whether the table helps: fewer often point the wrong way."""


class Reason(StrEnum):
    """Why an experiment was chosen."""

    START = "start"
    EXPLORE = "explore"
    EXPLOIT = "exploit"


@dataclass(frozen=True)
class Suggestion:
    """An experiment to make next.

    Parameters
    ----------
    point
        Values of the parameters, by name.
    candidate
        Number of the candidate, counting from 0, where candidates were given.
    reason
        What it is for: a first look, to learn, or to gain.
    why
        The same as a sentence.
    table_says
        What the table's own machine predicts there, in the table's units.
    predicted, uncertainty
        Mean and standard deviation of the outcome, measurement noise aside; None before there is a model.
    chance
        Probability of being better than the best outcome so far; None before there is a model.
    """

    point: Mapping[str, Level]
    candidate: int | None
    reason: Reason
    why: str
    table_says: float
    predicted: float | None = None
    uncertainty: float | None = None
    chance: float | None = None


@dataclass(frozen=True)
class Advice:
    """Suggestions, and the state of the campaign they rest on.

    Parameters
    ----------
    suggestions
        The experiments, best first.
    measured, pending
        Numbers of trials.
    best
        Best outcome so far; None without any.
    noise
        Standard deviation of measurement noise that the model found; None before there is a model.
    verdict
        Whether the table helps, by the outcomes so far; None before there are `VERDICT_FROM` of them.
    """

    suggestions: tuple[Suggestion, ...]
    measured: int
    pending: int
    best: float | None
    noise: float | None = None
    verdict: Verdict | None = None


def suggest(
    cov: PretrainedCovariance,
    trials: Trials,
    n: int = 1,
    *,
    space: ParameterSpace | None = None,
    fixed: Mapping[str, Any] | None = None,
    candidates: np.ndarray | None = None,
    minimise: bool = False,
    form: str = "transfer",
    direction: Direction = "unknown",
    seed: int = 0,
) -> Advice:
    """Return the next experiments by expected improvement; the same input gives the same ones.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    trials
        What was tried so far, in raw units of `space`. Pending trials, and suggestions among each other, are taken
        into account by averaging over their outcomes.
    n
        Number of experiments.
    space, fixed, form
        As for `pretrained_gp`.
    candidates
        Points to choose from, (M, d) in raw units, each to be tried once; None means anywhere in the space, real
        parameters in steps of about a thousandth of their range.
    minimise
        Whether small outcomes are good.
    direction
        Until there are three outcomes, whether the table proposes points: ``"same"`` if a large table target speaks
        for a good experiment, ``"opposite"`` if a small one does, ``"unknown"`` for points that fill the space.
    seed
        Seed of candidates and draws.

    Raises
    ------
    MkboError
        If an argument is not as described, or fewer than `n` candidates are left.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise MkboError(f"n must be a whole number of at least 1, got {n!r}")
    if direction not in ("same", "opposite", "unknown"):
        raise MkboError(f"direction must be 'same', 'opposite' or 'unknown', got {direction!r}")
    frame = NamedFrame(cov, space=space, fixed=fixed, stock_columns="none")
    pool = (
        SpaceCandidates(frame.target_space, seed)
        if candidates is None
        else FiniteCandidates(frame.target_space, candidates)
    )
    table = _Table(cov, frame, pool.initial)
    best = None if not len(trials.y) else float(trials.y.min() if minimise else trials.y.max())
    advice = Advice((), len(trials.y), len(trials.pending), best)
    if len(trials.y) < FEWEST:
        return replace(advice, suggestions=tuple(_first(table, pool, trials, n, direction)))
    with manual_seed(seed):
        X, Y = torch.tensor(trials.X), torch.tensor(trials.y)[:, None]
        model = pretrained_gp(cov, X, -Y if minimise else Y, form=form, space=space, fixed=fixed)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        found = tuple(_next(model, table, pool, trials, n, minimise, seed))
    return replace(advice, suggestions=found, noise=_noise(model, X[:1]), verdict=table.verdict(trials))


class _Table:
    """What the table says of points in the target's raw units."""

    def __init__(self, cov: PretrainedCovariance, frame: NamedFrame, reference: np.ndarray) -> None:
        self.cov, self.frame = cov, frame
        self.reference = np.sort(self.standardised(reference))

    def coordinates(self, raw: np.ndarray) -> np.ndarray:
        return self.frame.transform(torch.tensor(raw)).numpy()

    def standardised(self, raw: np.ndarray) -> np.ndarray:
        return np.asarray(self.cov.fixed.standardised_decision(self.coordinates(raw)))

    def predict(self, raw: np.ndarray) -> float:
        """Return the prediction at one point (1, d) in the table's units."""
        g = float(np.asarray(self.cov.fixed.decision(self.coordinates(raw)))[0])
        return math.exp(g) if self.cov.log_target else g

    def sentence(self, raw: np.ndarray) -> str:
        below = np.searchsorted(self.reference, self.standardised(raw)[0], side="left") / len(self.reference)
        said = f"the table predicts {self.predict(raw):.4g} {self.cov.record.target}"
        return f"{said}, more than for {below:.0%} of the candidates"

    def verdict(self, trials: Trials) -> Verdict | None:
        if len(trials.y) < VERDICT_FROM or np.ptp(trials.y) == 0:
            return None
        unit = np.asarray(self.frame.target_space.to_coordinates(trials.X, "unit"))
        return judge(self.cov.fixed, Points(self.coordinates(trials.X), unit), trials.y)


def _first(
    table: _Table, pool: FiniteCandidates | SpaceCandidates, trials: Trials, n: int, direction: Direction
) -> Iterator[Suggestion]:
    """Yield points far from one another and from those tried, good ones first where the table's direction is known."""
    indices, raw = pool.untried(trials.tried, n)
    sign = {"same": 1.0, "opposite": -1.0, "unknown": 0.0}[direction]
    merit, tried = sign * table.standardised(raw), table.coordinates(trials.tried)
    for i in upper_confidence_design(merit, table.cov.kernel, table.coordinates(raw), n, present=tried):
        point = raw[i : i + 1]
        purpose = "far from other points" if direction == "unknown" else "far from other points and good by the table"
        yield Suggestion(
            pool.space.from_raw(point)[0],
            pool.number(indices[i]),
            Reason.START,
            f"{purpose}: a model needs {FEWEST} outcomes; {table.sentence(point)}",
            table.predict(point),
        )


def _next(
    model: SingleTaskGP,
    table: _Table,
    pool: FiniteCandidates | SpaceCandidates,
    trials: Trials,
    n: int,
    minimise: bool,
    seed: int,
) -> Iterator[Suggestion]:
    sign = -1.0 if minimise else 1.0
    best = float((sign * trials.y).max())
    spread = float(trials.y.std()) or 1.0
    tried, pending = trials.tried, trials.pending
    for left in range(n, 0, -1):
        acquisition = _improvement(model, best, pending, seed, spread)
        index, point = pool.best(lambda raw: _merit(acquisition, raw), tried, left)  # noqa: B023 - called at once
        tried, pending = np.concatenate([tried, point]), np.concatenate([pending, point])
        with torch.no_grad():
            posterior = model.posterior(torch.tensor(point))
        mean, deviation = posterior.mean.item(), math.sqrt(posterior.variance.item())
        chance = float(norm.cdf((mean - best) / deviation))
        reason = Reason.EXPLOIT if mean > best else Reason.EXPLORE
        said = {
            Reason.EXPLOIT: f"predicted to be better than the best so far, {sign * best:.4g}",
            Reason.EXPLORE: f"uncertain enough for a chance of {chance:.0%} to be better than {sign * best:.4g}",
        }[reason]
        yield Suggestion(
            pool.space.from_raw(point)[0],
            pool.number(index),
            reason,
            f"{said}; {table.sentence(point)}",
            table.predict(point),
            sign * mean,
            deviation,
            chance,
        )


def _improvement(
    model: SingleTaskGP, best: float, pending: np.ndarray, seed: int, spread: float
) -> AcquisitionFunction:
    if not len(pending):
        return LogExpectedImprovement(model, best_f=best)
    sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=seed)
    # The host's temperatures are in units of the outcome, and reward twins of a pending point where these are small.
    temperature = SMOOTHING * spread
    return qLogExpectedImprovement(
        model,
        best_f=best,
        sampler=sampler,
        X_pending=torch.tensor(pending),
        tau_relu=temperature,
        tau_max=temperature,
    )


def _merit(acquisition: AcquisitionFunction, raw: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        blocks = torch.tensor(raw)[:, None, :].split(512)
        return torch.cat([acquisition(block) for block in blocks]).numpy()


def _noise(model: SingleTaskGP, X: torch.Tensor) -> float:
    with torch.no_grad():
        noisy, plain = (model.posterior(X, observation_noise=flag).variance.item() for flag in (True, False))
    return math.sqrt(noisy - plain)
