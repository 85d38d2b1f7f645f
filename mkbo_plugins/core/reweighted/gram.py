"""Gram matrices of formulas in a re-weighted kernel, and the way of gradients back through them.

Points that are the same in every batch are evaluated once, with each other and with those of each batch alone.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, runs
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.evaluation.prepared import MAX_ENTRIES
from mkbo_plugins.core.reweighted.batches import Batches
from mkbo_plugins.core.reweighted.blocks import (
    entry_gradients,
    matrix,
    pull_matrix,
    pull_rowwise,
    pull_stacked,
    rowwise,
    stacked,
)
from mkbo_plugins.core.reweighted.formula import Formula

KEPT_ENTRIES = 1 << 20
"""Largest array of what belongs to points of all batches that is kept for the next batches, 8 MiB."""

T = TypeVar("T")


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
    left, right, shape = _paired(X, Y) if elementwise else _batched(X, Y)
    if 0 in shape:
        return xp.zeros(shape, dtype=X.dtype, device=left.device)
    if elementwise:
        found = rowwise(formula, evaluator, left, right)
    else:
        found = _gram(formula, evaluator, left, right, math.prod(shape[:-2]))
    return xp.astype(xp.reshape(found, shape), X.dtype)


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
        the second where it is not wanted. Where Y is None, each is half of the gradient with respect to X.
    """
    xp = array_namespace(X)
    left, right, shape = _paired(X, Y) if elementwise else _batched(X, Y)
    if 0 in shape:
        return xp.zeros_like(X), xp.zeros_like(X if Y is None else Y) if second else None
    value, upstream = (xp.astype(array, xp.float64) for array in (value, upstream))
    if elementwise:
        value, upstream = (xp.reshape(array, (-1,)) for array in (value, upstream))
        of_x, of_y = pull_rowwise(formula, evaluator, left, right, value, upstream)
    else:
        value, upstream = (xp.reshape(array, (-1, *shape[-2:])) for array in (value, upstream))
        if Y is None:
            upstream = (upstream + xp.matrix_transpose(upstream)) / 2
        of_x, of_y = _pull_gram(formula, evaluator, left, right, value, upstream, second=second)
        of_y = of_x if Y is None else of_y
    leading = shape if elementwise else shape[:-2]
    of_x = xp.astype(_summed_to(of_x, X.shape, leading), X.dtype)
    return of_x, xp.astype(_summed_to(of_y, (X if Y is None else Y).shape, leading), X.dtype) if second else None


def _paired(X: Array, Y: Array | None) -> tuple[Array, Array | None, tuple[int, ...]]:
    """Bring points that are paired row by row to float64 and (n, d); return them with the shape of the result."""
    xp = array_namespace(X)
    X, Y = (X, None) if Y is None else xp.broadcast_arrays(X, Y)
    left, right = (None if Z is None else xp.reshape(xp.astype(Z, xp.float64), (-1, Z.shape[-1])) for Z in (X, Y))
    return left, right, X.shape[:-1]


def _batched(X: Array, Y: Array | None) -> tuple[Array, Array | None, tuple[int, ...]]:
    """Bring points to float64, with one batch axis where they had any; return them with the shape of the result."""
    xp = array_namespace(X)
    batch = np.broadcast_shapes(*(Z.shape[:-2] for Z in (X, Y) if Z is not None))

    def brought(Z: Array) -> Array:
        Z = xp.astype(Z, xp.float64)
        size = Z.shape[-2:]
        return Z if Z.ndim == 2 else xp.reshape(xp.broadcast_to(Z, (*batch, *size)), (math.prod(batch), *size))

    left, right = brought(X), None if Y is None else brought(Y)
    return left, right, (*batch, X.shape[-2], (X if Y is None else Y).shape[-2])


def _summed_to(gradient: Array, shape: tuple[int, ...], leading: tuple[int, ...]) -> Array:
    """Sum a gradient of leading axes over copies of points that were made by broadcasting from a shape."""
    xp = array_namespace(gradient)
    whole = (*leading, *shape[-(gradient.ndim - 1) :])
    padded = (*(1 for _ in range(len(whole) - len(shape))), *shape)
    copied = tuple(axis for axis, sizes in enumerate(zip(whole, padded, strict=True)) if sizes[0] != sizes[1])
    gradient = xp.reshape(gradient, whole)
    return xp.reshape(xp.sum(gradient, axis=copied) if copied else gradient, shape)


def _gram(formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array | None, b: int) -> Array:
    """Return a formula between points of each of b batches, (b, n, m); points (n, d) are in all of them."""
    xp = array_namespace(X)
    x = Batches.of(X)
    y = x if Y is None else Batches.of(Y)
    k, j = x.own.shape[1], y.own.shape[1]
    of_own, of_common = [], []
    if k and j:
        of_own.append(stacked(formula, evaluator, x.own, None if Y is None else y.own))
    if k and len(y.common):
        of_own.append(xp.reshape(matrix(formula, evaluator, x.flat, y.common), (b, k, -1)))
    if j and len(x.common):
        across = of_own[-1] if Y is None else xp.reshape(matrix(formula, evaluator, y.flat, x.common), (b, j, -1))
        of_common.append(xp.matrix_transpose(across))
    if len(x.common) and len(y.common):
        shared = _kept(matrix, formula, evaluator, x.common, None if Y is None else y.common, b=b)[None, ...]
        of_common.append(shared if b == 1 else xp.tile(shared, (b, 1, 1)))
    found = _joined([_joined(parts, axis=2) for parts in (of_own, of_common) if parts], axis=1)
    return y.restore(x.restore(found, axis=1), axis=2)


def _pull_gram(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Array,
    Y: Array | None,
    value: Array,
    upstream: Array,
    *,
    second: bool,
) -> tuple[Array, Array]:
    """Pull a gradient (b, n, m) back to X and Y in each batch, (b, n, d) and (b, m, d), or only the first.

    Where Y is None, the gradient is symmetric, and the first argument's alone is returned.
    """
    xp = array_namespace(X)
    x = Batches.of(X)
    y = x if Y is None else Batches.of(Y)
    k, j = x.own.shape[1], y.own.shape[1]
    value, upstream = (y.sort(x.sort(array, axis=1), axis=2) for array in (value, upstream))
    b, n, m = value.shape
    of_x = xp.zeros((b, n, X.shape[-1]), dtype=X.dtype, device=X.device)
    of_y = of_x if Y is None else xp.zeros((b, m, X.shape[-1]), dtype=X.dtype, device=X.device)
    second_too = second and Y is not None
    if k and j:
        corner = value[:, :k, :j], upstream[:, :k, :j]
        own, others = pull_stacked(formula, evaluator, x.own, None if Y is None else y.own, *corner, second=second_too)
        of_x[:, :k, :] += own
        if second_too:
            of_y[:, :j, :] += others
    if k and j < m:
        corner = value[:, :k, j:], upstream[:, :k, j:]
        own, copies = _pull_across(formula, evaluator, x.own, y.common, *corner, second=second or Y is None)
        of_x[:, :k, :] += own
        if copies is not None:
            of_y[:, j:, :] += copies
    if k < n and j and Y is not None:
        corner = xp.matrix_transpose(value[:, k:, :j]), xp.matrix_transpose(upstream[:, k:, :j])
        own, copies = _pull_across(formula, evaluator, y.own, x.common, *corner, second=True)
        of_x[:, k:, :] += copies
        of_y[:, :j, :] += own
    if k < n and j < m:
        corner = value[:, k:, j:], upstream[:, k:, j:]
        firsts, seconds = _pull_common(formula, evaluator, x.common, y.common, *corner, second=second_too)
        of_x[:, k:, :] += firsts
        if second_too:
            of_y[:, j:, :] += seconds
    return x.restore(of_x, axis=1), y.restore(of_y, axis=1)


def _pull_across(
    formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array, value: Array, upstream: Array, *, second: bool
) -> tuple[Array, Array | None]:
    """Pull back to points of each batch X (b, n, d), and to every copy of Y (m, d), which all have in common."""
    xp = array_namespace(X)
    b, n, m = value.shape
    d = X.shape[-1]
    if not second:
        rows = (xp.reshape(array, (b * n, -1)) for array in (value, upstream))
        of_x, _ = pull_matrix(formula, evaluator, xp.reshape(X, (-1, d)), Y, *rows, second=False)
        return xp.reshape(of_x, X.shape), None
    of_x, of_y = [], []
    for batch in runs(b, MAX_ENTRIES // 4 // (n * m * d)):
        points, known = xp.reshape(X[batch, ...], (-1, d)), xp.reshape(value[batch, ...], (-1, m))
        found = entry_gradients(formula, evaluator, points, Y, known)
        slopes = (xp.reshape(part, (-1, n, m, d)) for part in found)
        to_x, to_y = (upstream[batch, ..., None] * slope for slope in slopes)
        of_x.append(xp.sum(to_x, axis=2))
        of_y.append(xp.sum(to_y, axis=1))
    return xp.concat(of_x), xp.concat(of_y)


def _pull_common(
    formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array, value: Array, upstream: Array, *, second: bool
) -> tuple[Array, Array | None]:
    """Pull back to every copy of X (n, d) and Y (m, d), which all batches have in common, or only those of X."""
    xp = array_namespace(X)
    b, n, m = value.shape
    if b == 1:
        of_x, of_y = pull_matrix(formula, evaluator, X, Y, value[0, ...], upstream[0, ...], second=second)
        return of_x[None, ...], None if of_y is None else of_y[None, ...]
    of_x, of_y = [], []
    for rows in runs(n, MAX_ENTRIES // 4 // (m * X.shape[-1])):
        gradients = _kept(entry_gradients, formula, evaluator, X[rows, :], Y, b=b, value=value[0, rows, :])
        by_row = xp.matmul(xp.permute_dims(upstream[:, rows, :], (1, 0, 2)), gradients.of_x)
        of_x.append(xp.permute_dims(by_row, (1, 0, 2)))
        if second:
            to_y = xp.permute_dims(gradients.of_y, (1, 0, 2))
            by_column = xp.matmul(xp.permute_dims(upstream[:, rows, :], (2, 0, 1)), to_y)
            of_y.append(xp.permute_dims(by_column, (1, 0, 2)))
    return _joined(of_x, axis=1), sum(of_y) if second else None


def _kept(
    compute: Callable[..., T],
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Array,
    Y: Array | None,
    *,
    b: int,
    **known: Array,
) -> T:
    """Return a result for points that b batches have in common, which the next batches of a search have too."""
    if b == 1 or X.shape[0] * (X if Y is None else Y).shape[0] * X.shape[1] > KEPT_ENTRIES:
        return compute(formula, evaluator, X, Y, **known)
    points = (X,) if Y is None else (X, Y)
    return evaluator.kept(
        (compute, type(formula)),
        points,
        lambda *copies: compute(formula, evaluator, copies[0], copies[1] if Y is not None else None, **known),
    )


def _joined(parts: list[Array], axis: int) -> Array:
    return parts[0] if len(parts) == 1 else array_namespace(*parts).concat(parts, axis=axis)
