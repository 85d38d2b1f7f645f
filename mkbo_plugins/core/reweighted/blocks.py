"""Blocks of the Gram matrices of formulas in a re-weighted kernel, and the way of gradients back through them.

Every function evaluates one formula of an evaluator, in blocks of bounded memory.
"""

from collections.abc import Iterator
from typing import NamedTuple

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array, equal_points, per_pair, runs
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.evaluation.prepared import MAX_ENTRIES, Prepared, SumForm
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.reweighted.formula import Formula, Side, SideGradient


class EntryGradients(NamedTuple):
    """Gradients of each entry between points (n, d) and (m, d) in both of them, (n, m, d)."""

    of_x: Array
    of_y: Array


def matrix(formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array | None) -> Array:
    """Return a formula between points (n, d) and (m, d), (n, m); None means Y is X."""
    xp = array_namespace(X)
    n = X.shape[0]
    m = n if Y is None else Y.shape[0]
    if n == m == 1:
        return rowwise(formula, evaluator, X, Y)[:, None]
    blocks = list(runs(n, MAX_ENTRIES // 4 // max(1, m)))
    if len(blocks) == 1:
        return _block(formula, evaluator, X, Y)
    if Y is not None:
        return xp.concat([_block(formula, evaluator, X[rows, :], Y) for rows in blocks])
    result = xp.empty((n, m), dtype=X.dtype, device=X.device)
    for rows in blocks:
        result[rows, rows] = _block(formula, evaluator, X[rows, :], None)
        if rows.stop < n:
            rest = slice(rows.stop, n)
            value = _block(formula, evaluator, X[rows, :], X[rest, :])
            result[rows, rest] = value
            result[rest, rows] = xp.matrix_transpose(value)
    return result


def stacked(formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array | None) -> Array:
    """Return a formula between points (b, n, d) and (b, m, d) of each batch, (b, n, m); None means Y is X."""
    xp = array_namespace(X)
    n = X.shape[1]
    m = n if Y is None else Y.shape[1]
    if n == m == 1:
        return rowwise(formula, evaluator, X[:, 0, :], None if Y is None else Y[:, 0, :])[:, None, None]
    parts = [
        _block(formula, evaluator, X[batch, ...], None if Y is None else Y[batch, ...])
        for batch in runs(X.shape[0], MAX_ENTRIES // 4 // (n * m))
    ]
    return parts[0] if len(parts) == 1 else xp.concat(parts)


def rowwise(formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array | None) -> Array:
    """Return a formula between points (n, d) and (n, d) row by row, (n,); None means Y is X."""
    parts = [
        _rowwise(formula, evaluator, X[rows, :], None if Y is None else Y[rows, :])
        for rows in runs(X.shape[0], MAX_ENTRIES // 8)
    ]
    return parts[0] if len(parts) == 1 else array_namespace(X).concat(parts)


def pull_matrix(
    formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array, value: Array, upstream: Array, *, second: bool
) -> tuple[Array, Array | None]:
    """Pull a gradient with respect to what `matrix` returned back to both points, or only the first."""
    xp = array_namespace(X)
    if X.shape[0] == Y.shape[0] == 1:
        of_x, of_y = pull_rowwise(formula, evaluator, X, Y, value[:, 0], upstream[:, 0])
        return of_x, of_y if second else None
    found, of_y = [], xp.zeros_like(Y)
    for rows in runs(X.shape[0], MAX_ENTRIES // 4 // Y.shape[0]):
        of_x, more = _pull_block(formula, evaluator, X[rows, :], Y, value[rows, :], upstream[rows, :], second=second)
        found.append(of_x)
        of_y = of_y if more is None else of_y + more
    return found[0] if len(found) == 1 else xp.concat(found), of_y if second else None


def pull_stacked(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Array,
    Y: Array | None,
    value: Array,
    upstream: Array,
    *,
    second: bool,
) -> tuple[Array, Array | None]:
    """Pull a gradient with respect to what `stacked` returned back to both points, or only the first."""
    xp = array_namespace(X)
    n, m = value.shape[1:]
    if n == m == 1:
        points = X[:, 0, :], None if Y is None else Y[:, 0, :]
        of_x, of_y = pull_rowwise(formula, evaluator, *points, value[:, 0, 0], upstream[:, 0, 0])
        return of_x[:, None, :], of_y[:, None, :] if second else None
    parts = [
        _pull_block(
            formula,
            evaluator,
            X[batch, ...],
            None if Y is None else Y[batch, ...],
            value[batch, ...],
            upstream[batch, ...],
            second=second,
        )
        for batch in runs(X.shape[0], MAX_ENTRIES // 4 // (n * m))
    ]
    of_x, of_y = zip(*parts, strict=True)
    return xp.concat(of_x), xp.concat(of_y) if second else None


def pull_rowwise(
    formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array | None, value: Array, upstream: Array
) -> tuple[Array, Array]:
    """Pull a gradient with respect to what `rowwise` returned back to both points, by halves where Y is X."""
    xp = array_namespace(X)
    parts = [
        _pull_rowwise(formula, evaluator, X[rows, :], None if Y is None else Y[rows, :], value[rows], upstream[rows])
        for rows in runs(X.shape[0], MAX_ENTRIES // 8)
    ]
    of_x, of_y = zip(*parts, strict=True)
    return xp.concat(of_x), xp.concat(of_y)


def entry_gradients(
    formula: Formula, evaluator: CertifiedEvaluator, X: Array, Y: Array, value: Array
) -> EntryGradients:
    """Return the gradients of the entries (n, m) that `matrix` returned for points (n, d) and (m, d)."""
    xp = array_namespace(X)
    form, P, Q = evaluator.prepare(X, Y)
    found = formula.derivatives(xp.ones_like(value), value, *_sides(evaluator.base, P, Q, elementwise=False))
    slopes = found.between[..., None] * form.entry_gradients(P, Q)
    of_x, of_y = slopes * Y[None, :, :], slopes * X[:, None, :]
    for part, of_one in _of_ones(evaluator.base, form, P, found.x):
        of_x = of_x + part[..., None] * of_one[:, None, :]
    for part, of_one in _of_ones(evaluator.base, form, Q, found.y):
        of_y = of_y + part[..., None] * of_one[None, :, :]
    return EntryGradients(of_x, of_y)


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
    Y: Array | None,
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


def _of_ones(base: FreeKernel, form: SumForm, P: Prepared, gradient: SideGradient) -> Iterator[tuple[Array, Array]]:
    """Yield the parts of a gradient, each with what a unit of it is in the points, (n, d): both ways are linear."""
    ones = array_namespace(P.points).ones_like(P.diagonal)
    for part, of_one in zip(gradient, (SideGradient(diagonal=ones), SideGradient(log_damping=ones)), strict=True):
        if part is not None:
            yield part, _pull_side(base, form, P, of_one)


def _pull_side(base: FreeKernel, form: SumForm, P: Prepared, gradient: SideGradient) -> Array:
    """Pull a gradient with respect to diagonal and damping, each (..., n), back to the points."""
    of_points = 0 * P.points
    if gradient.diagonal is not None:
        of_points = of_points + form.pull_diagonal(P, gradient.diagonal)
    if gradient.log_damping is not None and base.damping_rate:
        of_points = of_points - 2 * base.damping_rate * gradient.log_damping[..., None] * base.weighted(P.points)
    return of_points
