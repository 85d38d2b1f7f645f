"""The components of several tables together, over the coordinates of all of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import accumulate
from operator import mul
from typing import Any

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.components.components import COMPONENTS, PretrainedComponents
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.forms import of_table
from mkbo_plugins.core.reweighted.gram import DifferentiableSum


@dataclass(frozen=True)
class SeveralTables:
    """The components of several tables, each of which sees some of the coordinates.

    Parameters
    ----------
    members
        The covariance of each table.
    columns
        For each, which of all coordinates it is a function of, in its order.
    """

    members: tuple[PretrainedComponents, ...]
    columns: tuple[tuple[int, ...], ...]
    _rough: ValueCache = field(default_factory=lambda: ValueCache(1), init=False, compare=False, repr=False)

    @classmethod
    def of(cls, views: Sequence[tuple[PretrainedComponents, Float[Array, "n _d"]]]) -> "tuple[SeveralTables, Array]":
        """Put covariances side by side that see the same points, each in coordinates (n, d_i) of its own.

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
        """The same with larger errors, as `PretrainedComponents.coarse`."""
        return replace(self, members=tuple(member.coarse for member in self.members))

    def rough(self, names: Iterable[str], X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> "SeveralTables | None":
        """Return what `PretrainedComponents.rough` does, of a table without one the coarse components."""
        rough = {
            table: self.members[table].rough(plain, X[:, columns], Y[:, columns])
            for table, columns, plain in self._asked(names)
        }
        members = tuple(rough.get(table) or member.coarse for table, member in enumerate(self.members))
        tables = tuple(table for table, member in rough.items() if member is not None)
        return self._rough.get(tables, (), lambda: replace(self, members=members)) if tables else None

    def searched(self, names: Iterable[str], X: Float[Array, "n d"]) -> "SeveralTables":
        """Return the same for a search in the box of points (n, d), as `PretrainedComponents.searched`."""
        searched = {
            table: self.members[table].searched(plain, X[:, columns]) for table, columns, plain in self._asked(names)
        }
        return replace(self, members=tuple(searched.get(table, one) for table, one in enumerate(self.members)))

    def views(self, X: Float[Array, "... n d"]) -> tuple[tuple[PretrainedComponents, Float[Array, "... n _d"]], ...]:
        """Return the covariance of each table with those of the coordinates (..., n, d) that it is a function of."""
        return tuple(
            (member, X[..., list(columns)]) for member, columns in zip(self.members, self.columns, strict=True)
        )

    def correlation(self, X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Return the product of the tables' normalised free kernels, (n, n'): points are alike if all tables say so."""
        pairs = zip(self.views(X), self.views(Y), strict=True)
        return reduce(mul, (member.correlation(x, y) for (member, x), (_, y) in pairs))

    def components(
        self,
        names: Iterable[str],
        X: Float[Array, "... n d"],
        Y: Float[Array, "... m d"] | None = None,
        *,
        elementwise: bool = False,
    ) -> "dict[str, OfColumns]":
        """Return components as `PretrainedComponents.components` does, each table's by the names of `of_table`."""
        names = list(names)
        by_name: dict[str, OfColumns] = {}
        for table, columns, plain in self._asked(names):
            of_y = None if Y is None else Y[..., columns]
            of_table = self.members[table].components(plain, X[..., columns], of_y, elementwise=elementwise)
            by_name |= {plain[key]: OfColumns(part, columns, X.shape[-1]) for key, part in of_table.items()}
        return {name: by_name[name] for name in names}

    def from_point(
        self, names: Iterable[str], x: Float[Array, "1 d"], Y: Float[Array, "m d"]
    ) -> dict[str, "OfColumns"]:
        """Return components as `PretrainedComponents.from_point` does, each table's by the names of `of_table`."""
        names = list(names)
        by_name: dict[str, OfColumns] = {}
        for table, columns, plain in self._asked(names):
            of_table = self.members[table].from_point(plain, x[:, columns], Y[:, columns])
            by_name |= {plain[key]: OfColumns(part, columns, x.shape[-1]) for key, part in of_table.items()}
        return {name: by_name[name] for name in names}

    def _asked(self, names: Iterable[str]) -> Iterator[tuple[int, list[int], dict[str, str]]]:
        """Yield each table that names belong to, with its columns and these names by their plain ones."""
        asked = [(name, *self._names[name]) for name in names]
        for table in {table for _, _, table in asked}:
            plain = {plain: name for name, plain, of in asked if of == table}
            yield table, list(self.columns[table]), plain

    @cached_property
    def _names(self) -> dict[str, tuple[str, int]]:
        """Plain name and table of each component."""
        tables = range(self.tables)
        return {of_table(plain, index, self.tables): (plain, index) for plain in COMPONENTS for index in tables}


@dataclass(frozen=True, eq=False)
class OfColumns:
    """A component, between points or from a point, that is a function of some of all coordinates."""

    component: Any
    columns: list[int]
    dimension: int

    @property
    def value(self) -> Float[Array, "..."]:
        """Its value."""
        return self.component.value

    def vjp(
        self, upstream: Float[Array, "..."], *, second: bool = True
    ) -> tuple[Float[Array, "... d"], Float[Array, "... d"] | None]:
        """Return what `Component.vjp`, or `FromPoint.vjp`, does."""
        of_x, of_y = self.component.vjp(upstream, second=second)
        return self._spread(of_x), None if of_y is None else self._spread(of_y)

    def composed(self, S: DifferentiableSum) -> Float[Array, "..."]:
        """Return what `Component.composed` does."""
        return self.component.composed(S)

    def _spread(self, gradient: Float[Array, "*batch columns"]) -> Float[Array, "*batch d"]:
        """Return a gradient with respect to some columns as one with respect to all."""
        xp = array_namespace(gradient)
        result = xp.zeros((*gradient.shape[:-1], self.dimension), dtype=gradient.dtype, device=gradient.device)
        result[..., self.columns] = gradient
        return result
