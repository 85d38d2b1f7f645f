"""Models of a search with more data added: their moments follow from those of the model without these data."""

import copy
from abc import abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Protocol

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import GaussianLikelihood
from jaxtyping import Float, Int
from linear_operator import to_linear_operator
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mkbo_plugins.botorch.models import LogNoiseGP
from mkbo_plugins.botorch.seen import SeenInputs
from mkbo_plugins.core.gp.search import SearchPosterior
from mkbo_plugins.errors import KernelError

MOST_JOINT = 8
"""Points of a batch up to which their pairs one by one are the faster way."""


class Extended(Protocol):
    """A model that more data are added to."""

    @property
    def process(self) -> SearchPosterior | None:
        """The process that `pair_moments` are of; None where there are none."""

    @property
    def units(self) -> tuple[float, float]:
        """The outcome at which the model's is 0, and its unit."""

    def pair_moments(
        self, X: Float[Tensor, "m d"], left: Int[Tensor, " pairs"], right: Int[Tensor, " pairs"]
    ) -> tuple[Float[Tensor, " m"], Float[Tensor, " pairs"]]:
        """Return means and covariances of pairs, in units of the model."""

    def by_host(self, inputs: Tensor, targets: Tensor, **kwargs: Any) -> LogNoiseGP:
        """Return GPyTorch's model of more data."""

    def search_among(self, inputs: Iterable[Float[Tensor, "... d"]]) -> None:
        """Make the covariance one that holds at inputs."""


class InBox(LogNoiseGP):
    """A model whose covariance holds in a box of points, which is widened where others are asked for."""

    def posterior(  # type: ignore[override]
        self,
        X: Float[Tensor, "... q d"],
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Return the posterior as the host's models do; where all is of one outcome and on the host, the fast way.

        Where points lie outside the box of features, those of a wider one take their place from then on.
        """
        arguments = X, output_indices, observation_noise, posterior_transform
        try:
            return self._posterior(*arguments)
        except KernelError:
            self.search_among([*self.train_inputs, self.transform_inputs(X)])
            return self._posterior(*arguments)

    @abstractmethod
    def search_among(self, inputs: Iterable[Float[Tensor, "... d"]]) -> None:
        """Make the covariance that of a search in the box of inputs, as the kernel gets them."""

    @abstractmethod
    def _posterior(
        self,
        X: Float[Tensor, "... q d"],
        output_indices: list[int] | None,
        observation_noise: bool | Tensor,
        posterior_transform: PosteriorTransform | None,
    ) -> Posterior:
        """Return what `posterior` does, or raise a `KernelError` where points lie outside the box."""


class SearchFantasies(InBox):
    """A model of a search with more data added, several sets of them at once.

    With mean m and covariance C of the function without them, those at points x are, by values y at added points z,
    m(x) + C(x, z) (C(z, z) + noise)^-1 (y - m(z)) and C(x, x) - C(x, z) (C(z, z) + noise)^-1 C(z, x). All that the
    data before them say is in m and C, which are the same for all fantasies. What is asked for in other ways comes from
    GPyTorch's model of the same data.
    """

    _model: tuple[Extended]
    _seen: tuple[SearchPosterior | None, SeenInputs] = (None, SeenInputs())
    _added: tuple[Float[Tensor, "*inputs z d"], Float[Tensor, "*targets z"], dict[str, Tensor]]

    @classmethod
    def of(cls, model: Any, inputs: Tensor, targets: Tensor, **noise: Tensor) -> "SearchFantasies":
        """Return a model with data added, as GPyTorch's `get_fantasy_model` gets them.

        Parameters
        ----------
        model
            The model.
        inputs, targets
            Points z, (..., z, d), and what was observed there, (..., z), in units of the model.
        **noise
            ``noise``, variances of their noise, (..., z); of the model's likelihood where it is not given.
        """
        new = copy.copy(model)
        new._modules, new.__class__ = dict(model._modules), cls
        new._model, new._added = (model,), (inputs, targets, noise)
        (known,), batch = model.train_inputs, targets.shape[:-1]
        parts = [Z.expand(*batch, *Z.shape[-2:]) for Z in (known, inputs)]
        new.train_inputs = (torch.cat(parts, dim=-2),)
        before = model.train_targets
        new.train_targets = torch.cat([before.expand(*batch, len(before)), targets], dim=-1)
        return new

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return GPyTorch's posterior at inputs."""
        return self._whole(*args, **kwargs)

    def get_fantasy_model(self, inputs: Tensor, targets: Tensor, **kwargs: Any) -> LogNoiseGP:
        """Return GPyTorch's model of still more data."""
        return self._whole.get_fantasy_model(inputs, targets, **kwargs)

    def search_among(self, inputs: Iterable[Float[Tensor, "... d"]]) -> None:
        """Make the covariance that of a search in the box of inputs, as the kernel gets them."""
        self._model[0].search_among(inputs)
        self.__dict__.pop("_whole", None)

    def _posterior(
        self,
        X: Float[Tensor, "... q d"],
        output_indices: list[int] | None,
        observation_noise: bool | Tensor,
        posterior_transform: PosteriorTransform | None,
    ) -> Posterior:
        noisy = observation_noise is True and type(self.likelihood) is GaussianLikelihood
        plain = self._model[0].process is not None and not output_indices and (noisy or observation_noise is False)
        if not plain or X.device.type != "cpu" or X.shape[-2] > MOST_JOINT or not X.numel():
            return self._whole.posterior(X, output_indices, observation_noise, posterior_transform)
        mean, covariance = self._moments(self.transform_inputs(X))
        shift, scale = self._model[0].units
        noise = self.likelihood.noise.detach() * scale**2 if noisy else None
        mean, covariance = (shift + scale * mean).to(X.dtype), (scale**2 * covariance).to(X.dtype)
        return posterior_of(mean, covariance, noise, X, posterior_transform)

    @cached_property
    def _whole(self) -> LogNoiseGP:
        inputs, targets, noise = self._added
        return self._model[0].by_host(inputs, targets, **noise)

    def _moments(self, X: Float[Tensor, "... q d"]) -> tuple[Float[Tensor, "*batch q"], Float[Tensor, "*batch q q"]]:
        """Return mean and covariance of the function at points, in units of the model."""
        Z, targets, given = self._added
        mean, (of_z, across, of_x) = self._blocks(Z, X)
        usual = self.likelihood.noise.detach()
        noise = given.get("noise", usual)
        solved = _solved(of_z, noise, across)
        # GPyTorch takes the likelihood's noise for the mean, whatever noise is given, unless that is fixed.
        of_mean = (
            solved
            if "noise" not in given or type(self.likelihood) is not GaussianLikelihood
            else _solved(of_z, usual, across)
        )
        unforeseen = targets - mean[: Z[..., 0].numel()].reshape(Z.shape[:-1])
        found = mean[Z[..., 0].numel() :].reshape(X.shape[:-1]) + (unforeseen.unsqueeze(-2) @ of_mean).squeeze(-2)
        covariance = of_x - across @ solved
        return found, covariance.expand(*found.shape, found.shape[-1])

    def _blocks(
        self, Z: Float[Tensor, "*inputs z d"], X: Float[Tensor, "... q d"]
    ) -> tuple[Float[Tensor, " m"], list[Float[Tensor, "..."]]]:
        """Return means of all points, and covariances between added points, across, and between points asked for."""
        sets = [P.reshape(-1, P.shape[-1]).double() for P in (Z, X)]
        rows = torch.arange(sum(map(len, sets))).split([len(P) for P in sets])
        z, x = (index.reshape(P.shape[:-1]) for index, P in zip(rows, (Z, X), strict=True))
        pairs = [torch.broadcast_tensors(a[..., :, None], b[..., None, :]) for a, b in ((z, z), (x, z), (x, x))]
        left, right = (torch.cat([ends[side].reshape(-1) for ends in pairs]) for side in (0, 1))
        process = self._model[0].process
        if self._seen[0] is not process:
            self._seen = process, SeenInputs()
        # Acquisition functions ask for the same points with noise and without.
        moments = self._seen[1].get(X, lambda _: torch.cat(self._model[0].pair_moments(torch.cat(sets), left, right)))
        mean, *parts = moments.split([len(rows[0]) + len(rows[1]), *(ends[0].numel() for ends in pairs)])
        return mean, [part.reshape(ends[0].shape) for part, ends in zip(parts, pairs, strict=True)]


def _solved(
    of_z: Float[Tensor, "... z z"], noise: Float[Tensor, "... z"], across: Float[Tensor, "... q z"]
) -> Float[Tensor, "... z q"]:
    """Return (C(z, z) + noise)^-1 C(z, x)."""
    root = psd_safe_cholesky(of_z + torch.diag_embed(noise.expand(*noise.shape[:-1], of_z.shape[-1])))
    return torch.cholesky_solve(across.mT, root)


def posterior_of(
    mean: Float[Tensor, "... q"],
    covariance: Float[Tensor, "... q q"],
    noise: Float[Tensor, " 1"] | None,
    X: Float[Tensor, "... q d"],
    posterior_transform: PosteriorTransform | None,
) -> Posterior:
    """Return the host's posterior of a mean and a covariance, with the variance of noise to be added to it, if any."""
    if noise is not None:
        covariance = covariance + torch.diag_embed(noise.to(covariance).expand(mean.shape[-1:]))
    posterior = GPyTorchPosterior(MultivariateNormal(mean, to_linear_operator(covariance)))
    return posterior if posterior_transform is None else posterior_transform(posterior=posterior, X=X)
