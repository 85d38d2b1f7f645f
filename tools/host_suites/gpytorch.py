"""GPyTorch's own tests, with a pre-trained kernel in place of its `RBFKernel`.

Example: python -m tools.host_suites.gpytorch CHECKOUT, a folder with GPyTorch's ``test`` at the installed version.
"""

import sys
from typing import Any

import gpytorch.kernels
import pytest
import torch

from mkbo_plugins.botorch import NamedFrame, PretrainedKernel
from tools.host_suites.common import Suite, covariance, in_place, main

FILES = (
    "test/kernels/test_additive_and_product_kernels.py",
    "test/kernels/test_grid_interpolation_kernel.py",
    "test/kernels/test_grid_kernel.py",
    "test/kernels/test_inducing_point_kernel.py",
    "test/kernels/test_newton_girard_additive_kernel.py",
    "test/kernels/test_rbf_kernel.py",
    "test/kernels/test_scale_kernel.py",
    "test/examples/test_batch_gp_regression.py",
    "test/examples/test_batch_multitask_gp_regression.py",
    "test/examples/test_fixed_noise_fanatasy_updates.py",
    "test/examples/test_hadamard_multitask_gp_regression.py",
    "test/examples/test_independent_multitask_gp_regression.py",
    "test/examples/test_missing_data.py",
    "test/examples/test_model_list_gp_regression.py",
    "test/examples/test_sgpr_regression.py",
    "test/examples/test_simple_gp_regression.py",
    "test/examples/test_simple_gp_classification.py",
)

KNOWN = {
    "a pre-trained kernel is not stationary, and grids ask for one that is": (
        "*::test_is_stationary",
        "*::test_stationary",
        "*TestGridKernel::*",
        "*TestGridInterpolationKernel::*",
    ),
    "it couples its columns, and has no last_dim_is_batch, which GPyTorch will drop": (
        "*Kernel::test_ard",
        "*Kernel::test_ard_batch",
        "*TestNewtonGirardAdditiveKernel::*",
    ),
    "they read raw_lengthscale or give it a prior, but only the stock covariance inside has it": (
        "*radial_basis_function_gradient",
        "*TestSimpleGPRegression::test_prior",
    ),
    "its 50 steps of Adam, on noise without a seed, are few with one more scale: errors of .1, and .01 after 75": (
        "*TestBatchGPRegression::test_train_on_batch_test_on_batch",
    ),
}


STOCK = gpytorch.kernels.RBFKernel


class InPlaceKernel(PretrainedKernel):
    """A pre-trained kernel of as many columns as it meets, with the arguments of `RBFKernel`.

    It begins at the limit in which the data refuse the table, where it equals `RBFKernel`, so that values are tested.
    """

    def __init__(
        self,
        ard_num_dims: int | None = None,
        batch_shape: torch.Size | None = None,
        active_dims: Any = None,
        **kwargs: Any,
    ) -> None:
        columns, batch_shape = ard_num_dims or 1, torch.Size(batch_shape or ())
        super().__init__(covariance(columns), "product", columns, batch_shape=batch_shape, active_dims=active_dims)
        self.stock = STOCK(ard_num_dims=ard_num_dims, batch_shape=batch_shape, **kwargs)
        self.set_scale("feature_scale", 1e20)

    def forward(self, x1: Any, x2: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the covariance, by a table of as many columns as the inputs have."""
        columns = x1.shape[-1]
        self.cov, self.frame_dims, self.stock_dims = covariance(columns), columns, columns
        self.frame = NamedFrame(self.cov)
        return super().forward(x1, x2, *args, **kwargs)


def pytest_configure(config: pytest.Config) -> None:
    """Put ours in place."""
    if in_place():
        gpytorch.kernels.RBFKernel = InPlaceKernel


if __name__ == "__main__":
    sys.exit(main(Suite("gpytorch", "tools.host_suites.gpytorch", FILES, KNOWN), sys.argv[1:]))
