"""Gram matrices of formulas in a re-weighted kernel: their values, and the way of gradients back through them."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, chunks, constant, joined, per_pair
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.evaluation.prepared import MAX_ENTRIES, SumForm
from mkbo_plugins.core.reweighted.block import Block, with_diagonal
from mkbo_plugins.core.reweighted.formulas import Formula, Side


class DifferentiableSum(Protocol):
    """A host's way to differentiate the sum S of a re-weighted kernel more than once."""

    @staticmethod
    def constant(points: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Return points as ones that are not differentiated."""

    def __call__(
        self, form: SumForm, U: Float[Array, "*batch d"], log_scale: Float[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        """Return ``S(U) exp(-log_scale)``, (...), at points U (..., d), with its derivatives in U."""


@dataclass(frozen=True, eq=False)
class Gram:
    """A formula between two sets of points, made by `gram`.

    Parameters
    ----------
    value
        The matrices, (..., n, m), or, of points paired row by row, (..., n).
    shapes
        Shapes of both sets of points, (..., n, d) and (..., m, d).
    leading
        Leading shape of the value: of batches, or of points paired row by row.
    size
        Number b of batches, n and m; points paired row by row are batches of one, batches of one that meet the same
        points are one batch.
    elementwise
        Whether points are paired row by row.
    symmetric
        Whether the second set is the first.
    blocks
        What the value is made of: runs of batches, or, where there is one, of its rows; none where it is constant.
    """

    value: Float[Array, "..."]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    leading: tuple[int, ...]
    size: tuple[int, int, int]
    elementwise: bool
    symmetric: bool
    blocks: "tuple[Block, ...]" = ()

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... d"], Float[Array, "... d"] | None]:
        """Pull a gradient with respect to the value back to both points.

        Parameters
        ----------
        upstream
            Gradient with respect to the value, of its shape.
        second
            Whether the gradient with respect to the second argument is wanted.

        Returns
        -------
        tuple of arrays
            Gradients with respect to the first and the second argument, of their shapes; None in place of the second
            where it is not wanted. Where the second argument is the first, each is half of the gradient with respect to
            it.
        """
        xp = array_namespace(upstream)
        if not self.blocks:
            zeros = [xp.zeros(shape, dtype=upstream.dtype, device=upstream.device) for shape in self.shapes]
            return zeros[0], zeros[1] if second else None
        slope = xp.reshape(xp.astype(upstream, xp.float64), self.size)
        if self.symmetric:
            # Points on both sides feel only the symmetric part of a slope.
            slope = (slope + slope.mT) / 2
        axis = int(self.size[0] == 1)
        step = self.blocks[0].value.shape[axis]
        slopes = (slope[(slice(None),) * axis + (part,)] for part in chunks(self.size[axis], step))
        both = second and not self.symmetric
        pulled = [block.vjp(part, second=both) for block, part in zip(self.blocks, slopes, strict=True)]
        firsts, seconds = (list(gradients) for gradients in zip(*pulled, strict=True))
        of_x = self._summed(joined(firsts, axis), 0, upstream.dtype)
        if not both:
            return of_x, of_x if second else None
        return of_x, self._summed(sum(seconds) if axis else joined(seconds, 0), 1, upstream.dtype)

    def _summed(self, gradient: Float[Array, "b n d"], argument: int, dtype: Any) -> Float[Array, "... d"]:
        """Sum a gradient (b, n, d) over the copies that broadcasting made of an argument."""
        xp = array_namespace(gradient)
        shape = self.shapes[argument]
        if math.prod(gradient.shape) == math.prod(shape):
            return xp.astype(xp.reshape(gradient, shape), dtype)
        whole = (*self.leading, *shape[-1 if self.elementwise else -2 :])
        padded = (*(1 for _ in range(len(whole) - len(shape))), *shape)
        copied = tuple(axis for axis, sizes in enumerate(zip(whole, padded, strict=True)) if sizes[0] != sizes[1])
        gradient = xp.reshape(gradient, whole)
        return xp.astype(xp.reshape(xp.sum(gradient, axis=copied) if copied else gradient, shape), dtype)


def gram(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Float[Array, "... d"],
    Y: Float[Array, "... d"] | None = None,
    *,
    elementwise: bool = False,
) -> Gram:
    """Evaluate a formula between points (..., n, d) and (..., m, d), all with all, or (..., n, d) row by row.

    Parameters
    ----------
    formula
        The formula.
    evaluator
        Evaluator of the undamped kernel, and the free kernel that damps each argument.
    X, Y
        Points whose leading shapes broadcast; None means Y is X.
    elementwise
        Pair X with Y row by row instead of all with all.
    """
    xp = array_namespace(X)
    shapes = (tuple(X.shape), tuple(X.shape if Y is None else Y.shape))
    left = xp.astype(X, xp.float64)
    right = None if Y is None else xp.astype(Y, xp.float64)
    if elementwise:
        left, right = left[..., None, :], None if right is None else right[..., None, :]
    leading = np.broadcast_shapes(left.shape[:-2], () if right is None else right.shape[:-2])
    b, n, m = math.prod(leading), left.shape[-2], (left if right is None else right).shape[-2]
    shape = leading if elementwise else (*leading, n, m)
    # Points of one batch each that all meet the same others are one set.
    if alone := right is not None and right.ndim == 2 and n == 1 < m:
        b, n = 1, b
    made = (shapes, leading, (b, n, m), elementwise, Y is None)
    if 0 in (b, n, m):
        return Gram(xp.zeros(shape, dtype=X.dtype, device=left.device), *made)
    if n == m == 1 and formula.of_equal_points is not None and (right is None or bool(xp.all(left == right))):
        return Gram(xp.full(shape, formula.of_equal_points, dtype=X.dtype, device=left.device), *made)
    left = xp.reshape(left, (-1, X.shape[-1])) if alone else _in_batches(left, leading)
    right = None if right is None else _in_batches(right, leading)
    axis = int(b == 1)
    # Several arrays of a block's size are there at once, of batches with an axis of coordinates on the way back.
    parts = chunks(n, MAX_ENTRIES // 4 // m) if axis else chunks(b, MAX_ENTRIES // 4 // (n * m * X.shape[-1]))
    others = left if right is None and axis and n * m > MAX_ENTRIES // 4 else right
    blocks = [
        Block(formula, evaluator, left[part, :], others)
        if axis
        else Block(formula, evaluator, *(Z if Z is None or Z.ndim == 2 else Z[part, ...] for Z in (left, right)))
        for part in parts
    ]
    value = joined([block.value for block in blocks], axis)
    # Cut into runs of rows, the two sides are different sets, whose sums may round differently.
    if others is not right:
        value = with_diagonal(formula, (value + value.mT) / 2)
    return Gram(xp.astype(xp.reshape(value, shape), X.dtype), *made, tuple(blocks))


def composed(
    formula: Formula,
    evaluator: CertifiedEvaluator,
    X: Float[Array, "... d"],
    Y: Float[Array, "... d"] | None,
    S: DifferentiableSum,
    *,
    elementwise: bool = False,
) -> Float[Array, "..."]:
    """Return what `gram` evaluates, composed of operations that a host differentiates as often as it likes.

    Bounds, and values of equal points, are only approached, since to set them would take their derivatives. It costs an
    evaluation of S at every product of two points, (..., n, m, d).

    Parameters
    ----------
    formula, evaluator, X, Y, elementwise
        As for `gram`.
    S
        The host's way to differentiate S.
    """
    assert evaluator.norm is None  # no host differentiates a re-weighted normalised kernel
    xp = array_namespace(X)
    d = X.shape[-1]
    points = evaluator.prepare(*(None if Z is None else S.constant(xp.reshape(Z, (-1, d))) for Z in (X, Y)))
    sides = []
    for Z, P in zip((X, X if Y is None else Y), points, strict=True):
        # Scales only keep numbers in range and cancel in the value, so they are no functions of the points.
        half = constant(xp.reshape(P.half_log_scale, Z.shape[:-1]), Z)
        vanishing = xp.reshape(P.vanishing, Z.shape[:-1])
        sides.append(Side(S(P.form, Z * Z, 2 * half), half, evaluator.base.log_damping(Z), vanishing))
    pairs = [per_pair(a, b, elementwise=elementwise) for a, b in zip(*sides, strict=True)]
    x, y = (Side(*side) for side in zip(*pairs, strict=True))
    right = X if Y is None else Y
    U = X * right if elementwise else X[..., :, None, :] * right[..., None, :, :]
    return formula.value(S(points[0].form, U, x.half_log_scale + y.half_log_scale), x, y)


def _in_batches(Z: Float[Array, "... n d"], leading: tuple[int, ...]) -> Float[Array, "... n d"]:
    """Return points (..., n, d) as (b, n, d), or as (n, d) where all batches share them or there is one batch."""
    xp = array_namespace(Z)
    size = Z.shape[-2:]
    if Z.ndim == 2 or math.prod(leading) == 1:
        return xp.reshape(Z, size)
    return xp.reshape(xp.broadcast_to(Z, (*leading, *size)), (-1, *size))
