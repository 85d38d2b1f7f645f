"""Noisy expected improvement at points to choose among."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.acquisition.utils import compute_best_feasible_objective, get_infeasible_cost
from botorch.models.model import Model
from botorch.sampling import SobolQMCNormalSampler
from jaxtyping import Float
from torch import Tensor

SAMPLES = 256
"""Draws of the function at experiments done and pending, over which improvement is averaged."""

SMOOTHING = 1e-6
"""Temperatures at which improvements over pending outcomes are smoothed: the host's, which are larger, reward twins of
pending points. One is in units of the standardised outcome, one has none."""

BLOCK = 512
"""Points evaluated at a time."""


class _NoisyImprovement(qLogNoisyExpectedImprovement):
    """BoTorch's, which looks for a lower bound of the outcome among the points done, not at any numbers between them.

    Not all such numbers are points of a space: a level index may be out of range.
    """

    def _compute_best_feasible_objective(
        self, samples: Float[Tensor, "... q outcomes"], obj: Float[Tensor, "... q"]
    ) -> Float[Tensor, "..."]:
        lowest = None
        if self._constraints is not None:
            with torch.no_grad():
                lowest = -get_infeasible_cost(self.X_baseline, self.model, self.objective).amax()
        return compute_best_feasible_objective(samples, obj, self._constraints, infeasible_obj=lowest)


def noisy_improvement(
    model: Model, done: Float[np.ndarray, "n d"], pending: Float[np.ndarray, "p d"], seed: int, **kept: Any
) -> Callable[[Float[np.ndarray, "M d"]], Float[np.ndarray, " M"]]:
    """Return a function from points (M, d) to the logarithms of the expected improvement there, (M,).

    Improvement is on what the model says of the experiments done, not on the largest value seen, which noise may have
    made (Letham et al., Bayesian Analysis 14, 495, 2019).

    Parameters
    ----------
    model
        Model of a standardised outcome, the larger the better.
    done, pending
        Points with an outcome and points whose outcome is awaited, in the columns that the model gets.
    seed
        Seed of the draws.
    **kept
        ``objective`` and ``constraints`` of a model with further outcomes, as for BoTorch's acquisition function.
    """
    acquisition = _NoisyImprovement(
        model,
        X_baseline=torch.tensor(done),
        sampler=SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=seed),
        X_pending=torch.tensor(pending) if len(pending) else None,
        tau_relu=SMOOTHING,
        tau_max=SMOOTHING,
        **kept,
    )

    def merit(points: Float[np.ndarray, "M d"]) -> Float[np.ndarray, " M"]:
        with torch.no_grad():
            blocks = torch.tensor(points)[:, None, :].split(BLOCK)
            return torch.cat([acquisition(block) for block in blocks]).numpy()

    return merit
