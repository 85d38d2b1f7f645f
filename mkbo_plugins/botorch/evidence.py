"""Whether the table of a pre-trained covariance helps, by the data that a BoTorch model was given."""

from collections.abc import Sequence

import torch
from botorch.models import SingleTaskGP
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from jaxtyping import Float
from torch import Tensor

from mkbo_plugins.botorch.average import AverageGP
from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.core.gp.bayes_factor import STOCK, Verdict, judge
from mkbo_plugins.core.gp.form_model import Points
from mkbo_plugins.errors import MkboError


def table_verdict(model: SingleTaskGP | AverageGP) -> Verdict:
    """Return whether the table helps and the form suits, as `PretrainedCovariance.verdict` judges it.

    It rests on the data of the model, noise variances included where they are known, and asks for no fit. Whether large
    or small outcomes are wanted does not matter. The form in use is that of the model; of an average, that of the
    member with the greatest weight.

    Parameters
    ----------
    model
        What `pretrained_gp` or `pretrained_average` returned, with one outcome; of a `ModelListGP`, one of its
        ``models``.

    Raises
    ------
    MkboError
        If the model has no pre-trained covariance, several outcomes or batches, or too few data to judge by.
    """
    members: Sequence[SingleTaskGP] = model.members if isinstance(model, AverageGP) else [model]  # type: ignore[assignment]
    order = torch.argsort(model.weights, descending=True).tolist() if isinstance(model, AverageGP) else [0]  # type: ignore[arg-type]
    ranked = [members[i] for i in order]
    member = next((m for m in ranked if isinstance(m.covar_module, PretrainedKernel)), None)
    if member is None:
        raise MkboError("the model has no pre-trained covariance; build it with pretrained_gp and another form")
    if member.train_targets.ndim != 1:
        raise MkboError(
            f"a verdict is about one outcome, got outcomes of shape {tuple(member.train_targets.shape)}; make a model "
            "for each"
        )
    kernel = member.covar_module
    known = isinstance(member.likelihood, FixedNoiseGaussianLikelihood)
    noise = member.likelihood.noise.detach().cpu().numpy() if known else None
    form = kernel.form_name if member is ranked[0] else STOCK
    points, as_used = _points(kernel, covariance_inputs(member))
    return judge(kernel.cov.fixed, points, member.train_targets.cpu().numpy(), noise, form, as_used)


@torch.no_grad()
def covariance_inputs(model: SingleTaskGP) -> Float[Tensor, "n d"]:
    """Return a model's training inputs as its covariance function is given them, (n, d)."""
    (X,) = model.train_inputs
    # Hosts replace training inputs by transformed ones while a model predicts.
    return model.transform_inputs(X) if model.training else X


@torch.no_grad()
def _points(kernel: PretrainedKernel, X: Float[Tensor, "n d"]) -> tuple[Points, Points]:
    """Return a model's inputs (n, d) with stock inputs of all parameters, and with those that its own form has."""
    if kernel.frame is not None:
        X = kernel.frame.transform(X)
    frame, own, stock = X[:, : kernel.frame_dims], X[:, kernel.frame_dims :], X[:, kernel.frame_dims :]
    if not (kernel.form.uses_stock and kernel.stock_dims):
        stock = torch.cat([kernel.unit_frame(X), own], dim=-1)
        own = stock if kernel.form.uses_stock else own
    columns, every, used = (part.double().cpu().numpy() for part in (frame, stock, own))
    return Points(columns, every), Points(columns, used)
