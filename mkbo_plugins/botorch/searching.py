"""Models for the search of an acquisition function, faster and a little less accurate than those for predictions."""

import copy
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms.outcome import Standardize
from botorch.models.utils import gpt_posterior_settings
from botorch.posteriors import Posterior
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean
from jaxtyping import Float, Int
from torch import Tensor

from mkbo_plugins.botorch.fantasies import MOST_JOINT, InBox, SearchFantasies, posterior_of
from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.botorch.mean import PretrainedMean
from mkbo_plugins.botorch.models import LogNoiseGP
from mkbo_plugins.botorch.moments import moments_of_batches, moments_of_pairs
from mkbo_plugins.botorch.seen import SeenInputs
from mkbo_plugins.core.components.directed_mean import DirectedMean
from mkbo_plugins.core.gp.exact_gp import ExactGP
from mkbo_plugins.core.gp.form_model import Points
from mkbo_plugins.core.gp.posterior import FormPosterior, prior_mean
from mkbo_plugins.core.gp.search import SearchPosterior
from mkbo_plugins.errors import MkboError
from mkbo_plugins.space.named import NamedColumns


def for_search(model: Model) -> Model:
    """Return a fitted model for the search of an acquisition function: the same, but faster and less accurate.

    Distances in the features of the table have an error of up to a thousandth of the unit in which the covariance sees
    them, instead of 1e-10. They are of fewer features, the same ones for data and candidates, so that the covariance is
    one positive semi-definite function, and values and gradients are those of one model, gradients being in the points
    alone. Fantasies are of the same function. It is the model as it is now: fitting that again does not change it.
    Predictions come from the model itself.

    Parameters
    ----------
    model
        A fitted model, of `pretrained_gp` or with a `PretrainedKernel`. A `ModelListGP` is taken model by model; any
        other model, such as one of ``form="stock"``, is returned as it is.
    """
    if isinstance(model, ModelListGP):
        members: Any = model.models
        searched: Any = [for_search(member) for member in members]
        return ModelListGP(*searched)
    kernel = getattr(model, "covar_module", None)
    if not isinstance(model, LogNoiseGP) or not isinstance(kernel, PretrainedKernel) or isinstance(model, SearchGP):
        return model
    model.eval()
    new: Any = copy.copy(model)
    new._modules = copy.deepcopy(model._modules)
    new.__class__ = SearchGP
    new.search_among(new.train_inputs)
    return new


class SearchGP(InBox):
    """What `for_search` returns."""

    covar_module: PretrainedKernel
    _of_data: "_OfData | None" = None

    def train(self, mode: bool = True) -> "SearchGP":
        """Leave it as it is; it is not to be fitted."""
        if mode:
            raise MkboError("a model for_search is not fitted; fit the model that it was made of, and make it again")
        return super().train(mode) if self.training else self

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> "SearchGP":
        # Acquisition functions move their models to where the points are at every evaluation.
        probe = torch.empty(0, dtype=self.train_targets.dtype, device=self.train_targets.device)
        return self if fn(probe) is probe and not probe.is_shared() else super()._apply(fn, *args, **kwargs)

    def get_fantasy_model(self, inputs: Tensor, targets: Tensor, **kwargs: Any) -> LogNoiseGP:
        """Return a model of more data with the same covariance, whose moments follow from those of this one."""
        fits = inputs.ndim > 1 and targets.ndim - inputs.ndim in (-1, 0) and inputs.shape[-2] <= MOST_JOINT
        has_noise = "noise" in kwargs or type(self.likelihood) is GaussianLikelihood
        if not (fits and has_noise) or set(kwargs) - {"noise"} or self.process is None or inputs.device.type != "cpu":
            return self.by_host(inputs, targets, **kwargs)
        return SearchFantasies.of(self, inputs, targets, **kwargs)

    def by_host(self, inputs: Tensor, targets: Tensor, **kwargs: Any) -> LogNoiseGP:
        """Return GPyTorch's model of more data with the same covariance."""
        computed: Any = self.prediction_strategy
        if computed is None:
            with gpt_posterior_settings():
                self(self.train_inputs[0][..., :1, :])  # whose caches it is made of
        fantasy: LogNoiseGP = super().get_fantasy_model(inputs, targets, **kwargs)
        fantasy.__class__ = LogNoiseGP
        return fantasy

    def search_among(self, inputs: Iterable[Float[Tensor, "... d"]]) -> None:
        """Make the covariance that of a search in the box of inputs, as the kernel gets them."""
        kernel = self.covar_module
        points = [Z.detach().reshape(-1, Z.shape[-1]) for Z in inputs]
        self.covar_module = kernel.searched(kernel.columns(torch.cat(points)))
        SingleTaskGP.set_train_data(self)  # for GPyTorch to forget what it computed

    def _posterior(
        self,
        X: Float[Tensor, "... q d"],
        output_indices: list[int] | None,
        observation_noise: bool | Tensor,
        posterior_transform: PosteriorTransform | None,
    ) -> Posterior:
        self.eval()
        noisy = observation_noise is True and type(self.likelihood) is GaussianLikelihood
        search = self.process if not output_indices and (noisy or observation_noise is False) else None
        constants = _constant_rows(X)
        if search is None or X.device.type != "cpu" or X.shape[-2] - constants > MOST_JOINT or not X.numel():
            return LogNoiseGP.posterior(self, X, output_indices, observation_noise, posterior_transform)
        moments = self._kept.seen.get(X, partial(self._joined_moments, search, constants))
        mean, covariance = moments[..., 0], moments[..., 1:]
        noise = self.likelihood.noise.detach() * self.units[1] ** 2 if noisy else None
        return posterior_of(mean, covariance, noise, X, posterior_transform)

    def _joined_moments(
        self, search: SearchPosterior, constants: int, X: Float[Tensor, "... q d"]
    ) -> Float[Tensor, "... q 1+q"]:
        """Return the mean at points and, beside it, the covariance."""
        known = self._raw_columns if X.dtype == torch.double else None
        columns = X if known is not None else self.covar_module.columns(self.transform_inputs(X))
        mean, covariance = moments_of_batches(search, self.covar_module, known, self.units, constants, columns)
        return torch.cat([mean.unsqueeze(-1), covariance], dim=-1)

    def pair_moments(
        self, X: Float[Tensor, "m d"], left: Int[Tensor, " pairs"], right: Int[Tensor, " pairs"]
    ) -> tuple[Float[Tensor, " m"], Float[Tensor, " pairs"]]:
        """Return means (m,) at inputs (m, d) and covariances of pairs of them, in units of the model."""
        search, known = self.process, self._raw_columns
        assert search is not None  # asked for where there is one
        columns = X if known is not None else self.covar_module.columns(X)
        return moments_of_pairs(search, self.covar_module, known, left, right, columns)

    @property
    def units(self) -> tuple[float, float]:
        """The outcome at which the model's is 0, and its unit."""
        transform: Any = getattr(self, "outcome_transform", None)
        return (0.0, 1.0) if transform is None else (transform.means.item(), transform.stdvs.item())

    @property
    def _raw_columns(self) -> NamedColumns | None:
        """The map from raw inputs to what the kernel needs, where nothing else is between them."""
        frame = self.covar_module.frame
        plain = self.covar_module.active_dims is None and not hasattr(self, "input_transform")
        return frame.columns if frame is not None and plain else None

    @property
    def process(self) -> SearchPosterior | None:
        """The process of the data as they are; None where the host's way is needed."""
        return self._kept.process

    @property
    def _kept(self) -> "_OfData":
        (inputs,) = self.train_inputs
        kept, key = self._of_data, (inputs, self.train_targets, self.covar_module)
        if kept is None or any(a is not b for a, b in zip(kept.key, key, strict=True)):
            kept = self._of_data = _OfData(key, self._conditioned(inputs), SeenInputs())
        return kept

    def _conditioned(self, inputs: Float[Tensor, "n d"]) -> SearchPosterior | None:
        kernel, transform = self.covar_module, getattr(self, "outcome_transform", None)
        plain = type(self.mean_module) in (ConstantMean, PretrainedMean) and type(self.likelihood) in (
            GaussianLikelihood,
            FixedNoiseGaussianLikelihood,
        )
        in_one = inputs.ndim == 2 and self.train_targets.ndim == 1 and not kernel.batch_shape
        if not (plain and in_one and inputs.device.type == "cpu" and (transform is None or _is_scale(transform))):
            return None
        data = kernel.points(kernel.columns(inputs))
        directed = getattr(self.mean_module, "directed", None)
        model, theta = kernel.form_model, kernel.log_hyperparameters.numpy()
        noise = self.likelihood.noise.detach().double().reshape(-1).numpy()
        covariance = model.value(model.pairs(data), theta) + np.diag(np.broadcast_to(noise, len(data.frame)))
        try:
            process = ExactGP.conditioned(covariance, *self._values(directed, data))
        except np.linalg.LinAlgError:  # the host adds to the diagonal then
            return None
        return SearchPosterior(FormPosterior(model, theta, data, process, noise, directed))

    def _values(self, directed: DirectedMean | None, data: Points) -> tuple[Float[np.ndarray, " n"], float]:
        """Return what outcomes are beyond the directed mean, and the constant."""
        values = self.train_targets.detach().double().numpy() - prior_mean(directed, data)
        return values, float(self.mean_module.constant.detach())


class _OfData(NamedTuple):
    """What is known of a model's data and covariance as they are."""

    key: tuple[Tensor, Tensor, PretrainedKernel]
    process: SearchPosterior | None
    seen: SeenInputs


def _constant_rows(X: Float[Tensor, "... q d"]) -> int:
    """Return the number of first points that are the same in all batches and of which no gradient is asked for."""
    most = _rows_in_front(X) if X.requires_grad else X.shape[-2] - 1
    if most < 1 or not X.numel():
        return 0
    flat = X.detach()[..., :most, :].reshape(-1, most, X.shape[-1])
    different = (flat != flat[:1]).any(dim=2).any(dim=0).tolist()
    return different.index(True) if True in different else most


def _rows_in_front(X: Float[Tensor, "... q d"]) -> int:
    """Return the number of points without a gradient that were put before others."""
    joined: Any = X.grad_fn
    if joined is None or not joined.name().startswith("Cat") or len(joined.next_functions) != 2:
        return 0
    (first, _), (second, _) = joined.next_functions
    if first is not None or second is None or joined._saved_dim not in (X.ndim - 2, 2**64 - 2):
        return 0
    return X.shape[-2] - second._input_metadata[0].shape[-2]


def _is_scale(transform: Any) -> bool:
    """Return whether a transform of outcomes is one of standardising a single outcome."""
    return type(transform) is Standardize and transform.stdvs.numel() == 1 and bool(transform._is_trained)
