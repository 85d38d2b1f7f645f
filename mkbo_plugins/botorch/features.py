"""Feature map of the pre-trained kernel for path sampling, as predictive and joint entropy search need it."""

import torch
from botorch.sampling.pathwise.features.generators import GenKernelFeatures
from botorch.sampling.pathwise.features.maps import KernelEvaluationMap
from jaxtyping import Float
from linear_operator import LinearOperator, to_dense
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mkbo_plugins.botorch.kernel import PretrainedKernel


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
