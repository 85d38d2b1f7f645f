"""Results kept for arrays seen a moment ago, as the same points come again at every step of a fit or a search."""

from collections.abc import Callable, Hashable
from typing import Any

from array_api_compat import device

from mkbo_plugins.core.arrays import Array, array_namespace


class ValueCache:
    """A few most recent results with the arrays they are for, compared by value; copies and pickles start empty.

    Parameters
    ----------
    capacity
        Number of results kept.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: list[tuple[Hashable, tuple[Array, ...], Any]] = []

    def get(self, key: Hashable, arrays: tuple[Array, ...], compute: Callable[..., Any]) -> Any:
        """Return the result for a key and arrays, computed from copies of the arrays where it is not known."""
        for entry in self._entries:
            if entry[0] == key and _equal(entry[1], arrays):
                self._keep(entry)
                return entry[2]
        copies = tuple([array_namespace(a).asarray(a, copy=True) for a in arrays])
        result = compute(*copies)
        self._keep((key, copies, result))
        return result

    def _keep(self, entry: tuple[Hashable, tuple[Array, ...], Any]) -> None:
        # Assigned at once, so that threads see a whole list.
        self._entries = [entry, *[other for other in self._entries if other is not entry]][: self._capacity]

    def __deepcopy__(self, memo: dict[int, Any]) -> "ValueCache":
        return ValueCache(self._capacity)

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueCache, (self._capacity,)


def _equal(stored: tuple[Array, ...], arrays: tuple[Array, ...]) -> bool:
    """Return whether arrays are the same by value, shape, type and place."""
    if len(stored) != len(arrays):
        return False
    for a, b in zip(stored, arrays, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype or type(a) is not type(b) or device(a) != device(b):
            return False
        if not bool(array_namespace(a).all(a == b)):
            return False
    return True
