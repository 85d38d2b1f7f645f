"""The core's evaluators as differentiable PyTorch functions, without a graph over pairs of support vectors."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mkbo_plugins.core.pairsum import PairSum, ScaledSum


class _Pointwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, evaluator: PairSum, U: Tensor) -> tuple[Tensor, ...]:
        result = evaluator.pointwise(U)
        ctx.evaluator = evaluator
        ctx.save_for_backward(U, result.log_scale)
        ctx.mark_non_differentiable(result.absolute, result.log_scale)
        return tuple(result)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[None, Tensor]:
        U, log_scale = ctx.saved_tensors
        return None, upstream[..., None] * ctx.evaluator.pointwise_gradient(U, log_scale)


class _Pairwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, evaluator: PairSum, X: Tensor, Y: Tensor) -> tuple[Tensor, ...]:
        result = evaluator.pairwise(X, Y)
        ctx.evaluator = evaluator
        ctx.save_for_backward(X, Y, result.log_scale)
        ctx.mark_non_differentiable(result.absolute, result.log_scale)
        return tuple(result)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[None, Tensor, Tensor]:
        X, Y, log_scale = ctx.saved_tensors
        return None, *ctx.evaluator.pairwise_gradient(X, Y, log_scale, upstream)


@dataclass(frozen=True)
class DifferentiableEvaluator:
    """An evaluator of S(u) whose mantissas carry gradients, the log scales being held constant.

    Parameters
    ----------
    evaluator
        The core's evaluator.
    """

    evaluator: PairSum

    def pointwise(self, U: Tensor) -> ScaledSum:
        """Return S at points U (..., d), each result of shape (...)."""
        return ScaledSum(*_Pointwise.apply(self.evaluator, U))

    def pairwise(self, X: Tensor, Y: Tensor) -> ScaledSum:
        """Return S(X_i * Y_j), each result (..., n, n'), for X (..., n, d) and Y (..., n', d)."""
        batch = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2])
        return ScaledSum(
            *_Pairwise.apply(self.evaluator, X.expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:]))
        )

    def symmetric(self, X: Tensor) -> ScaledSum:
        """Return ``pairwise(X, X)``, by the core's half-cost sum where no gradient is wanted."""
        if X.requires_grad and torch.is_grad_enabled():
            return self.pairwise(X, X)
        return self.evaluator.symmetric(X)
