"""A formula in a re-weighted kernel between one point, several others and itself, for searches that move the point."""

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, equal_points
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.evaluation.prepared import Prepared
from mkbo_plugins.core.reweighted.block import side
from mkbo_plugins.core.reweighted.formulas import Formula, Side
from mkbo_plugins.core.reweighted.gram import Gram, gram


@dataclass(frozen=True, eq=False)
class PointGram:
    """What `gram` evaluates from one point to m others and, last, to itself, without what batches and blocks need.

    Parameters
    ----------
    formula, evaluator
        As for `gram`.
    x
        The point, (1, d), float64.
    Y
        The other points, (m, d), float64.
    """

    formula: Formula
    evaluator: CertifiedEvaluator
    x: Float[Array, "1 d"]
    Y: Float[Array, "m d"]

    @cached_property
    def value(self) -> Float[Array, "1 n"]:
        """The values, n = m + 1."""
        value = self._between
        constant, xp = self.formula.of_equal_points, array_namespace(value)
        of_itself = xp.full_like(value[:, :1], constant) if constant is not None else self._itself.value[None, :]
        return xp.concat([value, of_itself], axis=1)

    def vjp(self, upstream: Float[Array, "k n"], *, second: bool = True) -> tuple[Float[Array, "k d"], None]:
        """Pull gradients with respect to the value, one a row, back to the first argument, and none to the second."""
        xp = array_namespace(upstream)
        P, Q = self._ready
        slopes = self.formula.derivatives(upstream[:, :-1], self._between, *self._sides)
        of_diagonal = None if slopes.diagonals is None else xp.sum(slopes.diagonals[0], axis=-1)
        of_x = P.form.vjp_of_point(P, Q, slopes.between, of_diagonal, self._from_point[1])
        if slopes.log_dampings is not None:
            of_damping = xp.sum(slopes.log_dampings[0], axis=-1)[:, None]
            of_x = of_x + of_damping * self.evaluator.log_damping_gradient(self.x)
        if self.formula.of_equal_points is not None:
            return of_x, None
        of_itself, _ = self._itself.vjp(xp.ones_like(upstream[0, :1]), second=False)
        return of_x + upstream[:, -1:] * of_itself, None

    @cached_property
    def _from_point(self) -> tuple[Float[Array, "1 m"], Float[Array, "1 m d"] | None]:
        P, Q = self._ready
        return P.form.from_point(P, Q)

    @cached_property
    def _between(self) -> Float[Array, "1 m"]:
        x, y = self._sides
        value = self.formula.bounded(self.formula.value(self._from_point[0], x, y))
        constant, xp = self.formula.of_equal_points, array_namespace(value)
        if constant is None or not (len(self.Y) == 1 or (bool(x.vanishing[0]) and bool(xp.any(y.vanishing)))):
            return value
        return xp.where(equal_points(self.x, self.Y, elementwise=False), xp.full_like(value, constant), value)

    @cached_property
    def _itself(self) -> Gram:
        return gram(self.formula, self.evaluator, self.x, elementwise=True)

    @cached_property
    def _ready(self) -> tuple[Prepared, Prepared]:
        return self.evaluator.ready_from_point(self.x, self.Y)

    @cached_property
    def _sides(self) -> tuple[Side, Side]:
        P, Q = self._ready
        return side(P), side(Q)
