"""Sample paths of models with a pre-trained covariance."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from botorch.sampling.pathwise.features.generators import gen_kernel_features
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelEvaluationMap
from botorch.sampling.pathwise.paths import GeneralizedLinearPath, PathList, SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, MatheronPath, draw_matheron_paths
from botorch.sampling.pathwise.prior_samplers import DrawKernelFeaturePaths
from gpytorch.kernels import Kernel
from gpytorch.models import ExactGP
from jaxtyping import Float
from torch import Tensor

from mkbo_plugins.botorch.average import AverageGP
from mkbo_plugins.botorch.features import InverseRoot
from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.botorch.models import LogNoiseGP


@DrawKernelFeaturePaths.register(LogNoiseGP)
def draw_prior_paths(model: LogNoiseGP, **kwargs: Any) -> GeneralizedLinearPath:
    """Return paths drawn from a model's prior, as BoTorch draws those of its own models.

    Parameters
    ----------
    model
        The model.
    **kwargs
        As for `botorch.sampling.pathwise.draw_kernel_feature_paths`.
    """
    return DrawKernelFeaturePaths.dispatch(ExactGP)(model, **{"map_generator": _features, **kwargs})


@DrawMatheronPaths.register(LogNoiseGP)
def draw_coarse_paths(model: LogNoiseGP, **kwargs: Any) -> SamplePath:
    """Return the host's paths of a model whose fixed components are coarse, prior and update alike.

    Features of the prior leave out more than that, and paths are evaluated many times.

    Parameters
    ----------
    model
        The model.
    **kwargs
        As for `botorch.sampling.pathwise.draw_matheron_paths`.
    """
    if not isinstance(model.covar_module, PretrainedKernel):
        return DrawMatheronPaths.dispatch(ExactGP)(model, **kwargs)
    coarse = copy.copy(model)
    coarse._modules = {**model._modules, "covar_module": model.covar_module.coarse()}
    return _in_one(DrawMatheronPaths.dispatch(ExactGP)(coarse, **kwargs))


class EnsemblePath(PathList):
    """Paths of a mixture's places, beside one another as in its posterior.

    Parameters
    ----------
    paths
        Paths of each member, as many as it takes places.
    counts
        Their number.
    """

    def __init__(self, paths: Iterable[SamplePath], counts: Sequence[int]) -> None:
        super().__init__(paths)
        self.counts, self.ensemble_as_batch = list(counts), False

    def forward(self, x: Float[Tensor, "... q d"], **kwargs: Any) -> Float[Tensor, "... places q"]:
        """Return values (..., places, q) at points (..., q, d), or (..., places, q, d) where places are a batch."""
        shared = (x.unsqueeze(-3),) * len(self.counts)
        points = x.split(self.counts, dim=-3) if self.ensemble_as_batch else shared
        return torch.cat([path(z, **kwargs) for path, z in zip(self.paths, points, strict=True)], dim=-2)

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """Say whether points come with a dimension of places."""
        self.ensemble_as_batch = ensemble_as_batch


@DrawMatheronPaths.register(AverageGP)
def draw_ensemble_paths(model: AverageGP, *, sample_shape: torch.Size, **kwargs: Any) -> EnsemblePath:
    """Return paths of an average as BoTorch draws those of its own ensembles: one in each place of the mixture.

    A path of the mixture is the one in a place drawn at random, as `PathwiseThompsonSampling` takes it.

    Parameters
    ----------
    model
        The average.
    sample_shape
        Shape of the paths in each place.
    **kwargs
        As for `botorch.sampling.pathwise.draw_matheron_paths`.
    """
    kept = [(member, count) for member, count in zip(model.members, model.counts, strict=True) if count]
    paths = [draw_matheron_paths(member, torch.Size([*sample_shape, count]), **kwargs) for member, count in kept]
    return EnsemblePath(paths, [count for _, count in kept])


def _in_one(path: MatheronPath) -> SamplePath:
    """Return a path as one sum over landmarks and training points together, where prior and update are such sums."""
    prior, update = path["prior_paths"], path["update_paths"]
    if not (isinstance(prior, GeneralizedLinearPath) and isinstance(update, GeneralizedLinearPath)):
        return path
    landmarks, training = prior.feature_map, update.feature_map
    if not (isinstance(landmarks, KernelEvaluationMap) and isinstance(landmarks.output_transform, InverseRoot)):
        return path
    before, observed = landmarks.points, training.points
    if landmarks.batch_shape or not (isinstance(before, Tensor) and isinstance(observed, Tensor)) or observed.ndim > 2:
        return path
    of_landmarks = landmarks.output_transform.pulled(prior.weight)
    return GeneralizedLinearPath(
        KernelEvaluationMap(landmarks.kernel, torch.cat([before, observed])),
        torch.cat([of_landmarks, update.weight], dim=-1),
        bias_module=prior.bias_module,
        output_transform=path.output_transform,
    )


def _features(kernel: Kernel, num_inputs: int, num_outputs: int) -> FeatureMap:
    # BoTorch counts raw columns, of which an input transform makes more where they hold levels.
    return gen_kernel_features(kernel, kernel.ard_num_dims or num_inputs, num_outputs)
