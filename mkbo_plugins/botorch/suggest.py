"""The next experiments of a campaign, each with what is expected of it and why it was chosen."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.utils.sampling import manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from jaxtyping import Float
from scipy.stats import norm

from mkbo_plugins.botorch.constraints import warn_of_lost_in_target
from mkbo_plugins.botorch.improvement import noisy_improvement
from mkbo_plugins.botorch.models import pretrained_gp
from mkbo_plugins.botorch.requirements import RequiredModels
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.bayes_factor import FEWEST
from mkbo_plugins.core.spread import check_spread
from mkbo_plugins.covariance.base import Covariance, check_covariance
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.covariance.pretrained import trained
from mkbo_plugins.covariance.target import for_target
from mkbo_plugins.errors import MkboError
from mkbo_plugins.space.levels import levels_by_name
from mkbo_plugins.space.named import NamedColumns
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.suggestion.advice import Advice, Reason, Suggestion
from mkbo_plugins.suggestion.candidates import FiniteCandidates, Merit, SpaceCandidates
from mkbo_plugins.suggestion.forecast import TableForecast
from mkbo_plugins.suggestion.reasons import first_points, meeting, promise
from mkbo_plugins.tables.ranges import warn_of_units
from mkbo_plugins.tables.requirements import Required, all_met
from mkbo_plugins.tables.trials import Trials

__all__ = ["Advice", "Suggestion", "suggest"]

LARGEST_SEED = 2**32 - 1
"""Largest seed, in PyTorch and all that draws."""


def suggest(
    cov: Covariance,
    trials: Trials,
    n: int = 1,
    *,
    space: ParameterSpace | None = None,
    fixed: Mapping[str, Any] | None = None,
    candidates: Float[np.ndarray, "M d"] | None = None,
    minimise: bool = False,
    form: str = DEFAULT_FORM,
    direction: Directions = "unknown",
    noise: Float[np.ndarray, " n"] | None = None,
    required: Sequence[Required] = (),
    initial: int = FEWEST,
    judged: bool = True,
    seed: int = 0,
) -> Advice:
    """Return the next experiments by noisy expected improvement; the same input gives the same ones.

    Improvement is on what the model says of the experiments done, not on the largest value seen, which noise may have
    made (Letham et al., Bayesian Analysis 14, 495, 2019).

    Parameters
    ----------
    cov
        The pre-trained covariance.
    trials
        What was tried so far, in raw units of `space`. Pending trials, and suggestions among each other, are taken
        into account by averaging over their outcomes. Where experiments failed, improvement counts as much less as
        others are likely to fail there, see `mkbo_plugins.core.gp.feasibility.log_success`.
    n
        Number of experiments.
    space, fixed, form
        As for `pretrained_gp`.
    candidates
        Points to choose from, (M, d) in raw units, each to be tried once; None means anywhere in the space
        where its constraints are kept, real parameters in steps of about a thousandth of their range.
    minimise
        Whether small outcomes are good.
    direction
        ``"same"`` if a large table target speaks for a good experiment, ``"opposite"`` if a small one does,
        ``"unknown"`` if neither is known; of several tables, one word for all or one for each. Where it is known, the
        table proposes points until there are `initial` outcomes, and from then on directs the mean of the model, as in
        `pretrained_gp`. Where it is not, the first points fill the space, and the model leaves the sign to the
        outcomes. With ``form="stock"``, it must be unknown.
    noise
        Known standard deviations of the measured outcomes, (n,), each above 0; None fits one for all. The verdict on
        the table fits its own in any case.
    required
        Further outcomes that must keep to bounds. Each has BoTorch's own model, and improvement counts where all keep
        to them, over the experiments that do (constraints of BoTorch's acquisition function). Until one does, or a
        pending one is likely to, the experiment most likely to meet them is next. They count as soon as there is a
        model, from three outcomes on.
    initial
        Number of outcomes, at least three, from which on there is a model.
    judged
        Whether to say if the table helps, which takes as long as a suggestion.
    seed
        Seed of candidates and draws.

    Raises
    ------
    MkboError
        If an argument is not as described, or fewer than `n` candidates are left.
    """
    for name, value, least in (("n", n, 1), ("initial", initial, FEWEST), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise MkboError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if seed > LARGEST_SEED:
        raise MkboError(f"seed must be at most {LARGEST_SEED}, got {seed}")
    seed = int(seed)
    check_covariance(cov)
    _check_types(trials, candidates, required, minimise)
    cov = trained(cov)
    cov = for_target(cov, levels_by_name(space, fixed))
    cov.is_directed(direction, form)  # raises where it cannot be used
    columns = NamedColumns.of(cov.space, cov.frame, None, space, fixed)
    pool = SpaceCandidates(columns.target, seed) if candidates is None else FiniteCandidates(columns.target, candidates)
    tables = TableForecast(cov, columns, pool.initial, "points of the space" if candidates is None else "candidates")
    _check_lengths(trials, noise, required)
    check_spread(trials.y, "trials.y")
    allowed = trials.y[all_met(required, len(trials.y))]
    best = None if not len(allowed) else float(allowed.min() if minimise else allowed.max())
    advice = Advice((), len(trials.y), len(trials.pending), len(trials.failed), best)
    if len(trials.y) < initial or np.ptp(trials.y) == 0:
        warn_of_units(cov.space, {}, fixed)
        warn_of_lost_in_target(cov.space, columns.target, fixed)
        return replace(advice, suggestions=tuple(first_points(tables, pool, trials, n, direction, initial)))
    with manual_seed(seed):
        outcomes = _Outcomes.of(trials.y, minimise)
        X, Y = torch.tensor(trials.X), torch.tensor(outcomes.standardised)[:, None]
        Yvar = None if noise is None else torch.tensor((noise / outcomes.spread) ** 2)[:, None]
        model = pretrained_gp(cov, X, Y, form, train_Yvar=Yvar, space=space, fixed=fixed, direction=direction)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        models = RequiredModels.fitted(required, cov, space, fixed)
        found = tuple(_next(model, models, tables, pool, trials, n, outcomes, best, seed))
    return replace(
        advice,
        suggestions=found,
        noise=outcomes.spread * _noise(model, X[:1]),
        verdict=tables.verdict(trials, form) if judged else None,
        most_like=tables.most_like(trials) if judged else (),
        scales={name: model.covar_module.scale(name).item() for name in cov.form(form).hyperparameters},
    )


@dataclass(frozen=True)
class _Outcomes:
    """Outcomes on a scale without a unit, as hosts cut off variances below 1e-10, the larger the better."""

    standardised: Float[np.ndarray, " n"]
    centre: float
    spread: float
    sign: float

    @classmethod
    def of(cls, y: Float[np.ndarray, " n"], minimise: bool) -> "_Outcomes":
        centre, spread, sign = float(y.mean()), float(y.std(ddof=1)), -1.0 if minimise else 1.0
        return cls(sign * (y - centre) / spread, centre, spread, sign)

    def in_units(self, value: float) -> float:
        return self.centre + self.sign * self.spread * value

    def from_units(self, value: float) -> float:
        return self.sign * (value - self.centre) / self.spread


def _check_types(trials: Any, candidates: Any, required: Any, minimise: Any) -> None:
    if not isinstance(trials, Trials):
        raise MkboError(f"trials must be Trials, got {type(trials).__name__}; Trials.none(space) are none yet")
    if candidates is not None and not (isinstance(candidates, np.ndarray) and candidates.ndim == 2):
        raise MkboError(f"candidates must be an array of rows, got {type(candidates).__name__}; space.to_raw makes one")
    if not isinstance(required, (list, tuple)) or not all(isinstance(one, Required) for one in required):
        raise MkboError(f"required must be a list of Required, got {required!r}")
    if not isinstance(minimise, (bool, np.bool_)):
        raise MkboError(f"minimise must be True or False, got {minimise!r}")


def _check_lengths(trials: Trials, noise: Float[np.ndarray, " n"] | None, required: Sequence[Required]) -> None:
    given = {"noise": noise} | {f"values of {one.requirement.outcome!r}": one.of_trials for one in required}
    for what, values in given.items():
        if values is not None and np.shape(values) != trials.y.shape:
            raise MkboError(
                f"{what} must be {len(trials.y)}, one for each measured trial, got shape {np.shape(values)}"
            )
    if noise is not None and not (np.isfinite(noise).all() and (np.asarray(noise) > 0).all()):
        raise MkboError(f"noise must hold standard deviations above 0, got {np.asarray(noise).tolist()}")


def _next(
    model: SingleTaskGP,
    required: RequiredModels,
    tables: TableForecast,
    pool: FiniteCandidates | SpaceCandidates,
    trials: Trials,
    n: int,
    outcomes: _Outcomes,
    best: float | None,
    seed: int,
) -> Iterator[Suggestion]:
    joint, kept = required.beside(model)
    tried, pending = trials.tried, trials.pending
    log_success = tables.log_success(trials)
    for left in range(n, 0, -1):
        if best is None and not required.any_expected(pending):
            merit = required.log_chance(pending)
        else:
            merit = noisy_improvement(joint, trials.X, pending, seed, **kept)
        merit = _likely(merit, log_success)
        index, point = pool.best(merit, tried, left)
        tried, pending = np.concatenate([tried, point]), np.concatenate([pending, point])
        with torch.no_grad():
            posterior = model.posterior(torch.tensor(point))
        mean, deviation = posterior.mean.item(), math.sqrt(posterior.variance.item())
        meets = required.chances(point)
        # Without an experiment that meets all requirements, none is to be beaten.
        lead = None if best is None else mean - outcomes.from_units(best)
        chance = None if lead is None else float(norm.cdf(lead / deviation))
        reason = Reason.EXPLOIT if lead is not None and lead > 0 else Reason.EXPLORE
        why = meeting(meets) if best is None or chance is None else promise(reason, chance, best)
        yield replace(
            tables.suggestion(pool, index, point, reason, why),
            predicted=outcomes.in_units(mean),
            uncertainty=outcomes.spread * deviation,
            chance=chance,
            meets=meets,
        )


def _likely(log_improvement: Merit, log_success: Merit) -> Merit:
    """Return the logarithm of the improvement that is expected of experiments that may fail."""
    return lambda raw: log_improvement(raw) + log_success(raw)


def _noise(model: SingleTaskGP, X: Float[torch.Tensor, "n d"]) -> float:
    with torch.no_grad():
        noisy, plain = (model.posterior(X, observation_noise=flag).variance.item() for flag in (True, False))
    return math.sqrt(noisy - plain)
