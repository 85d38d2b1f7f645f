"""BoTorch's own tests, with pre-trained models in place of `SingleTaskGP` and of the covariance of other models.

Example: python -m tools.host_suites.botorch CHECKOUT, a folder with BoTorch's ``test`` at the installed version.
"""

import sys
from typing import Any

import botorch.models
import botorch.utils.test_helpers
import pytest
import torch
from botorch.models import gp_regression
from botorch.utils.types import DEFAULT
from torch import Tensor

from mkbo_plugins.botorch import NamedFrame, PretrainedKernel
from mkbo_plugins.botorch.models import LogNoiseGP
from tools.host_suites.common import Suite, covariance, in_place, main

FILES = (
    "test/models/test_gp_regression.py",
    "test/models/test_gpytorch.py",
    "test/models/test_model_list_gp_regression.py",
    "test/models/test_multitask.py",
    "test/models/test_relevance_pursuit.py",
    "test/test_cross_validation.py",
    "test/test_end_to_end.py",
    "test/test_fit.py",
    "test/sampling/pathwise",
    "test/generation/test_sampling.py",
    "test/generation/test_gen.py",
    "test/acquisition/test_cached_cholesky.py",
    "test/acquisition/test_decoupled.py",
    "test/acquisition/test_fixed_feature.py",
    "test/acquisition/test_integration.py",
    "test/acquisition/test_joint_entropy_search.py",
    "test/acquisition/test_knowledge_gradient.py",
    "test/acquisition/test_logei.py",
    "test/acquisition/test_max_value_entropy_search.py",
    "test/acquisition/test_monte_carlo.py",
    "test/acquisition/test_multi_step_lookahead.py",
    "test/acquisition/test_predictive_entropy_search.py",
    "test/acquisition/test_prior_guided.py",
    "test/acquisition/test_proximal.py",
    "test/acquisition/test_thompson_sampling.py",
    "test/acquisition/test_utils.py",
    "test/acquisition/multi_objective/test_hypervolume_knowledge_gradient.py",
    "test/acquisition/multi_objective/test_joint_entropy_search.py",
    "test/acquisition/multi_objective/test_logei.py",
    "test/acquisition/multi_objective/test_max_value_entropy_search.py",
    "test/acquisition/multi_objective/test_parego.py",
    "test/acquisition/multi_objective/test_predictive_entropy_search.py",
    "test/optim/closures",
    "test/optim/test_fit.py",
    "test/optim/test_homotopy.py",
    "test/optim/test_initializers.py",
    "test/optim/utils",
    "test/utils/test_low_rank.py",
)

KNOWN = {
    "they ask whether the kernel is an RBFKernel, which a pre-trained one is not, or for its prior; the rest passes": (
        "*GP*::test_gp",
        "*TestModelListGP::test_ModelListGP*",
        "*TestMultiTaskGP::test_MultiTaskGP",
        "*TestMultiTaskGP::test_MultiTaskGP_single_output",
        "*TestKroneckerMultiTaskGP::test_KroneckerMultiTaskGP_default",
        "*TestFitFallback::test_*",
    ),
    "they take the first entry of every tensor of a state, also of the fingerprint, which is refused then": (
        "*GP*::test_condition_on_observations",
    ),
    "they load a state with the parameters of RBFKernel, which are not those of a pre-trained kernel": (
        "*TestLoadStateDict::test_load_state_dict_assign_parameter",
        "*TestQNoisyExpectedImprovement::test_cache_root",
        "*TestQLogNoisyExpectedImprovement::test_cache_root",
    ),
    "they read raw_lengthscale, which only the stock covariance inside has": (
        "*TestSampleAllPriors::test_sample_all_priors",
    ),
    "it asks for no gradient where all points are one, as of a stationary covariance, which a pre-trained one is not": (
        "*TestRobustGP::test_basic_relevance_pursuit_module",
    ),
    "it counts the outliers that are added after fits of two steps, which depend on the model": (
        "*TestRobustGP::test_robust_relevance_pursuit_single_task_gp",
    ),
    "they ask for raw noise above 123, which is its logarithm in ours: e^123 is infinite in single precision": (
        "*TestFitGPyTorchMLLScipy::test_fit_gpytorch_mll_scipy",
        "*TestFitGPyTorchMLLTorch::test_fit_gpytorch_mll_torch",
    ),
}


def kernel(
    ard_num_dims: int,
    batch_shape: torch.Size | None = None,
    use_rbf_kernel: bool = True,
    active_dims: tuple[int, ...] | None = None,
) -> PretrainedKernel:
    """Return a pre-trained kernel of inputs from 0 to 1, with the arguments of BoTorch's function for its own."""
    cov = covariance(ard_num_dims)
    frame = NamedFrame(cov)
    return PretrainedKernel(
        cov,
        stock_dims=frame.num_stock_columns,
        frame=frame,
        batch_shape=torch.Size(batch_shape or ()),
        active_dims=active_dims,
    )


class InPlaceGP(LogNoiseGP):
    """`SingleTaskGP`, whose own covariance is a pre-trained one."""

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        likelihood: Any = None,
        covar_module: Any = None,
        mean_module: Any = None,
        outcome_transform: Any = DEFAULT,
        input_transform: Any = None,
    ) -> None:
        if covar_module is None and train_X.ndim == train_Y.ndim > 1:
            with torch.no_grad():
                columns = self.transform_inputs(train_X, input_transform).shape[-1]
            outputs = train_Y.shape[-1:] if train_Y.shape[-1] > 1 else ()
            covar_module = kernel(columns, torch.Size([*train_X.shape[:-2], *outputs]))
        super().__init__(
            train_X, train_Y, train_Yvar, likelihood, covar_module, mean_module, outcome_transform, input_transform
        )


def pytest_configure(config: pytest.Config) -> None:
    """Put ours in place."""
    if not in_place():
        return
    stock = gp_regression.SingleTaskGP
    makers = [module for name, module in sys.modules.items() if name.startswith("botorch.models.")]
    for module in makers:
        if module is not gp_regression and hasattr(module, kernel_maker := "get_covar_module_with_dim_scaled_prior"):
            setattr(module, kernel_maker, kernel)
    for module in (botorch.models, gp_regression, botorch.utils.test_helpers):
        if getattr(module, "SingleTaskGP", None) is stock:
            module.SingleTaskGP = InPlaceGP


if __name__ == "__main__":
    sys.exit(main(Suite("botorch", "tools.host_suites.botorch", FILES, KNOWN), sys.argv[1:]))
