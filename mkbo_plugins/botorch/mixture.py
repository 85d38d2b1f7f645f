"""GPyTorch kernel of a kernel mixture fitted to a table."""

import math
from typing import Any

import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from torch import Tensor

from mkbo_plugins.core.forms import HYPERPARAMETERS
from mkbo_plugins.core.mixture import KernelMixture
from mkbo_plugins.errors import KernelError


class MixtureKernel(Kernel):
    """A `KernelMixture` on frame coordinates, its parameters fixed, times a learned output scale.

    Parameters
    ----------
    mixture
        The mixture.
    **kwargs
        ``batch_shape`` and ``active_dims`` of `gpytorch.kernels.Kernel`.
    """

    has_lengthscale = False

    def __init__(self, mixture: KernelMixture, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mixture = mixture
        scale = HYPERPARAMETERS["output_scale"]
        self.register_parameter(
            "raw_output_scale", torch.nn.Parameter(torch.full(self._batch_shape, float(scale.log_mean)))
        )
        # Raw values are logarithms; without a transform the optimiser itself keeps them between the bounds.
        self.register_constraint(
            "raw_output_scale", Interval(math.log(scale.lower), math.log(scale.upper), transform=None)
        )

    @property
    def output_scale(self) -> Tensor:
        """The learned scale, of the batch shape."""
        return self.raw_output_scale.exp()

    @property
    def is_stationary(self) -> bool:
        """Whether the covariance depends on differences of inputs only: always."""
        return True

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False, **params: Any
    ) -> Tensor:
        """Return the covariance (..., n, n'), or its diagonal (..., n) when `diag`."""
        if last_dim_is_batch:
            raise KernelError("MixtureKernel measures distance in all coordinates and has no last_dim_is_batch mode")
        if diag:
            return self.output_scale[..., None] * self.mixture(x1, x2)
        return self.output_scale[..., None, None] * self.mixture.gram(x1, x2)
