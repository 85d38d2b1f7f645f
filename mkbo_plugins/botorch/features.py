"""Feature map of the pre-trained kernel for path sampling, as predictive and joint entropy search need it."""

import numpy as np
import torch
from botorch.sampling.pathwise.features.generators import GenKernelFeatures
from botorch.sampling.pathwise.features.maps import KernelEvaluationMap
from jaxtyping import Float, Int
from linear_operator import LinearOperator, to_dense
from linear_operator.utils.cholesky import psd_safe_cholesky
from scipy.linalg import lapack
from torch import Tensor

from mkbo_plugins.botorch.kernel import PretrainedKernel

LEFT_OUT = 1e-5
"""Variance that features may leave out at the points among which landmarks are chosen, in units of the largest."""


class InverseRoot(torch.nn.Module):
    """Turn kernel values at landmarks Z into features: k(x, Z) L^-T with L L' = k(Z, Z).

    Parameters
    ----------
    root
        The root L, (..., M, M).
    """

    def __init__(self, root: Float[Tensor, "... M M"]) -> None:
        super().__init__()
        self.register_buffer("root", root)

    def forward(self, values: Float[Tensor, "... M"] | LinearOperator) -> Float[Tensor, "... M"]:
        """Return features, (..., M), of kernel values at the landmarks."""
        return torch.linalg.solve_triangular(self.root, to_dense(values).mT, upper=False).mT

    def pulled(self, weights: Float[Tensor, "... M"]) -> Float[Tensor, "... M"]:
        """Return weights (..., M) of kernel values that give what these weights of features do."""
        return torch.linalg.solve_triangular(self.root.mT, weights.unsqueeze(-1), upper=True).squeeze(-1)


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
        Number of points over the domain among which landmarks are chosen, and so the largest number of features: there
        are as many as leave out no more than `LEFT_OUT` of the variance at any of these points.
    """
    points = kernel.spread_inputs(num_outputs)
    if kernel.active_dims is not None:
        full = points.new_zeros(len(points), num_inputs)
        full[:, kernel.active_dims] = points
        points = full
    with torch.no_grad():
        gram = kernel(points).to_dense()
        landmarks = _landmarks(gram.reshape(-1, len(points), len(points)).double().numpy(force=True))
        index = torch.as_tensor(landmarks, device=gram.device)
        root = psd_safe_cholesky(gram[..., index[:, None], index], max_tries=8)
    return KernelEvaluationMap(kernel=kernel, points=points[index], output_transform=InverseRoot(root))


def _landmarks(grams: Float[np.ndarray, "batch n n"]) -> Int[np.ndarray, " M"]:
    """Return the points that pivoted Cholesky decompositions of Gram matrices use, each until little is left out."""
    chosen = []
    for gram in grams:
        _, pivots, rank, _ = lapack.dpstrf(gram, tol=LEFT_OUT * gram.diagonal().max(), lower=1)
        chosen.append(pivots[:rank] - 1)
    return np.unique(np.concatenate(chosen))
