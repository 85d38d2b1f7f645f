"""The fixed components of a covariance as differentiable PyTorch functions, without a graph over pairs or features."""

from typing import Any

import torch
from torch import Tensor

from mkbo_plugins.core.components.several import FixedComponents


class _Component(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fixed: FixedComponents, name: str, elementwise: bool, X: Tensor, Y: Tensor | None) -> Tensor:
        component = fixed.component(name, _array(X), None if Y is None else _array(Y), elementwise=elementwise)
        ctx.component, ctx.same = component, Y is None
        return _tensor(component.value, X)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, None, None, Tensor, Tensor | None]:
        second = ctx.same or ctx.needs_input_grad[4]
        of_x, of_y = ctx.component.vjp(_array(upstream), second=second)
        if ctx.same:
            return None, None, None, _tensor(of_x + of_y, upstream), None
        return None, None, None, _tensor(of_x, upstream), _tensor(of_y, upstream) if second else None


def _array(tensor: Tensor) -> Any:
    """Return a tensor as the core should see it: on the host as NumPy, whose small operations cost a fraction."""
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor


def _tensor(array: Any, like: Tensor) -> Tensor:
    return torch.as_tensor(array, dtype=like.dtype, device=like.device)


def component(fixed: FixedComponents, name: str, X: Tensor, Y: Tensor | None, *, elementwise: bool = False) -> Tensor:
    """Return `PretrainedComponents.component` at tensors, differentiable in both of them.

    Parameters
    ----------
    fixed, name, elementwise
        As for `PretrainedComponents.component`.
    X, Y
        Frame coordinates, (..., n, d) and (..., n', d) with leading shapes that broadcast; None means Y is X.
    """
    if Y is not None and (Y.requires_grad or Y.ndim > 2 or elementwise):
        batch = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2])
        X, Y = X.expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:])
    return _Component.apply(fixed, name, elementwise, X, Y)
