"""Several forms at once, weighed by how well each explains the data, as one BoTorch model."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.mlls import ExactMarginalLogLikelihood
from jaxtyping import Float
from torch import Tensor

from mkbo_plugins.botorch.models import pretrained_gp
from mkbo_plugins.core.gp.exact_gp import held_out_log_density
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import MkboError

AVERAGED_FORMS = ("stock", "moment", "product", "transfer")
"""Forms averaged by default: each is right for another relation between table and target."""

SLOTS = 16
"""Members of the mixture, which acquisition functions weigh equally; a form takes as many as its weight asks for."""


class AverageGP(Model):
    """An equally weighed mixture of fitted Gaussian processes, in which one may take several places.

    Acquisition functions average over it, and sample paths are drawn from it, as of BoTorch's own ensembles.
    `pretrained_average` makes it.

    Parameters
    ----------
    members
        Fitted models with one output.
    weights
        Weight of each, summing to 1.
    """

    _is_ensemble = True

    def __init__(self, members: Sequence[SingleTaskGP], weights: Float[Tensor, " members"]) -> None:
        super().__init__()
        self.members: Sequence[SingleTaskGP] = torch.nn.ModuleList(members)  # type: ignore[assignment]
        self.weights = weights
        self.counts = _slots(weights)

    @property
    def num_outputs(self) -> int:
        """Number of outputs: one."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """Number of places in the mixture."""
        return torch.Size([SLOTS])

    def posterior(self, X: Float[Tensor, "... q d"], *args: Any, **kwargs: Any) -> GaussianMixturePosterior:
        """Return the posterior at points (..., q, d) in raw units; arguments as for `SingleTaskGP.posterior`."""
        kept = [(m, count) for m, count in zip(self.members, self.counts, strict=True) if count]
        found: list[tuple[MultivariateNormal, int]] = [
            (member.posterior(X, *args, **kwargs).distribution, count)  # type: ignore[union-attr]
            for member, count in kept
        ]
        # Beside the event dimensions of the mean and of the covariance, members are the last batch dimension.
        means = [d.mean.unsqueeze(-2).expand(*d.mean.shape[:-1], n, d.mean.shape[-1]) for d, n in found]
        covariances = []
        for distribution, n in found:
            matrix = distribution.covariance_matrix
            covariances.append(matrix.unsqueeze(MCMC_DIM).expand(*matrix.shape[:-2], n, *matrix.shape[-2:]))
        return GaussianMixturePosterior(
            MultivariateNormal(torch.cat(means, dim=-2), torch.cat(covariances, dim=MCMC_DIM))
        )


def pretrained_average(
    cov: Covariance,
    train_X: Float[Tensor, "n d"],
    train_Y: Float[Tensor, "n 1"],
    forms: Sequence[str] = AVERAGED_FORMS,
    **kwargs: Any,
) -> AverageGP:
    """Return the average of several forms, fitted, each weighed by its leave-one-out predictive density.

    It is worth its cost, a fit of every form and a posterior of each at every candidate, where it is not known how the
    table bears on the target and the outcomes are to decide: its weights say which relation they speak for. Otherwise
    take one form, for which scales that the data can turn down serve the same end.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    train_X, train_Y
        Inputs in raw units (n, d) and outcomes (n, 1), as for `pretrained_gp`.
    forms
        Names of the forms.
    **kwargs
        Further arguments of `pretrained_gp`.

    Raises
    ------
    MkboError
        If there are several outcomes or no forms; use a `ModelListGP` of averages for several outcomes.
    """
    if not forms:
        raise MkboError("forms is empty; name at least one, such as 'moment'")
    if train_Y.shape[-1] != 1 or train_X.ndim != 2:
        raise MkboError(
            f"an average has one outcome and no batches, got train_X {tuple(train_X.shape)} and train_Y "
            f"{tuple(train_Y.shape)}; make one for each outcome"
        )
    members = []
    for form in forms:
        # Members share no module that one of their fits would change.
        model = pretrained_gp(cov, train_X, train_Y, form=form, **copy.deepcopy(kwargs))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        members.append(model)
    scores = torch.tensor([_leave_one_out(member) for member in members], dtype=train_Y.dtype)
    return AverageGP(members, torch.softmax(scores, dim=0))


def _leave_one_out(model: SingleTaskGP) -> float:
    """Return the summed log density of each training outcome given the others."""
    with torch.no_grad():
        model.train()
        prior = model.likelihood(model(*model.train_inputs))
        inverse = torch.linalg.inv(prior.covariance_matrix)
        dual = inverse @ (model.train_targets - prior.mean)
    return held_out_log_density(inverse.cpu().numpy(), dual.cpu().numpy())


def _slots(weights: Float[Tensor, " members"]) -> list[int]:
    """Return how many of the places each member takes, by the largest remainders."""
    shares = (weights * SLOTS).tolist()
    counts = [int(share) for share in shares]
    order = sorted(range(len(shares)), key=lambda i: counts[i] - shares[i])
    for i in order[: SLOTS - sum(counts)]:
        counts[i] += 1
    return counts
