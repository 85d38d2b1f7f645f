"""Days on which campaigns were, as ISO 8601 writes them."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

import numpy as np

from mkbo_plugins.errors import TableError
from mkbo_plugins.messages.hints import shown_value
from mkbo_plugins.messages.rows import RowNames


def day_of(value: Any, what: str) -> date:
    """Return the day of a date, a time, or a text that begins with a day as ISO 8601 writes it.

    Raises
    ------
    TableError
        If it is nothing of the kind; `what` says where it stands.
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[D]").item()
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, str) and value[10:11] in ("", "T", " "):
        with suppress(ValueError):
            return date.fromisoformat(value[:10])
    raise TableError(f"{what} must hold days as 2026-11-03, got {shown_value(value)}; write them so, or leave it out")


def period_of(values: Sequence[Any], what: str, names: RowNames) -> str | None:
    """Return the day of some rows, or the first and the last one with a slash between them; None if nobody said.

    Parameters
    ----------
    values
        The rows' days, missing ones among them.
    what
        What messages call them.
    names
        What the rows are called.

    Raises
    ------
    TableError
        If one is no day.
    """
    import pandas as pd

    present = [(row, value) for row, value in enumerate(values) if not pd.isna(value)]
    days = [day_of(value, f"{what}, {names.at([row])},") for row, value in present]
    if not days:
        return None
    first, last = min(days).isoformat(), max(days).isoformat()
    return first if first == last else f"{first}/{last}"
