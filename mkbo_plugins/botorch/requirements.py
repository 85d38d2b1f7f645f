"""Models of further outcomes that must keep to a bound, beside the model of the outcome that is optimised."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.acquisition.objective import GenericMCObjective
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from jaxtyping import Float
from scipy.stats import norm
from torch import Tensor

from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.core.spread import check_spread
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.requirements import Required


@dataclass(frozen=True, eq=False)
class RequiredModels:
    """Fitted models of required outcomes, each standardised so that 0 is its bound and positive values meet it.

    Parameters
    ----------
    models
        A model for each requirement.
    """

    models: tuple[SingleTaskGP, ...]

    @classmethod
    def fitted(
        cls,
        required: Sequence[Required],
        cov: Covariance,
        space: ParameterSpace | None,
        fixed: Mapping[str, Any] | None,
    ) -> "RequiredModels":
        """Return BoTorch's own model for each requirement, on the inputs of the pre-trained one.

        Parameters
        ----------
        required
            The requirements with their measured values.
        cov, space, fixed
            As for `NamedFrame`; of the covariance only the parameters count.
        """
        models = []
        for one in required:
            check_spread(one.y, f"outcome {one.requirement.outcome!r}")
            margin = (one.y - one.requirement.bound) * (1.0 if one.requirement.at_least else -1.0)
            # Where all values are equal, how far they are from the bound is the only unit there is.
            unit = float(margin.std(ddof=1)) or abs(float(margin[0])) or 1.0
            Y = torch.tensor(margin / unit)[:, None]
            frame = NamedFrame(cov, space=space, fixed=fixed, frame_columns=False, stock_columns="all")
            model = SingleTaskGP(torch.tensor(one.X), Y, input_transform=frame)
            models.append(fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model)).model)
        return cls(tuple(models))

    def beside(self, model: SingleTaskGP) -> tuple[Any, dict[str, Any]]:
        """Return a joint model and what an acquisition function needs to keep to the requirements."""
        if not self.models:
            return model, {}
        kept = {
            "objective": GenericMCObjective(_first_output),
            "constraints": [_violation(1 + i) for i in range(len(self.models))],
        }
        return ModelListGP(model, *self.models), kept

    def chances(self, point: Float[np.ndarray, "1 d"]) -> tuple[float, ...]:
        """Return the probability that each requirement is met at a point (1, d)."""
        found = []
        for model in self.models:
            with torch.no_grad():
                posterior = model.posterior(torch.tensor(point))
            found.append(float(norm.cdf(posterior.mean.item() / math.sqrt(posterior.variance.item()))))
        return tuple(found)


def _first_output(samples: Tensor, X: Tensor | None = None) -> Tensor:
    return samples[..., 0]


def _violation(output: int) -> Callable[[Tensor], Tensor]:
    """Return a function from samples (..., m) to what is negative where an output meets its requirement."""
    return lambda samples: -samples[..., output]
