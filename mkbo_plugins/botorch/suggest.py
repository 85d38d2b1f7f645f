"""The next experiments of a campaign, each with what is expected of it and why it was chosen."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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

from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.botorch.models import pretrained_gp
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.bayes_factor import FEWEST, Verdict, judge
from mkbo_plugins.core.gp.design import upper_confidence_design
from mkbo_plugins.core.gp.form_model import Points
from mkbo_plugins.covariance.base import Covariance, Directions, direction_signs
from mkbo_plugins.covariance.pretrained import TrainedCovariance, trained
from mkbo_plugins.errors import MkboError
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.suggestion.advice import VERDICT_FROM, Advice, Reason, Suggestion
from mkbo_plugins.suggestion.candidates import FiniteCandidates, SpaceCandidates
from mkbo_plugins.tables.ranges import warn_of_units
from mkbo_plugins.tables.trials import Trials

SAMPLES = 256
"""Draws of the outcomes of pending experiments, over which improvement is averaged."""

SMOOTHING = 1e-6
"""Temperatures at which improvements over pending outcomes are smoothed: the host's, which are larger, reward twins of
pending points. One is in units of the standardised outcome, one has none."""

HOPELESS = 0.005
"""Chance below which an experiment is not likely to beat the best so far."""


def suggest(
    cov: Covariance,
    trials: Trials,
    n: int = 1,
    *,
    space: ParameterSpace | None = None,
    fixed: Mapping[str, Any] | None = None,
    candidates: np.ndarray | None = None,
    minimise: bool = False,
    form: str = DEFAULT_FORM,
    direction: Directions = "unknown",
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
        for a good experiment, ``"opposite"`` if a small one does, ``"unknown"`` for points that fill the space;
        of several tables, one word for all or one for each.
    seed
        Seed of candidates and draws.

    Raises
    ------
    MkboError
        If an argument is not as described, or fewer than `n` candidates are left.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise MkboError(f"n must be a whole number of at least 1, got {n!r}")
    cov = trained(cov)
    direction_signs(direction, cov.tables)
    frame = NamedFrame(cov, space=space, fixed=fixed, stock_columns="none")
    pool = (
        SpaceCandidates(frame.target_space, seed)
        if candidates is None
        else FiniteCandidates(frame.target_space, candidates)
    )
    tables = _Tables(cov, frame, pool.initial, "points of the space" if candidates is None else "candidates")
    best = None if not len(trials.y) else float(trials.y.min() if minimise else trials.y.max())
    advice = Advice((), len(trials.y), len(trials.pending), best)
    if len(trials.y) < FEWEST or np.ptp(trials.y) == 0:
        warn_of_units(cov.space, {}, fixed)
        return replace(advice, suggestions=tuple(_first(tables, pool, trials, n, direction)))
    with manual_seed(seed):
        outcomes = _Outcomes.of(trials.y, minimise)
        X, Y = torch.tensor(trials.X), torch.tensor(outcomes.standardised)[:, None]
        model = pretrained_gp(cov, X, Y, form=form, space=space, fixed=fixed)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        found = tuple(_next(model, tables, pool, trials, n, outcomes, seed))
    return replace(
        advice,
        suggestions=found,
        noise=outcomes.spread * _noise(model, X[:1]),
        verdict=tables.verdict(trials),
        scales={name: model.covar_module.scale(name).item() for name in cov.form(form).hyperparameters},
    )


@dataclass(frozen=True)
class _Outcomes:
    """Outcomes on a scale without a unit, as hosts cut off variances below 1e-10, the larger the better."""

    standardised: np.ndarray
    centre: float
    spread: float
    sign: float

    @classmethod
    def of(cls, y: np.ndarray, minimise: bool) -> "_Outcomes":
        centre, spread, sign = float(y.mean()), float(y.std(ddof=1)), -1.0 if minimise else 1.0
        return cls(sign * (y - centre) / spread, centre, spread, sign)

    def in_units(self, value: float) -> float:
        return self.centre + self.sign * self.spread * value


class _Tables:
    """What the tables say of points in the target's raw units."""

    def __init__(self, cov: TrainedCovariance, frame: NamedFrame, reference: np.ndarray, called: str) -> None:
        self.cov, self.frame, self.called = cov, frame, called
        self.reference = [np.sort(values) for values in self.standardised(reference)]

    def coordinates(self, raw: np.ndarray) -> np.ndarray:
        return self.frame.transform(torch.tensor(raw)).numpy()

    def standardised(self, raw: np.ndarray) -> list[np.ndarray]:
        """Return the standardised decision function of each table, (n,)."""
        views = self.cov.fixed.views(self.coordinates(raw))
        return [np.asarray(fixed.standardised_decision(Z)) for fixed, Z in views]

    def predict(self, raw: np.ndarray) -> tuple[float, ...]:
        """Return the predictions at one point (1, d) in each table's units."""
        views = self.cov.fixed.views(self.coordinates(raw))
        return tuple(
            float(member.predict_at_coordinates(Z)[0]) for member, (_, Z) in zip(self.cov.members, views, strict=True)
        )

    def sentence(self, raw: np.ndarray, predictions: tuple[float, ...]) -> str:
        """Return the predictions at one point (1, d) in words."""
        parts = []
        for predicted, member, (value,), reference in zip(
            predictions, self.cov.members, self.standardised(raw), self.reference, strict=True
        ):
            below = np.searchsorted(reference, value, side="left") / len(reference)
            target = member.record.target
            said = f"the table predicts {predicted:.4g} {target}"
            if member.record.task == "classification":
                label = int(predicted > 0)
                name = repr(member.record.classes[label]) if member.record.classes else f"label {2 * label - 1}"
                said = f"the table's decision value for {target} is {predicted:.2g}, which speaks for {name}"
            parts.append(f"{said}, more than for {below:.0%} of the {self.called}")
        return "; ".join(parts)

    def verdict(self, trials: Trials) -> Verdict | None:
        if len(trials.y) < VERDICT_FROM:
            return None
        unit = np.asarray(self.frame.target_space.to_coordinates(trials.X, "unit"))
        return judge(self.cov.fixed, Points(self.coordinates(trials.X), unit), trials.y)


def _first(
    tables: _Tables, pool: FiniteCandidates | SpaceCandidates, trials: Trials, n: int, direction: Directions
) -> Iterator[Suggestion]:
    """Yield points far from one another and from those tried, good ones first where the table's direction is known."""
    indices, raw = pool.untried(trials.tried, n)
    cov, Z = tables.cov, tables.coordinates(raw)
    merit, tried = cov.merit(Z, direction), tables.coordinates(trials.tried)
    known = any(direction_signs(direction, cov.tables))
    purpose = f"far from other points{' and good by the table' if known else ''}"
    lacking = (
        f"a model needs {FEWEST} outcomes"
        if len(trials.y) < FEWEST
        else "all outcomes so far are equal, so that no model can learn from them yet"
    )
    for i in upper_confidence_design(merit, cov.fixed.likeness, Z, n, present=tried):
        point = raw[i : i + 1]
        says = tables.predict(point)
        yield Suggestion(
            pool.space.from_raw(point)[0],
            pool.number(indices[i]),
            Reason.START,
            f"{purpose}: {lacking}; {tables.sentence(point, says)}",
            says,
        )


def _next(
    model: SingleTaskGP,
    tables: _Tables,
    pool: FiniteCandidates | SpaceCandidates,
    trials: Trials,
    n: int,
    outcomes: _Outcomes,
    seed: int,
) -> Iterator[Suggestion]:
    best = float(outcomes.standardised.max())
    so_far = outcomes.in_units(best)
    tried, pending = trials.tried, trials.pending
    for left in range(n, 0, -1):
        acquisition = _improvement(model, best, pending, seed)
        index, point = pool.best(lambda raw: _merit(acquisition, raw), tried, left)  # noqa: B023 - called at once
        tried, pending = np.concatenate([tried, point]), np.concatenate([pending, point])
        with torch.no_grad():
            posterior = model.posterior(torch.tensor(point))
        mean, deviation = posterior.mean.item(), math.sqrt(posterior.variance.item())
        chance = float(norm.cdf((mean - best) / deviation))
        reason = Reason.EXPLOIT if mean > best else Reason.EXPLORE
        said = {
            Reason.EXPLOIT: f"predicted to be better than the best so far, {so_far:.4g}",
            Reason.EXPLORE: f"uncertain enough for a chance of {chance:.0%} to be better than {so_far:.4g}",
        }[reason]
        if chance < HOPELESS:
            said = f"nothing left that is likely to beat the best so far, {so_far:.4g}; you may stop"
        says = tables.predict(point)
        yield Suggestion(
            pool.space.from_raw(point)[0],
            pool.number(index),
            reason,
            f"{said}; {tables.sentence(point, says)}",
            says,
            outcomes.in_units(mean),
            outcomes.spread * deviation,
            chance,
        )


def _improvement(model: SingleTaskGP, best: float, pending: np.ndarray, seed: int) -> AcquisitionFunction:
    if not len(pending):
        return LogExpectedImprovement(model, best_f=best)
    sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=seed)
    return qLogExpectedImprovement(
        model,
        best_f=best,
        sampler=sampler,
        X_pending=torch.tensor(pending),
        tau_relu=SMOOTHING,
        tau_max=SMOOTHING,
    )


def _merit(acquisition: AcquisitionFunction, raw: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        blocks = torch.tensor(raw)[:, None, :].split(512)
        return torch.cat([acquisition(block) for block in blocks]).numpy()


def _noise(model: SingleTaskGP, X: torch.Tensor) -> float:
    with torch.no_grad():
        noisy, plain = (model.posterior(X, observation_noise=flag).variance.item() for flag in (True, False))
    return math.sqrt(noisy - plain)
