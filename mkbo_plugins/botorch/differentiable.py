"""The fixed components of a covariance as differentiable PyTorch functions, without a graph over pairs or features."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mkbo_plugins.core.components.beside import components_beside
from mkbo_plugins.core.components.protocols import Component, FixedComponents
from mkbo_plugins.core.evaluation.prepared import SumForm

Evaluated = Callable[..., Mapping[str, Component]]
"""A function from one or two sets of points to components between them."""


class _Components(torch.autograd.Function):
    """Components with the first derivatives that they know, and further ones through what they are composed of."""

    @staticmethod
    def forward(
        ctx: Any, evaluated: Evaluated, X: Float[Tensor, "... n d"], Y: Float[Tensor, "... m d"] | None
    ) -> tuple[Float[Tensor, "..."], ...]:
        ctx.save_for_backward(X, Y)
        ctx.evaluated = evaluated
        ctx.components = evaluated(_array(X), None if Y is None else _array(Y))
        return tuple([_tensor(component.value, X) for component in ctx.components.values()])

    @staticmethod
    def backward(
        ctx: Any, *upstream: Float[Tensor, "..."]
    ) -> tuple[None, Float[Tensor, "... n d"] | None, Float[Tensor, "... m d"] | None]:
        X, Y = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated again
            values = [component.composed(_Differentiable()) for component in ctx.evaluated(X, Y).values()]
            needed = ctx.needs_input_grad[1:]
            wanted = [Z for Z, needs in zip((X, Y), needed, strict=True) if needs]
            gradients = iter(torch.autograd.grad(values, wanted, upstream, create_graph=True))
            of_x, of_y = (next(gradients) if needs else None for needs in needed)
            return None, of_x, of_y
        second = Y is None or ctx.needs_input_grad[2]
        firsts, seconds = [], []
        for component, slope in zip(ctx.components.values(), upstream, strict=True):
            first, other = component.vjp(_array(slope), second=second)
            firsts.append(first)
            seconds.append(other)
        of_x, of_y = sum(firsts), sum(seconds) if second else None
        if Y is None:
            return None, _tensor(of_x + of_y, X), None
        return None, _tensor(of_x, X), None if of_y is None else _tensor(of_y, X)


class _Differentiable:
    """The sum S of a re-weighted kernel with its derivatives, as the core composes functions of it."""

    @staticmethod
    def constant(points: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        return points.detach()

    def __call__(
        self, form: SumForm, U: Float[Tensor, "*batch d"], log_scale: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch"]:
        return _Sum.apply(form, U, log_scale)


class _Sum(torch.autograd.Function):
    """The sum S(U) of a re-weighted kernel on logarithmic scales, (...), at points U (..., d)."""

    @staticmethod
    def forward(
        ctx: Any, form: SumForm, U: Float[Tensor, "*batch d"], log_scale: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch"]:
        ctx.save_for_backward(U, log_scale)
        ctx.form = form
        mantissa, _, scale = form.pointwise(_array(U))
        return _tensor(mantissa, U) * torch.exp(_tensor(scale, U) - log_scale)

    @staticmethod
    def backward(ctx: Any, upstream: Float[Tensor, "*batch"]) -> tuple[None, Float[Tensor, "*batch d"], None]:
        U, log_scale = ctx.saved_tensors
        return None, upstream[..., None] * _Slopes.apply(ctx.form, U, log_scale), None


class _Slopes(torch.autograd.Function):
    """The gradient of `_Sum` in U, (..., d)."""

    @staticmethod
    def forward(
        ctx: Any, form: SumForm, U: Float[Tensor, "*batch d"], log_scale: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch d"]:
        ctx.save_for_backward(U, log_scale)
        ctx.form = form
        return _tensor(form.slopes(_array(U), _array(log_scale)), U)

    @staticmethod
    def backward(ctx: Any, upstream: Float[Tensor, "*batch d"]) -> tuple[None, Float[Tensor, "*batch d"], None]:
        U, log_scale = ctx.saved_tensors
        return None, _Curvatures.apply(ctx.form, U, upstream, log_scale), None


class _Curvatures(torch.autograd.Function):
    """The second derivative of `_Sum` in U along vectors V, (..., d)."""

    @staticmethod
    def forward(
        ctx: Any,
        form: SumForm,
        U: Float[Tensor, "*batch d"],
        V: Float[Tensor, "*batch d"],
        log_scale: Float[Tensor, "*batch"],
    ) -> Float[Tensor, "*batch d"]:
        return _tensor(form.curvatures(_array(U), _array(V), _array(log_scale)), U)

    @staticmethod
    def backward(ctx: Any, upstream: Float[Tensor, "*batch d"]) -> None:
        raise NotImplementedError("a pre-trained covariance has no third derivatives in its inputs")


def _array(tensor: Tensor) -> Any:
    """Return a tensor as the core should see it: on the host as NumPy, whose small operations cost a fraction."""
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def _tensor(array: Any, like: Tensor) -> Tensor:
    return torch.as_tensor(array, dtype=like.dtype, device=like.device)


def components(
    fixed: FixedComponents,
    names: tuple[str, ...],
    X: Float[Tensor, "... n d"],
    Y: Float[Tensor, "... m d"] | None,
    *,
    elementwise: bool = False,
) -> tuple[Float[Tensor, "..."], ...]:
    """Return `PretrainedComponents.components` at tensors, differentiable twice in both of them.

    Parameters
    ----------
    fixed, names, elementwise
        As for `PretrainedComponents.components`.
    X, Y
        Frame coordinates, (..., n, d) and (..., n', d) with leading shapes that broadcast; None means Y is X.
    """
    if Y is not None and (Y.requires_grad or Y.ndim > 2 or elementwise):
        X, Y = _expanded(X, Y)
    return _Components.apply(partial(fixed.components, names, elementwise=elementwise), X, Y) if names else ()


def beside(
    fixed: FixedComponents, names: tuple[str, ...], X: Float[Tensor, "... q d"], Y: Float[Tensor, "... n d"]
) -> tuple[Float[Tensor, "... q nq"], ...]:
    """Return `components_beside` at tensors, differentiable twice in both of them; arguments as for `components`."""
    if Y.requires_grad or Y.ndim > 2:
        X, Y = _expanded(X, Y)
    return _Components.apply(partial(components_beside, fixed, names), X, Y) if names else ()


def _expanded(
    X: Float[Tensor, "... n d"], Y: Float[Tensor, "... m d"]
) -> tuple[Float[Tensor, "*batch n d"], Float[Tensor, "*batch m d"]]:
    batch = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2])
    return X.expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:])
