"""Positive parameters that are fitted through their logarithms."""

from typing import Any

import torch
from gpytorch import Module
from gpytorch.constraints import GreaterThan
from torch import Tensor


def fit_logarithm(module: Module, name: str) -> None:
    """Make a positive parameter of a GPyTorch module be fitted through the logarithm of its excess over its bound.

    Its value, lower bound and prior stay, and so does the optimum. BoTorch fits length scales and noise in their own
    units, where the ridges between them and the scales of a covariance take an optimiser several times more steps.

    Parameters
    ----------
    module
        Kernel or noise model.
    name
        Name of the parameter, such as ``"lengthscale"`` of a module with a constraint on ``raw_lengthscale``.
    """
    value = getattr(module, name).detach().clone()
    lower = module.constraint_for_parameter_name(f"raw_{name}").lower_bound.item()
    module.register_constraint(f"raw_{name}", LogarithmAbove(lower))
    module.initialize(**{name: value})


class LogarithmAbove(GreaterThan):
    """A lower bound for a raw value that is the logarithm of the excess over it.

    It leaves a mark in state dicts, so that they are not mixed up with those of parameters in their own units.
    """

    def __init__(self, lower_bound: float) -> None:
        super().__init__(lower_bound, transform=torch.exp, inv_transform=torch.log)

    def get_extra_state(self) -> Tensor:
        """Return the mark."""
        return torch.ones((), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Accept the mark, whose presence is what counts."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        # GPyTorch never misses a constraint in a state dict.
        if f"{prefix}_extra_state" not in state_dict:
            *_, messages = args
            messages.append(
                f"{prefix.rstrip('.')}: the state holds the parameter in its own units where this model has its "
                "logarithm; set the parameter's value instead of loading it"
            )
