"""One optimisation campaign over a list of candidates, with BoTorch's noisy expected improvement."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins.botorch import pretrained_gp
from mkbo_plugins.botorch.improvement import noisy_improvement
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.experiments.record import Campaign


def run_campaign(
    cov: PretrainedCovariance,
    form: str,
    candidates: np.ndarray,
    evaluate: Callable[[int], float],
    start: Sequence[int],
    trials: int,
    seed: int,
) -> Campaign:
    """Maximise an outcome over candidates by noisy expected improvement, none tried twice.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    form
        Covariance model, as `pretrained_gp` names them; ``"stock"`` runs BoTorch's own.
    candidates
        Raw points, (N, number of parameters), in the order of the covariance's space.
    evaluate
        Function from a candidate's index to its outcome, larger being better.
    start
        Indices of the starting points.
    trials
        Number of trials after the starting points.
    seed
        Seed of the draws of the acquisition function, and of PyTorch's generator, which restarts of a failed fit use.
    """
    torch.manual_seed(seed)
    indices = list(start)
    values = [evaluate(index) for index in indices]
    for _ in range(trials):
        done = candidates[indices]
        standardised = (np.array(values) - np.mean(values)) / (np.std(values) or 1.0)
        model = pretrained_gp(cov, torch.tensor(done), torch.tensor(standardised)[:, None], form=form)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        untried = np.setdiff1d(np.arange(len(candidates)), indices)
        merit = noisy_improvement(model, done, candidates[:0], seed)(candidates[untried])
        indices.append(int(untried[int(merit.argmax())]))
        values.append(evaluate(indices[-1]))
    return Campaign(tuple(indices), tuple(values))
