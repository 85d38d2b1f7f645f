"""The fixed parts of a covariance as differentiable PyTorch functions, without a graph over pairs or features."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mkbo_plugins.core.components.several import FixedParts


class _Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fixed: FixedParts, name: str, elementwise: bool, X: Tensor, Y: Tensor | None) -> Tensor:
        value = _tensor(fixed.part(name, _array(X), None if Y is None else _array(Y), elementwise=elementwise), X)
        ctx.fixed, ctx.name, ctx.elementwise, ctx.same = fixed, name, elementwise, Y is None
        ctx.save_for_backward(X, X if Y is None else Y, value)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, None, None, Tensor, Tensor | None]:
        X, Y, value = ctx.saved_tensors
        second = ctx.same or ctx.needs_input_grad[4]
        of_x, of_y = ctx.fixed.pull_part(
            ctx.name,
            _array(X),
            None if ctx.same else _array(Y),
            _array(value),
            _array(upstream),
            elementwise=ctx.elementwise,
            second=second,
        )
        if ctx.same:
            return None, None, None, _tensor(of_x + of_y, X), None
        return None, None, None, _tensor(of_x, X), _tensor(of_y, X) if second else None


def _array(tensor: Tensor) -> Any:
    """Return a tensor as the core should see it: on the host as NumPy, whose small operations cost a fraction."""
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor


def _tensor(array: Any, like: Tensor) -> Tensor:
    return torch.as_tensor(array, dtype=like.dtype, device=like.device)


def part(fixed: FixedParts, name: str, X: Tensor, Y: Tensor | None, *, elementwise: bool = False) -> Tensor:
    """Return `FixedCovariance.part` at tensors, differentiable once in both of them.

    Parameters
    ----------
    fixed, name, elementwise
        As for `FixedCovariance.part`.
    X, Y
        Frame coordinates, (..., n, d) and (..., n', d) with leading shapes that broadcast; None means Y is X.
    """
    if Y is not None and (Y.requires_grad or Y.ndim > 2 or elementwise):
        batch = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2])
        X, Y = X.expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:])
    return _Part.apply(fixed, name, elementwise, X, Y)
