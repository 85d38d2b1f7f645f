"""The fixed parts of covariances pre-trained on several tables, over the coordinates of all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate
from operator import mul
from typing import TypeAlias

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.components.covariance import PARTS, FixedCovariance
from mkbo_plugins.core.forms import of_table


@dataclass(frozen=True)
class SeveralTables:
    """Covariances of several tables, each of which sees some of the coordinates.

    Parameters
    ----------
    members
        The covariance of each table.
    columns
        For each, which of all coordinates it is a function of, in its order.
    """

    members: tuple[FixedCovariance, ...]
    columns: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, views: Sequence[tuple[FixedCovariance, Array]]) -> "tuple[SeveralTables, Array]":
        """Join covariances that each see points in coordinates (n, d_i) of their own.

        Returns
        -------
        covariance
            All of them, over the coordinates of all, one after the other.
        points
            The points in these, (n, sum of d_i).
        """
        members, blocks = zip(*views, strict=True)
        ends = list(accumulate(block.shape[-1] for block in blocks))
        columns = tuple(tuple(range(end - block.shape[-1], end)) for end, block in zip(ends, blocks, strict=True))
        return cls(members, columns), array_namespace(*blocks).concat(blocks, axis=-1)

    @property
    def tables(self) -> int:
        """Number of tables."""
        return len(self.members)

    @cached_property
    def coarse(self) -> "SeveralTables":
        """The same with larger errors, as `FixedCovariance.coarse`."""
        return replace(self, members=tuple(member.coarse for member in self.members))

    def views(self, X: Array) -> tuple[tuple[FixedCovariance, Array], ...]:
        """Return the covariance of each table with those of the coordinates (..., n, d) that it is a function of."""
        return tuple(
            (member, X[..., list(columns)]) for member, columns in zip(self.members, self.columns, strict=True)
        )

    def likeness(self, X: Array, Y: Array) -> Array:
        """Return the product of the tables' normalised free kernels, (n, n'): alike is what is so to each of them."""
        pairs = zip(self.views(X), self.views(Y), strict=True)
        return reduce(mul, (member.likeness(x, y) for (member, x), (_, y) in pairs))

    def part(self, name: str, X: Array, Y: Array | None = None, *, elementwise: bool = False) -> Array:
        """Return a part of one table, named by `of_table`; other arguments as for `FixedCovariance.part`."""
        plain, member, columns = self._find(name)
        return member.part(plain, X[..., columns], None if Y is None else Y[..., columns], elementwise=elementwise)

    def pull_part(
        self,
        name: str,
        X: Array,
        Y: Array | None,
        value: Array,
        upstream: Array,
        *,
        elementwise: bool = False,
        second: bool = True,
    ) -> tuple[Array, Array | None]:
        """Pull a gradient back to both arguments as `FixedCovariance.pull_part` does."""
        plain, member, columns = self._find(name)
        of_x, of_y = member.pull_part(
            plain,
            X[..., columns],
            None if Y is None else Y[..., columns],
            value,
            upstream,
            elementwise=elementwise,
            second=second,
        )
        return _spread(of_x, X, columns), None if of_y is None else _spread(of_y, X if Y is None else Y, columns)

    def _find(self, name: str) -> tuple[str, FixedCovariance, list[int]]:
        tables = len(self.members)
        for index, (member, columns) in enumerate(zip(self.members, self.columns, strict=True)):
            for plain in PARTS:
                if name == of_table(plain, index, tables):
                    return plain, member, list(columns)
        raise KeyError(name)


FixedParts: TypeAlias = FixedCovariance | SeveralTables
"""The fixed parts of one table or of several."""


def _spread(gradient: Array, like: Array, columns: list[int]) -> Array:
    """Return a gradient with respect to some columns as one with respect to all."""
    xp = array_namespace(gradient)
    result = xp.zeros((*gradient.shape[:-1], like.shape[-1]), dtype=gradient.dtype, device=gradient.device)
    result[..., columns] = gradient
    return result
