"""Components between points: a kernel of two arguments, and a formula in a re-weighted one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.reweighted.formulas import Formula
from mkbo_plugins.core.reweighted.gram import DifferentiableSum, Gram, composed, gram


class PullableKernel(Protocol):
    """A kernel of two arguments with the way of gradients back through its Gram matrices."""

    def __call__(self, *points: Array) -> Float[Array, "..."]:
        """Return the kernel between points paired row by row."""

    def gram(self, X: Float[Array, "... n d"], Y: Float[Array, "... m d"] | None = None) -> Float[Array, "... n m"]:
        """Return the kernel between all points."""

    def pull(
        self,
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"],
        upstream: Float[Array, "... n m"],
        *,
        second: bool = True,
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Pull a gradient with respect to ``gram(X, Y)`` back to X and Y."""


@dataclass(frozen=True, eq=False)
class KernelGram:
    """A kernel between points (..., n, d) and (..., n', d), None standing for the same points."""

    kernel: PullableKernel
    X: Float[Array, "... n d"]
    Y: Float[Array, "... m d"] | None
    elementwise: bool

    @cached_property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        if self.elementwise:
            return self.kernel(self.X, self.X if self.Y is None else self.Y)
        return self.kernel.gram(self.X, self.Y)

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Return what `Component.vjp` does."""
        X, Y = self.X, self.X if self.Y is None else self.Y
        if not self.elementwise:
            return self.kernel.pull(X, Y, upstream, second=second)
        of_x, of_y = self.kernel.pull(X[..., None, :], Y[..., None, :], upstream[..., None, None], second=second)
        return of_x[..., 0, :], None if of_y is None else of_y[..., 0, :]

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does: the value, without S."""
        return self.value


@dataclass(frozen=True, eq=False)
class OfReweighted:
    """A formula in a re-weighted kernel between points, evaluated when its value is asked for."""

    formula: Formula
    evaluator: CertifiedEvaluator
    X: Float[Array, "... n d"]
    Y: Float[Array, "... m d"] | None
    elementwise: bool

    @property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        return self._gram.value

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Return what `Component.vjp` does."""
        return self._gram.vjp(upstream, second=second)

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does."""
        return composed(self.formula, self.evaluator, self.X, self.Y, S, elementwise=self.elementwise)

    @cached_property
    def _gram(self) -> Gram:
        return gram(self.formula, self.evaluator, self.X, self.Y, elementwise=self.elementwise)
