"""A formula in a re-weighted kernel between points of batches: its values, and the way of gradients back through them.

Points that are the same in every batch are evaluated once, with each other and with those of each batch alone.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, equal_points, joined
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.evaluation.prepared import Prepared, batched
from mkbo_plugins.core.reweighted.formulas import Formula, Side
from mkbo_plugins.core.reweighted.shared_rows import SharedRows

KEPT_ENTRIES = 1 << 20
"""Largest array of what belongs to points of all batches that is kept for the next batches, 8 MiB."""


class Block:
    """A formula between points of each of b batches, (b, n, m); points (n, d) are in all of them."""

    def __init__(
        self,
        formula: Formula,
        evaluator: CertifiedEvaluator,
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"] | None,
    ) -> None:
        self.formula, self.evaluator, self.symmetric = formula, evaluator, Y is None
        x = SharedRows.of(X)
        self.rows = (x, x if Y is None else SharedRows.of(Y))
        self.b = max(X.shape[0] if X.ndim > 2 else 1, Y.shape[0] if Y is not None and Y.ndim > 2 else 1)
        self.points = self._prepared()
        # Shaped so that they combine per pair.
        self.sides = self._side(0, (slice(None), slice(None), None)), self._side(1, (slice(None), None, slice(None)))
        self._value = self._with_equal_points(formula.bounded(formula.value(self._between(), *self.sides)))
        self.value = self.rows[1].restore(self.rows[0].restore(self._value, axis=1), axis=2)

    def vjp(
        self, upstream: Float[Array, "b n m"], *, second: bool
    ) -> tuple[Float[Array, "b n d"], Float[Array, "b m d"] | None]:
        """Pull a gradient (b, n, m) back to both points, or, also where they are the same ones, only to the first."""
        x, y = self.rows
        slope = y.sort(x.sort(upstream, axis=1), axis=2)
        slopes = self.formula.derivatives(slope, self._value, *self.sides)
        of_x, of_y = self._vjp_between(slopes.between, second=second)
        gradients = []
        for argument, of_points in enumerate((of_x, of_y) if second else (of_x,)):
            parts = [of_points]
            for pairs, gradient in ((slopes.diagonals, self._of_diagonal), (slopes.log_dampings, self._of_damping)):
                if pairs is not None:
                    summed = array_namespace(upstream).sum(pairs[argument], axis=2 - argument)
                    parts.append(summed[..., None] * gradient(argument))
            gradients.append(self.rows[argument].restore(sum(parts), axis=1))
        return gradients[0], gradients[1] if second else None

    def _prepared(self) -> tuple[tuple[Prepared | None, Prepared | None], ...]:
        """Return own and shared points of both arguments, made ready together for one way to evaluate S."""
        different = self.rows[:1] if self.symmetric else self.rows
        sets = [Z for rows in different for Z in (rows.own, rows.shared) if Z.shape[0]]
        n, m = [rows.own.shape[0] + rows.shared.shape[0] for rows in self.rows]
        # Own points meet those of their own batch alone. Rows count as the matrix whose diagonal they are, so that both
        # are evaluated in the same way.
        apart = 0 if n == m == self.b else self.rows[0].own.shape[0] * self.rows[1].own.shape[0]
        ready = iter(self.evaluator.ready(sets, (n, m), n * m - apart + apart // self.b))
        points = [
            (next(ready) if rows.own.shape[0] else None, next(ready) if rows.shared.shape[0] else None)
            for rows in different
        ]
        return points[0], points[-1]

    def _side(self, argument: int, index: tuple[Any, ...]) -> Side:
        """Return one argument as a formula sees it, arrays (b, n) or (1, n), indexed."""
        return Side(*[values[index] for values in self._spread(argument, side)])

    def _between(self) -> Float[Array, "b n m"]:
        """Return the mantissas of ``S(x * y)``, (b, n, m), own points first."""
        (own_x, shared_x), (own_y, shared_y) = self.points
        of_own: list[Array] = []
        of_shared: list[Array] = []
        if own_x is not None and own_y is not None:
            # The matrix of one point with itself is its diagonal, which is there already.
            alone = self.symmetric and self.rows[0].own_count == 1
            of_own.append(own_x.diagonal[:, None, None] if alone else own_x.form.between(own_x, own_y, self.b))
        if own_x is not None and shared_y is not None:
            of_own.append(self._across(own_x, shared_y))
        if shared_x is not None and own_y is not None:
            # The kernel is symmetric: what own points have with shared ones is there already.
            across = of_own[-1] if self.symmetric else self._across(own_y, shared_x)
            of_shared.append(across.mT)
        if shared_x is not None and shared_y is not None:
            both = self._kept("between", shared_x, shared_y, lambda: shared_x.form.between(shared_x, shared_y))
            of_shared.append(both if self.b == 1 else array_namespace(both).tile(both, (self.b, 1, 1)))
        return joined([joined(parts, axis=2) for parts in (of_own, of_shared) if parts], axis=1)

    def _across(self, own: Prepared, shared: Prepared) -> Float[Array, "b k m"]:
        mantissas = own.form.between(own, shared)
        return array_namespace(mantissas).reshape(mantissas, (self.b, -1, shared.points.shape[0]))

    def _kept(self, name: str, P: Prepared, Q: Prepared, compute: Callable[[], Array]) -> Array:
        """Return a result between points that all batches share, which the next batches of a search have too."""
        if self.b == 1 or P.points.shape[0] * Q.points.shape[0] * P.points.shape[1] > KEPT_ENTRIES:
            return compute()
        return self.evaluator.shared(name, P, Q, compute)

    def _with_equal_points(self, value: Float[Array, "b n m"]) -> Float[Array, "b n m"]:
        """Set entries between points equal by value, where only that decides or Y is X; see `of_equal_points`."""
        constant, xp = self.formula.of_equal_points, array_namespace(value)
        if constant is None:
            return value
        x, y = self.sides
        vanishing = bool(xp.any(x.vanishing)) and (self.symmetric or bool(xp.any(y.vanishing)))
        if vanishing or value.shape[1:] == (1, 1):
            X, Y = (self._coordinates(argument) for argument in (0, 1))
            equal = equal_points(X, Y, elementwise=False)
            return xp.where(equal, xp.full_like(value, constant), value)
        return with_diagonal(self.formula, value) if self.symmetric else value

    def _vjp_between(
        self, slope: Float[Array, "b n m"], *, second: bool
    ) -> tuple[Float[Array, "b n d"], Float[Array, "b m d"] | None]:
        """Pull a gradient with respect to `_between` back to both points, own ones first, the scales held constant."""
        (own_x, shared_x), (own_y, shared_y) = self.points
        k, j = self.rows[0].own_count, self.rows[1].own_count
        x_own: list[Any] = []
        x_shared: list[Any] = []
        y_own: list[Any] = []
        y_shared: list[Any] = []
        if own_x is not None and own_y is not None:
            first, other = own_x.form.vjp(own_x, own_y, slope[:, :k, :j], second=second)
            x_own.append(first)
            y_own.append(other)
        if own_x is not None and shared_y is not None:
            copies = second or self.symmetric
            first, other = self._vjp_across(own_x, shared_y, slope[:, :k, j:], copies=copies)
            x_own.append(first)
            (x_shared if self.symmetric else y_shared).append(other)
        if shared_x is not None and own_y is not None and not self.symmetric:
            first, other = self._vjp_across(own_y, shared_x, slope[:, k:, :j].mT, copies=True)
            y_own.append(first)
            x_shared.append(other)
        if shared_x is not None and shared_y is not None:
            first, other = self._vjp_shared(shared_x, shared_y, slope[:, k:, j:], second=second)
            x_shared.append(first)
            y_shared.append(other)
        of_x = joined([sum(parts) for parts in (x_own, x_shared) if parts], axis=1)
        return of_x, joined([sum(parts) for parts in (y_own, y_shared) if parts], axis=1) if second else None

    def _vjp_across(
        self, own: Prepared, shared: Prepared, slope: Float[Array, "b k m"], *, copies: bool
    ) -> tuple[Float[Array, "b k d"], Float[Array, "b m d"] | None]:
        """Pull a gradient (b, k, m) back to own points, (b, k, d), and to every copy of shared ones, (b, m, d)."""
        xp = array_namespace(slope)
        b, k, m = slope.shape
        if not copies:
            # Where shared points need no gradient, own points of all batches meet them as one set.
            first, _ = own.form.vjp(own, shared, xp.reshape(slope, (1, b * k, m)), second=False)
            return batched(first[0, ...], b), None
        gradients = own.form.entry_gradients(own, shared)
        slopes = slope[..., None] * batched(gradients, b)
        of_own = xp.sum(slopes * shared.points[None, None, :, :], axis=2)
        return of_own, xp.sum(slopes * batched(own.points, b)[:, :, None, :], axis=1)

    def _vjp_shared(
        self, P: Prepared, Q: Prepared, slope: Float[Array, "b n m"], *, second: bool
    ) -> tuple[Float[Array, "b n d"], Float[Array, "b m d"] | None]:
        """Pull a gradient (b, n, m) back to every copy of shared points, or only those of the first."""
        xp = array_namespace(slope)
        if self.b == 1:
            return P.form.vjp(P, Q, slope, second=second)
        # Entries between shared points, and their gradients, are the same in all batches; slopes are not.
        gradients = self._kept("gradients", P, Q, lambda: P.form.entry_gradients(P, Q))
        by_row = xp.permute_dims(slope, (1, 0, 2)) @ (gradients * Q.points[None, :, :])
        of_x = xp.permute_dims(by_row, (1, 0, 2))
        if not second:
            return of_x, None
        to_y = xp.permute_dims(gradients * P.points[:, None, :], (1, 0, 2))
        return of_x, xp.permute_dims(xp.permute_dims(slope, (2, 0, 1)) @ to_y, (1, 0, 2))

    def _of_diagonal(self, argument: int) -> Float[Array, "b n d"]:
        """Return the gradient of each diagonal in its point, (b, n, d) or (1, n, d), own points first."""
        (gradient,) = self._spread(argument, lambda P: (P.diagonal_gradient,))
        return gradient

    def _of_damping(self, argument: int) -> Float[Array, "b n d"]:
        """Return the gradient of each log damping in its point, as `_of_diagonal`."""
        return self.evaluator.log_damping_gradient(self._coordinates(argument))

    def _coordinates(self, argument: int) -> Float[Array, "b n d"]:
        (points,) = self._spread(argument, lambda P: (P.points,))
        return points

    def _spread(self, argument: int, of: Callable[[Prepared], tuple[Array, ...]]) -> list[Array]:
        """Return what is made of points of one argument, each (b, n, ...) or (1, n, ...), own points first."""
        own, shared = self.points[argument]
        return self.rows[argument].spread(
            None if own is None else of(own), None if shared is None else of(shared), self.b
        )


def with_diagonal(formula: Formula, value: Float[Array, "b n n"]) -> Float[Array, "b n n"]:
    """Set the diagonal of points with themselves (b, n, n) where it is a constant."""
    if formula.of_equal_points is None:
        return value
    xp = array_namespace(value)
    diagonal = xp.eye(value.shape[-1], dtype=xp.bool, device=value.device)
    return xp.where(diagonal, xp.full_like(value, formula.of_equal_points), value)


def side(P: Prepared) -> Side:
    """Return points made ready by an evaluator as a formula sees them, arrays (n,)."""
    return Side(P.diagonal, P.half_log_scale, P.log_damping, P.vanishing)
