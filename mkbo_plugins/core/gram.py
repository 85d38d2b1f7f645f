"""Gram matrices of formulas in a re-weighted kernel, and the way of gradients back through them.

A formula combines ``K^E(x, y)``, both diagonals and the damping of both points. Each states its value and the
derivatives of it once; blocks of bounded memory, batches and the symmetric case are dealt with here.
"""

import math
from typing import NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, equal_points, per_pair, runs
from mkbo_plugins.core.evaluator import CertifiedEvaluator
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.prepared import MAX_ENTRIES, Prepared, SumForm


class Side(NamedTuple):
    """What a formula sees of one argument; each array is (..., n)."""

    diagonal: Array
    """Mantissa of ``S(x * x)`` on the scale ``2 half_log_scale``."""
    half_log_scale: Array
    log_damping: Array
    vanishing: Array


class SideGradient(NamedTuple):
    """A gradient with respect to the diagonal and the damping of one argument; None where there is none."""

    diagonal: Array | None = None
    log_damping: Array | None = None

    def summed(self, axis: int) -> "SideGradient":
        """Return the sums over one axis."""
        return SideGradient(*(None if part is None else array_namespace(part).sum(part, axis=axis) for part in self))


class Derivatives(NamedTuple):
    """A gradient pulled back to the inputs of a formula."""

    between: Array
    x: SideGradient
    y: SideGradient


class Formula(Protocol):
    """A function of a re-weighted kernel between two points; arrays of one point broadcast with those of pairs."""

    @property
    def of_equal_points(self) -> float | None:
        """The value between equal points where that is a constant."""

    @staticmethod
    def value(between: Array, x: Side, y: Side) -> Array:
        """Return the value from the mantissa of ``S(x * y)``."""

    @staticmethod
    def derivatives(upstream: Array, value: Array, x: Side, y: Side) -> Derivatives:
        """Return upstream times the derivatives, of the shape of `value`."""


def evaluate(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Array,
    Y: Array | None = None,
    *,
    elementwise: bool = False,
) -> Array:
    """Return a formula between points (..., n, d) and (..., n', d), (..., n, n'), or row by row, (..., n).

    Parameters
    ----------
    formula
        The formula.
    evaluator
        Evaluator of the undamped kernel, and the free kernel that damps each argument.
    X, Y
        Points; None means Y is X.
    elementwise
        Pair X with Y row by row instead of all with all.
    """
    xp = array_namespace(X)
    if not elementwise and _single(X, Y):
        return evaluate(formula, evaluator, *_without_axis(X, Y), elementwise=True)[..., None, None]
    left, right, shape = _common(X, Y, elementwise=elementwise)
    n = left.shape[-2]
    m = n if right is None else right.shape[-2]
    if elementwise:
        parts = [
            _rowwise(formula, evaluator, left[rows, :], None if right is None else right[rows, :])
            for rows in runs(n, MAX_ENTRIES // 8)
        ]
        return xp.astype(xp.reshape(xp.concat(parts), shape), X.dtype)
    if left.ndim > 2:
        parts = [
            _block(formula, evaluator, left[batch, :, :], None if right is None else right[batch, :, :])
            for batch in runs(left.shape[0], MAX_ENTRIES // 4 // max(1, n * m))
        ]
        return xp.astype(xp.reshape(xp.concat(parts), shape), X.dtype)
    blocks = list(runs(n, MAX_ENTRIES // 4 // max(1, m)))
    if len(blocks) == 1:
        return xp.astype(xp.reshape(_block(formula, evaluator, left, right), shape), X.dtype)
    result = xp.empty((n, m), dtype=X.dtype, device=left.device)
    for rows in blocks:
        if right is not None:
            result[rows, :] = xp.astype(_block(formula, evaluator, left[rows, :], right), X.dtype)
            continue
        result[rows, rows] = xp.astype(_block(formula, evaluator, left[rows, :], None), X.dtype)
        if rows.stop < n:
            rest = slice(rows.stop, n)
            value = xp.astype(_block(formula, evaluator, left[rows, :], left[rest, :]), X.dtype)
            result[rows, rest] = value
            result[rest, rows] = xp.matrix_transpose(value)
    return xp.reshape(result, shape)


def pull(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Array,
    Y: Array | None,
    value: Array,
    upstream: Array,
    *,
    elementwise: bool = False,
    second: bool = True,
) -> tuple[Array, Array | None]:
    """Pull a gradient with respect to what `evaluate` returned back to both points.

    Parameters
    ----------
    formula, evaluator, X, Y, elementwise
        As for `evaluate`.
    value
        What it returned.
    upstream
        Gradient with respect to it, of its shape.
    second
        Whether the gradient with respect to the second argument is wanted.

    Returns
    -------
    tuple of arrays
        Gradients with respect to the first and the second argument, of the shapes of X and Y (or X); None in place of
        the second where it is not wanted.
    """
    xp = array_namespace(X)
    if not elementwise and _single(X, Y):
        arguments = (*_without_axis(X, Y), value[..., 0, 0], upstream[..., 0, 0])
        of_x, of_y = pull(formula, evaluator, *arguments, elementwise=True, second=second)
        return of_x[..., None, :], None if of_y is None else of_y[..., None, :]
    left, right, _ = _common(X, Y, elementwise=elementwise)
    if second and not elementwise and Y is not None and right is not None and right.ndim == 2 < Y.ndim:
        return _pull_shared(formula, evaluator, X, right, value, upstream, Y.shape)
    other = left if right is None else right
    n, m = left.shape[-2], other.shape[-2]
    value, upstream = (xp.astype(array, xp.float64) for array in (value, upstream))
    if elementwise:
        value, upstream = (xp.reshape(array, (-1,)) for array in (value, upstream))
        parts = [
            _pull_rowwise(
                formula,
                evaluator,
                left[rows, :],
                None if right is None else right[rows, :],
                value[rows],
                upstream[rows],
            )
            for rows in runs(n, MAX_ENTRIES // 8)
        ]
        of_x, of_y = (xp.concat(part) for part in zip(*parts, strict=True))
    else:
        value, upstream = (xp.reshape(array, (*left.shape[:-1], m)) for array in (value, upstream))
        of_x, of_y = xp.zeros_like(left), xp.zeros_like(other)
        batched = left.ndim > 2
        for part in runs(left.shape[0], MAX_ENTRIES // 4 // max(1, n * m if batched else m)):
            of_x[part, ...], more = _pull_block(
                formula,
                evaluator,
                left[part, ...],
                other[part, ...] if batched else other,
                value[part, ...],
                upstream[part, ...],
                second=second,
            )
            if more is not None and batched:
                of_y[part, ...] = more
            elif more is not None:
                of_y += more
    of_x = xp.astype(_summed_to(of_x, X.shape), X.dtype)
    return of_x, xp.astype(_summed_to(of_y, X.shape if Y is None else Y.shape), X.dtype) if second else None


def _single(X: Array, Y: Array | None) -> bool:
    """Return whether every Gram matrix has one entry, so that points are paired row by row."""
    return X.ndim > 2 and X.shape[-2] == 1 and (Y is None or Y.shape[-2] == 1)


def _without_axis(X: Array, Y: Array | None) -> tuple[Array, Array | None]:
    return X[..., 0, :], None if Y is None else Y[..., 0, :]


def _common(X: Array, Y: Array | None, *, elementwise: bool) -> tuple[Array, Array | None, tuple[int, ...]]:
    """Bring both points to float64 and at most one batch axis; return them with the shape of the result.

    A batch that pairs many points with one and the same set Y is one larger set of points.
    """
    xp = array_namespace(X)
    X = xp.astype(X, xp.float64)
    d = X.shape[-1]
    if Y is None:
        if elementwise:
            return xp.reshape(X, (-1, d)), None, X.shape[:-1]
        shape = (*X.shape[:-1], X.shape[-2])
        return (X, None, shape) if X.ndim == 2 else (xp.reshape(X, (-1, *X.shape[-2:])), None, shape)
    Y = xp.astype(Y, xp.float64)
    if elementwise:
        X, Y = xp.broadcast_arrays(X, Y)
        return xp.reshape(X, (-1, d)), xp.reshape(Y, (-1, d)), X.shape[:-1]
    if Y.ndim > 2 and math.prod(Y.shape[:-2]) > 0:
        stacked = xp.reshape(Y, (-1, *Y.shape[-2:]))
        if bool(xp.all(stacked == stacked[:1, ...])):
            shape = (*np.broadcast_shapes(X.shape[:-2], Y.shape[:-2]), X.shape[-2], Y.shape[-2])
            X = xp.broadcast_to(X, (*shape[:-2], *X.shape[-2:]))
            return xp.reshape(X, (-1, d)), stacked[0, ...], shape
    if Y.ndim == 2:
        return xp.reshape(X, (-1, d)), Y, (*X.shape[:-1], Y.shape[-2])
    batch = np.broadcast_shapes(X.shape[:-2], Y.shape[:-2])
    left, right = (xp.reshape(xp.broadcast_to(Z, (*batch, *Z.shape[-2:])), (-1, *Z.shape[-2:])) for Z in (X, Y))
    return left, right, (*batch, X.shape[-2], Y.shape[-2])


def _summed_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over copies of points that were made by broadcasting."""
    xp = array_namespace(gradient)
    copies = math.prod(gradient.shape) // max(1, math.prod(shape))
    if copies > 1 and math.prod(shape):
        gradient = xp.sum(xp.reshape(gradient, (copies, -1)), axis=0)
    return xp.reshape(gradient, shape)


def _sides(base: FreeKernel, P: Prepared, Q: Prepared, *, elementwise: bool) -> tuple[Side, Side]:
    """Return both arguments as a formula sees them, shaped so that they combine per pair."""

    def of(R: Prepared) -> Side:
        return Side(R.diagonal, R.half_log_scale, base.log_damping(R.points), R.vanishing)

    pairs = [per_pair(a, b, elementwise=elementwise) for a, b in zip(of(P), of(Q), strict=True)]
    return Side(*(a for a, _ in pairs)), Side(*(b for _, b in pairs))


def _block(formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array | None) -> Array:
    form, P, Q = evaluator.prepare(X, Y)
    value = formula.value(form.between(P, Q), *_sides(evaluator.base, P, Q, elementwise=False))
    return _between_equal(formula, value, P, Q)


def _between_equal(formula: Formula, value: Array, P: Prepared, Q: Prepared) -> Array:
    """Set entries between points equal by value, where only that decides or Y is X; see `Formula.of_equal_points`."""
    if formula.of_equal_points is None:
        return value
    xp = array_namespace(value)
    if P is Q:
        same = xp.eye(value.shape[-1], dtype=xp.bool, device=value.device)
        if not bool(xp.any(P.vanishing)):
            return xp.where(same, xp.full_like(value, formula.of_equal_points), value)
    elif not bool(xp.any(P.vanishing) & xp.any(Q.vanishing)):
        return value
    equal = equal_points(P.points, Q.points, elementwise=False)
    return xp.where(equal, xp.full_like(value, formula.of_equal_points), value)


def _rowwise(formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array | None) -> Array:
    xp = array_namespace(X)
    if formula.of_equal_points is not None and (Y is None or bool(xp.all(X == Y))):
        return xp.full_like(X[..., 0], formula.of_equal_points)
    form, P, Q = evaluator.prepare(X, Y)
    between = P.diagonal if Y is None else form.rowwise(P, Q)
    value = formula.value(between, *_sides(evaluator.base, P, Q, elementwise=True))
    if formula.of_equal_points is None:
        return value
    equal = equal_points(P.points, Q.points, elementwise=True)
    return xp.where(equal, xp.full_like(value, formula.of_equal_points), value)


def _pull_block(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Array,
    Y: Array,
    value: Array,
    upstream: Array,
    *,
    second: bool,
) -> tuple[Array, Array | None]:
    form, P, Q = evaluator.prepare(X, Y)
    found = formula.derivatives(upstream, value, *_sides(evaluator.base, P, Q, elementwise=False))
    of_x, of_y = form.pull_between(P, Q, found.between, second=second)
    of_x = of_x + _pull_side(evaluator.base, form, P, found.x.summed(-1))
    return of_x, None if of_y is None else of_y + _pull_side(evaluator.base, form, Q, found.y.summed(-2))


def _pull_rowwise(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Array,
    Y: Array | None,
    value: Array,
    upstream: Array,
) -> tuple[Array, Array]:
    if formula.of_equal_points is not None and (Y is None or bool(array_namespace(X).all(X == Y))):
        return 0 * X, 0 * X  # an extreme value of both formulas that have one
    form, P, Q = evaluator.prepare(X, Y)
    found = formula.derivatives(upstream, value, *_sides(evaluator.base, P, Q, elementwise=True))
    if Y is None:
        half = form.pull_diagonal(P, found.between) / 2
        of_x, of_y = half, half
    else:
        of_x, of_y = form.pull_rowwise(P, Q, found.between)
    of_x = of_x + _pull_side(evaluator.base, form, P, found.x)
    return of_x, of_y + _pull_side(evaluator.base, form, Q, found.y)


def _pull_shared(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Array,
    Y: Array,
    value: Array,
    upstream: Array,
    shape: tuple[int, ...],
) -> tuple[Array, Array]:
    """Pull back to a batch of X (..., n, d) and every copy of the one Y (n', d) it was paired with, of `shape`."""
    xp = array_namespace(X)
    n, d = X.shape[-2:]
    m = Y.shape[0]
    left = xp.astype(xp.reshape(xp.broadcast_to(X, (*value.shape[:-2], n, d)), (-1, n, d)), xp.float64)
    value, upstream = (xp.astype(xp.reshape(array, (-1, n, m)), xp.float64) for array in (value, upstream))
    of_x, of_y = xp.zeros_like(left), xp.zeros((left.shape[0], m, d), dtype=xp.float64, device=left.device)
    for batch in runs(left.shape[0], MAX_ENTRIES // 4 // max(1, n * m * d)):
        flat = xp.reshape(left[batch, ...], (-1, d))
        form, P, Q = evaluator.prepare(flat, Y)
        pulled, known = (xp.reshape(array[batch, ...], (-1, m)) for array in (upstream, value))
        found = formula.derivatives(pulled, known, *_sides(evaluator.base, P, Q, elementwise=False))
        slopes = found.between[..., None] * form.entry_gradients(P, Q)
        of_x[batch, ...] = xp.reshape(xp.sum(slopes * Y, axis=1), (-1, n, d))
        of_y[batch, ...] = xp.sum(xp.reshape(slopes * flat[:, None, :], (-1, n, m, d)), axis=1)
        of_x[batch, ...] += xp.reshape(_pull_side(evaluator.base, form, P, found.x.summed(-1)), (-1, n, d))
        # Both ways back are linear, so that one gradient serves every copy.
        ones = xp.ones_like(Q.diagonal)
        for part, of_one in zip(found.y, (SideGradient(diagonal=ones), SideGradient(log_damping=ones)), strict=True):
            if part is not None:
                per_copy = xp.sum(xp.reshape(part, (-1, n, m)), axis=1)
                of_y[batch, ...] += per_copy[..., None] * _pull_side(evaluator.base, form, Q, of_one)
    return xp.astype(_summed_to(of_x, X.shape), X.dtype), xp.astype(_summed_to(of_y, shape), X.dtype)


def _pull_side(base: FreeKernel, form: SumForm, P: Prepared, gradient: SideGradient) -> Array:
    """Pull a gradient with respect to diagonal and damping, each (..., n), back to the points."""
    of_points = 0 * P.points
    if gradient.diagonal is not None:
        of_points = of_points + form.pull_diagonal(P, gradient.diagonal)
    if gradient.log_damping is not None and base.damping_rate:
        of_points = of_points - 2 * base.damping_rate * gradient.log_damping[..., None] * base.weighted(P.points)
    return of_points
