"""Directions: whether large or small targets of tables speak for a good experiment."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from mkbo_plugins.errors import KernelError

Direction: TypeAlias = Literal["same", "opposite", "unknown"]
Directions: TypeAlias = Direction | Sequence[Direction]
"""One direction for all tables, or one for each."""

_SIGNS: Mapping[str, float] = MappingProxyType({"same": 1.0, "opposite": -1.0, "unknown": 0.0})
_TURNED: Mapping[str, Any] = MappingProxyType({"same": "opposite", "opposite": "same"})


def signs_of(direction: Directions, tables: int) -> tuple[float, ...]:
    """Return for each of some tables 1 for ``"same"``, -1 for ``"opposite"`` and 0 for ``"unknown"``.

    Raises
    ------
    KernelError
        If `direction` is neither one of the three words nor one of them for each table.
    """
    words: list[Any] = list(direction) if isinstance(direction, (list, tuple)) else [direction] * tables
    for word in words:
        if not isinstance(word, str) or word not in _SIGNS:
            raise KernelError(f"direction must be 'same', 'opposite' or 'unknown', got {word!r}")
    if len(words) != tables:
        raise KernelError(f"direction must be one word, or one for each of {tables} tables, got {len(words)}")
    return tuple(_SIGNS[word] for word in words)


def turned(direction: Directions) -> Directions:
    """Return directions of values as directions of good experiments, where these have small ones."""
    if isinstance(direction, str):
        return _TURNED.get(direction, direction)
    return [_TURNED.get(word, word) for word in direction]
