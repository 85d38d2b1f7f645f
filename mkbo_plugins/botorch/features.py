"""Feature maps of covariances for path sampling, as predictive and joint entropy search need it."""

from typing import Any

import torch
from botorch.sampling.pathwise.features.generators import GenKernelFeatures, gen_kernel_features
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelEvaluationMap
from botorch.sampling.pathwise.paths import GeneralizedLinearPath
from botorch.sampling.pathwise.prior_samplers import DrawKernelFeaturePaths
from gpytorch.kernels import Kernel
from gpytorch.models import ExactGP
from jaxtyping import Float
from linear_operator import LinearOperator, to_dense
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.botorch.models import LogNoiseGP


class _InverseRoot(torch.nn.Module):
    """Turn kernel values at landmarks Z into features: k(x, Z) L^-T with L L' = k(Z, Z)."""

    def __init__(self, root: Float[Tensor, "M M"]) -> None:
        super().__init__()
        self.register_buffer("root", root)

    def forward(self, values: Float[Tensor, "... M"] | LinearOperator) -> Float[Tensor, "... M"]:
        return torch.linalg.solve_triangular(self.root, to_dense(values).mT, upper=False).mT


@GenKernelFeatures.register(PretrainedKernel)
def nystrom_features(kernel: PretrainedKernel, *, num_inputs: int, num_outputs: int) -> KernelEvaluationMap:
    """Return Nyström features, whose products reproduce the kernel exactly between its landmarks.

    Parameters
    ----------
    kernel
        The pre-trained kernel.
    num_inputs
        Number of input columns before ``kernel.active_dims`` chooses among them.
    num_outputs
        Number of features, one for each landmark.
    """
    points = kernel.spread_inputs(num_outputs)
    if kernel.active_dims is not None:
        full = points.new_zeros(len(points), num_inputs)
        full[:, kernel.active_dims] = points
        points = full
    with torch.no_grad():
        root = psd_safe_cholesky(kernel(points).to_dense(), max_tries=8)
    return KernelEvaluationMap(kernel=kernel, points=points, output_transform=_InverseRoot(root))


@DrawKernelFeaturePaths.register(LogNoiseGP)
def kernel_feature_paths(model: LogNoiseGP, **kwargs: Any) -> GeneralizedLinearPath:
    """Return paths drawn from a model's prior, as BoTorch draws those of its own models.

    Parameters
    ----------
    model
        The model.
    **kwargs
        As for `draw_kernel_feature_paths`.
    """
    return DrawKernelFeaturePaths.dispatch(ExactGP)(model, **{"map_generator": _features, **kwargs})


def _features(kernel: Kernel, num_inputs: int, num_outputs: int) -> FeatureMap:
    # BoTorch counts raw columns, of which an input transform makes more where they hold levels.
    return gen_kernel_features(kernel, kernel.ard_num_dims or num_inputs, num_outputs)
