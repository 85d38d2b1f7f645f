"""One optimisation campaign over a list of candidates, with BoTorch's log expected improvement."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins.botorch import pretrained_gp
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
    """Maximise an outcome over candidates, none tried twice.

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
        Seed of PyTorch's generator, which restarts of a failed fit draw from.
    """
    torch.manual_seed(seed)
    X = torch.as_tensor(candidates, dtype=torch.double)
    indices = list(start)
    values = [evaluate(index) for index in indices]
    for _ in range(trials):
        Y = torch.tensor(values, dtype=torch.double)[:, None]
        model = pretrained_gp(cov, X[indices], Y, form=form)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = LogExpectedImprovement(model, best_f=Y.max())
        untried = np.setdiff1d(np.arange(len(candidates)), indices)
        with torch.no_grad():
            merit = acquisition(X[untried][:, None, :])
        indices.append(int(untried[int(merit.argmax())]))
        values.append(evaluate(indices[-1]))
    return Campaign(tuple(indices), tuple(values))
