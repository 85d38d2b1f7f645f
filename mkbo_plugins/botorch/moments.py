"""Moments of a process that searches as differentiable PyTorch functions, without a graph over pairs or features."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.core.gp.form_model import Points
from mkbo_plugins.core.gp.pair_moments import PairMoments
from mkbo_plugins.core.gp.search import BatchMoments, SearchPosterior
from mkbo_plugins.space.named import NamedColumns


class _OfBatches(torch.autograd.Function):
    """Mean (..., r) and covariance (..., r, r) of points (..., r, k), of which the first are constants.

    Points are as a kernel's `columns` returns them, or raw with the map to these.
    """

    @staticmethod
    def forward(
        ctx: Any,
        search: SearchPosterior,
        kernel: PretrainedKernel,
        known: NamedColumns | None,
        units: tuple[float, float],
        constants: int,
        points: Float[Tensor, "... r k"],
    ) -> tuple[Float[Tensor, "... r"], Float[Tensor, "... r r"]]:
        shift, scale = units
        *leading, r, k = points.shape
        flat = points.reshape(-1, r, k)
        own, shared = flat[:, constants:].reshape(-1, k), flat[0, :constants]
        ctx.known, ctx.raw = known, own
        moments = search.moments(_points(kernel, known, own), len(flat), _points(kernel, known, shared))
        ctx.moments, ctx.kernel, ctx.scale, ctx.constants = moments, kernel, scale, constants
        ctx.shape, ctx.dtype = points.shape, points.dtype
        mean = torch.as_tensor(shift + scale * moments.mean, dtype=points.dtype)
        covariance = torch.as_tensor(scale**2 * moments.covariance, dtype=points.dtype)
        return mean.reshape(*leading, r), covariance.reshape(*leading, r, r)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_mean: Float[Tensor, "... r"], of_covariance: Float[Tensor, "... r r"]
    ) -> tuple[None, None, None, None, None, Float[Tensor, "... r k"]]:
        moments: BatchMoments = ctx.moments
        *_, r, k = ctx.shape
        slopes = of_mean.double().reshape(-1, r).numpy(), of_covariance.double().reshape(-1, r, r).numpy()
        gradient = moments.vjp(ctx.scale * slopes[0], ctx.scale**2 * slopes[1])
        own = _pulled(ctx.kernel, ctx.known, ctx.raw, gradient).reshape(-1, r - ctx.constants, k)
        whole = torch.cat([own.new_zeros(len(own), ctx.constants, k), own], dim=1)
        return None, None, None, None, None, whole.reshape(ctx.shape).to(ctx.dtype)


class _OfPairs(torch.autograd.Function):
    """Means (m,) of points (m, k) and covariances of some pairs of them, in the units of the model; points as above."""

    @staticmethod
    def forward(
        ctx: Any,
        search: SearchPosterior,
        kernel: PretrainedKernel,
        known: NamedColumns | None,
        left: Int[Tensor, " pairs"],
        right: Int[Tensor, " pairs"],
        points: Float[Tensor, "m k"],
    ) -> tuple[Float[Tensor, " m"], Float[Tensor, " pairs"]]:
        moments = PairMoments(search.posterior, _points(kernel, known, points), left.numpy(), right.numpy())
        ctx.kernel, ctx.known, ctx.raw, ctx.moments, ctx.dtype = kernel, known, points, moments, points.dtype
        return torch.as_tensor(moments.mean), torch.as_tensor(moments.covariance)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_mean: Float[Tensor, " m"], of_covariance: Float[Tensor, " pairs"]
    ) -> tuple[None, None, None, None, None, Float[Tensor, "m k"]]:
        moments: PairMoments = ctx.moments
        gradient = moments.vjp(of_mean.numpy(), of_covariance.numpy())
        return None, None, None, None, None, _pulled(ctx.kernel, ctx.known, ctx.raw, gradient).to(ctx.dtype)


def _points(kernel: PretrainedKernel, known: NamedColumns | None, rows: Float[Tensor, "n k"]) -> Points:
    """Return points as the form sees them."""
    return kernel.points(rows if known is None else torch.as_tensor(known(rows.numpy())))


def _pulled(
    kernel: PretrainedKernel, known: NamedColumns | None, rows: Float[Tensor, "n k"], gradient: Points
) -> Float[Tensor, "n k"]:
    """Return a gradient in points as one in the rows that they are made of."""
    pulled = kernel.pulled(gradient)
    return torch.as_tensor(pulled if known is None else known.vjp(rows.numpy(), pulled))


def moments_of_batches(
    search: SearchPosterior,
    kernel: PretrainedKernel,
    known: NamedColumns | None,
    units: tuple[float, float],
    constants: int,
    points: Float[Tensor, "... r k"],
) -> tuple[Float[Tensor, "... r"], Float[Tensor, "... r r"]]:
    """Return mean and covariance of batches of points.

    Parameters
    ----------
    search
        The process.
    kernel
        The kernel whose form it has.
    known
        The map from points to what `PretrainedKernel.columns` returns; None where they are these already.
    units
        The outcome at which the process is 0, and its unit.
    constants
        Number of first points that are the same in all batches and need no gradient.
    points
        The points.
    """
    mean, covariance = _OfBatches.apply(search, kernel, known, units, constants, points)
    return mean, covariance


def moments_of_pairs(
    search: SearchPosterior,
    kernel: PretrainedKernel,
    known: NamedColumns | None,
    left: Int[Tensor, " pairs"],
    right: Int[Tensor, " pairs"],
    points: Float[Tensor, "m k"],
) -> tuple[Float[Tensor, " m"], Float[Tensor, " pairs"]]:
    """Return means of points, and covariances of pairs of their rows, in units of the process.

    Parameters
    ----------
    search, kernel, known, points
        As for `moments_of_batches`.
    left, right
        Rows of both points of each pair.
    """
    mean, covariance = _OfPairs.apply(search, kernel, known, left, right, points)
    return mean, covariance
