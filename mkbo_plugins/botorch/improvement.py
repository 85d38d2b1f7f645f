"""Noisy expected improvement at points to choose among."""

from collections.abc import Callable

import numpy as np
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.models.model import Model
from botorch.sampling import SobolQMCNormalSampler
from jaxtyping import Float

SAMPLES = 256
"""Draws of the function at experiments done and pending, over which improvement is averaged."""

SMOOTHING = 1e-6
"""Temperatures at which improvements over pending outcomes are smoothed: the host's, which are larger, reward twins of
pending points. One is in units of the standardised outcome, one has none."""

BLOCK = 512
"""Points evaluated at a time."""


def noisy_improvement(
    model: Model, done: Float[np.ndarray, "n d"], pending: Float[np.ndarray, "p d"], seed: int
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
    """
    acquisition = qLogNoisyExpectedImprovement(
        model,
        X_baseline=torch.tensor(done),
        sampler=SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=seed),
        X_pending=torch.tensor(pending) if len(pending) else None,
        tau_relu=SMOOTHING,
        tau_max=SMOOTHING,
    )

    def merit(points: Float[np.ndarray, "M d"]) -> Float[np.ndarray, " M"]:
        with torch.no_grad():
            blocks = torch.tensor(points)[:, None, :].split(BLOCK)
            return torch.cat([acquisition(block) for block in blocks]).numpy()

    return merit
