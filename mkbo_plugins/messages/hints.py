"""What to add to a message so that it can be acted on at once."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

SHOWN = 30
"""Names or levels that a message lists, of many."""


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return a question to add to a message where a name is unknown but close to a known one, else nothing."""
    folded = {str(other).casefold(): other for other in known}
    close = get_close_matches(str(name).casefold(), list(folded), 1)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


def listed(values: Sequence[Any], wanted: object = None) -> str:
    """Return values as a list is written, the first of many and how many there are, and which of all is like another.

    Parameters
    ----------
    values
        Names or levels.
    wanted
        What is unknown, for `did_you_mean`; None asks nothing.
    """
    shown, close = ", ".join(map(repr, values[:SHOWN])), "" if wanted is None else did_you_mean(wanted, values)
    return (f"[{shown}]" if len(values) <= SHOWN else f"[{shown}, ...], {len(values)} of them") + close


def shown_value(value: Any) -> str:
    """Return a value that is no number as messages show it, with what to write where it has a comma."""
    text = f"{value!r:.60}"
    comma = re.fullmatch(r"\s*([+-]?\d+),(\d+)\s*", value) if isinstance(value, str) else None
    if comma is None:
        return text
    point = ".".join(comma.groups())
    if len(comma[2]) == 3:
        return f"{text} with a comma (write {point} or {''.join(comma.groups())})"
    return f"{text} with a decimal comma (write {point})"
