"""Models of further outcomes that must keep to a bound, beside the model of the outcome that is optimised."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.acquisition.objective import GenericMCObjective
from botorch.exceptions import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from jaxtyping import Float
from linear_operator.utils.cholesky import psd_safe_cholesky
from scipy.stats import norm
from torch import Tensor

from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.core.spread import check_spread
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.requirements import Required

SMALLEST_VARIANCE = 1e-10
"""Variances below it are rounding, as in the host."""


@dataclass(frozen=True, eq=False)
class RequiredModels:
    """Fitted models of required outcomes, each scaled so that 0 is its bound and positive values meet it.

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
            # Where none meets it, values vary over the distance to the bound at least, or no experiment could meet it.
            unit = max(float(margin.std(ddof=1)), -float(margin.max())) or abs(float(margin[0])) or 1.0
            Y = torch.tensor(margin / unit)[:, None]
            frame = NamedFrame(cov, space=space, fixed=fixed, frame_columns=False, stock_columns="all")
            # Standardised once more, outcomes that differ little would be certain to differ little everywhere.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InputDataWarning)
                model = SingleTaskGP(torch.tensor(one.X), Y, input_transform=frame, outcome_transform=None)
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
        return tuple(float(np.exp(_log_chance(model, point, point[:0])[0])) for model in self.models)

    def any_expected(self, points: Float[np.ndarray, "p d"]) -> bool:
        """Return whether some point is more likely than not to meet each requirement."""
        least = [_log_chance(model, points, points[:0]) for model in self.models]
        return bool((np.min(least, axis=0) >= np.log(0.5)).any())

    def log_chance(
        self, pending: Float[np.ndarray, "p d"]
    ) -> Callable[[Float[np.ndarray, "M d"]], Float[np.ndarray, " M"]]:
        """Return a function from points (M, d) to the logarithm of the probability that all requirements are met, (M,).

        It is what to maximise until an experiment has met them (Gelbart, Snoek and Adams, UAI 2014): exact in the far
        tail, where no draw of an acquisition function meets them and it tells no point from another. Pending points
        count as if their outcomes were as expected.
        """
        return lambda points: np.sum([_log_chance(model, points, pending) for model in self.models], axis=0)


def _log_chance(
    model: SingleTaskGP, points: Float[np.ndarray, "M d"], pending: Float[np.ndarray, "p d"]
) -> Float[np.ndarray, " M"]:
    """Return the logarithm of the probability that the outcome is above 0, (M,), given expected values at others."""
    if not len(points):
        return np.zeros(0)
    inputs = torch.tensor(points)[:, None, :]
    with torch.no_grad():
        joint: Any = model.posterior(torch.cat([inputs, torch.tensor(pending).expand(len(points), -1, -1)], dim=1))
        mean, covariance = joint.mean[:, 0, 0], joint.distribution.covariance_matrix
        variance = covariance[:, 0, 0]
        if len(pending):
            known = psd_safe_cholesky(covariance[:, 1:, 1:])
            weights = torch.linalg.solve_triangular(known, covariance[:, 1:, :1], upper=False)
            variance = variance - weights.square().sum((1, 2))
        deviation = variance.clamp_min(SMALLEST_VARIANCE).sqrt()
    return norm.logcdf((mean / deviation).numpy())


def _first_output(samples: Tensor, X: Tensor | None = None) -> Tensor:
    return samples[..., 0]


def _violation(output: int) -> Callable[[Tensor], Tensor]:
    """Return a function from samples (..., m) to what is negative where an output meets its requirement."""
    return lambda samples: -samples[..., output]
