"""What messages call the rows of a table: by place, counting from 0, or as the file shows them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN_ROWS = 10


@dataclass(frozen=True)
class Origin:
    """Where the rows of a table were read; it is the name of an index that holds their numbers there.

    Parameters
    ----------
    noun
        What a row is called there, ``"line"`` or ``"row"``.
    file
        Name of the file.
    """

    noun: str
    file: str


@dataclass(frozen=True)
class RowNames:
    """Names of the rows of a table.

    Parameters
    ----------
    numbers
        Number of each row; None counts from 0.
    origin
        Where it has this number; None is the table itself, counting from 0.
    """

    numbers: Sequence[int] | None = None
    origin: Origin | None = None

    @classmethod
    def of(cls, table: Any, numbers: Sequence[int] | None = None) -> "RowNames":
        """Return the names of a table's rows; `numbers` are those of a table that was read from no file."""
        index = getattr(table, "index", None)
        origin = getattr(index, "name", None)
        return cls(tuple(index), origin) if isinstance(origin, Origin) else cls(numbers)  # type: ignore[arg-type]

    def only(self, positions: Iterable[int]) -> "RowNames":
        """Return the names of the rows at positions counting from 0."""
        return RowNames([i if self.numbers is None else self.numbers[i] for i in positions], self.origin)

    def at(self, positions: Iterable[int]) -> str:
        """Return the names of rows at positions counting from 0, the first ten of many."""
        numbers = [int(i if self.numbers is None else self.numbers[i]) for i in positions]
        noun, where = (
            ("row", ", counting from 0") if self.origin is None else (self.origin.noun, f" of {self.origin.file}")
        )
        if len(numbers) == 1:
            return f"{noun} {numbers[0]}{where}"
        shown = ", ".join(map(str, numbers[:SHOWN_ROWS])) + (", ..." if len(numbers) > SHOWN_ROWS else "")
        return f"{noun}s [{shown}]{where}"


BY_PLACE = RowNames()
"""Rows called by their place, counting from 0."""
