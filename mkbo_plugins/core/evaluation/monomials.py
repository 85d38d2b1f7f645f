"""Sets of monomials, evaluated together.

``theta_k(x) = prod_j x_j^{k_j}`` for exponents k. Every monomial but the constant is one coordinate times another
monomial of the set, its parent, so that a set costs one product per monomial and point.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from array_api_compat import device
from jaxtyping import Bool, Float, Int

from mkbo_plugins.core.arrays import Array, array_namespace, constant

NEGLIGIBLE = 1e-140
"""Coordinates closer to zero than this count as this: a monomial can then be divided by any of its coordinates, and
the square of a value is still a number."""


@dataclass(frozen=True, eq=False)
class Monomials:
    """A set of monomials in order of degree, closed under parents.

    Parameters
    ----------
    exponents
        Exponents k, (M, d), the first of them zero.
    parents
        Index of each monomial's parent, (M,); the first one's is not used.
    raised
        Coordinate by which each monomial differs from its parent, (M,).
    """

    exponents: Int[np.ndarray, "M d"]
    parents: Int[np.ndarray, " M"]
    raised: Int[np.ndarray, " M"]

    def __len__(self) -> int:
        return len(self.exponents)

    @cached_property
    def float_exponents(self) -> Float[np.ndarray, "M d"]:
        """Exponents as numbers to calculate with, (M, d)."""
        return self.exponents.astype(float)

    @cached_property
    def degrees(self) -> Int[np.ndarray, " M"]:
        """Degree of each monomial, (M,)."""
        return self.exponents.sum(axis=1)

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """Bounds of the runs of equal degree, from 0 to M."""
        changes = np.flatnonzero(np.diff(self.degrees)) + 1
        return (0, *(int(change) for change in changes), len(self))

    def evaluate(self, X: Float[Array, "n d"]) -> Float[Array, "M n"]:
        """Return theta_k at points X (n, d), transposed, (M, n)."""
        xp = array_namespace(X)
        if X.shape[0] == 1:
            return self._at_point(X[0, ...])[:, None]
        columns = X.mT
        values = xp.empty((len(self), X.shape[0]), dtype=X.dtype, device=device(X))
        values[:1, :] = 1.0
        parents, raised = [xp.asarray(index, device=device(X)) for index in (self.parents, self.raised)]
        for start, stop in pairwise(self.layers[1:]):
            layer = xp.take(values, parents[start:stop], axis=0)
            layer *= xp.take(columns, raised[start:stop], axis=0)
            values[start:stop, :] = layer
        return values

    def _at_point(self, x: Float[Array, " d"]) -> Float[Array, " M"]:
        """Return theta_k at one point, (M,), as products of powers: of short rows, layers would be too many."""
        xp = array_namespace(x)
        powers = x[:, None] ** constant(np.arange(self.degrees[-1] + 1.0), x)
        first, *others = (xp.asarray(exponents, device=device(x)) for exponents in self._columns)
        values = xp.take(powers[0, :], first)
        for j, exponents in enumerate(others, 1):
            values *= xp.take(powers[j, :], exponents)
        return values

    @cached_property
    def _columns(self) -> Int[np.ndarray, "d M"]:
        """Exponents of each coordinate, one after the other in memory."""
        return np.ascontiguousarray(self.exponents.T)

    def vjp(
        self, X: Float[Array, "n d"], values: Float[Array, "M n"], upstream: Float[Array, "M n"]
    ) -> Float[Array, "n d"]:
        """Pull a gradient with respect to the values (M, n) at X back to X, (n, d), which must be `nonzero`."""
        of_logarithms = constant(self.float_exponents.T, X) @ (upstream * values)
        return of_logarithms.mT / X


def nonzero(X: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return coordinates with those nearer to zero than `NEGLIGIBLE` moved there."""
    xp = array_namespace(X)
    return xp.where(xp.abs(X) < NEGLIGIBLE, xp.full_like(X, NEGLIGIBLE), X)


def subset(monomials: Monomials, mask: Bool[np.ndarray, " M"]) -> Monomials:
    """Return the kept monomials, a mask (M,) that holds every parent of what it holds."""
    position = np.cumsum(mask) - 1
    return Monomials(monomials.exponents[mask], position[monomials.parents[mask]], monomials.raised[mask])
