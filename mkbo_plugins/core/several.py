"""The fixed parts of covariances pre-trained on several tables, over the coordinates of all of them."""

from dataclasses import dataclass

from array_api_compat import array_namespace

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.covariance import PARTS, FixedCovariance
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


def _spread(gradient: Array, like: Array, columns: list[int]) -> Array:
    """Return a gradient with respect to some columns as one with respect to all."""
    xp = array_namespace(gradient)
    result = xp.zeros((*gradient.shape[:-1], like.shape[-1]), dtype=gradient.dtype, device=gradient.device)
    result[..., columns] = gradient
    return result
