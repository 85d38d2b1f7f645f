"""What a column of a table is taken as where no space describes it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.cells import looks_numeric, odd_rows, quantity, reads_as_number
from mkbo_plugins.space.parameters import (
    Parameter,
    is_finite_number,
    is_number,
    plain_value,
)
from mkbo_plugins.space.parsing import parse_parameter

if TYPE_CHECKING:
    import pandas as pd

SHOWN_VALUES = 5


def parameter_of_column(column: "pd.Series[Any]") -> Parameter:
    """Return the parameter that a column of a table is, as `ParameterSpace.from_table` takes it.

    Raises
    ------
    SpaceError
        If the column is constant, or holds nothing but missing values, text among numbers, or numbers with several
        units.
    """
    import pandas as pd

    name, values = column.name, [plain_value(value) for value in column.dropna()]
    faulty = next((value for value in values if not isinstance(value, (str, bool, int, float))), None)
    if faulty is not None:
        raise SpaceError(f"column {name!r} must hold numbers, text or booleans, got {faulty!r:.60}")
    if is_constant(column):
        raise SpaceError(
            f"column {name!r} is constant or empty: describe the space without it, or leave it out with "
            "table.drop(columns=...) (--ignore)"
        )
    if len({(isinstance(value, bool), value) for value in values}) == 1:
        raise SpaceError(
            f"column {name!r} holds {values[0]!r:.60} and missing values only; if None or NA is meant as a level, read "
            "it with levels= (--levels), else leave it out with table.drop(columns=...) (--ignore)"
        )
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _categorical(name, values)
    if all(map(is_number, values)):
        low, high = min(values), max(values)
        whole = all(is_finite_number(value) and value == int(value) for value in values)
        return parse_parameter(name, (low, high, "int") if whole else (low, high))
    _check_units(column)
    if looks_numeric(values):
        raise SpaceError(_text_among_numbers(column))
    return _categorical(name, values)


def _categorical(name: Any, values: list[Any]) -> Parameter:
    return parse_parameter(name, {"levels": sorted(set(values), key=str), "ordered": False})


def is_constant(column: "pd.Series[Any]") -> bool:
    """Return whether a column has one value in every row, or none at all."""
    values = [plain_value(value) for value in column.dropna()]
    if len(values) < len(column):
        return not values
    return all(value == values[0] and isinstance(value, bool) == isinstance(values[0], bool) for value in values)


def _check_units(column: "pd.Series[Any]") -> None:
    """Raise a `SpaceError` if most cells are numbers with common units, of which there are several."""
    cells = [plain_value(value) for value in column]
    found = {row: quantity(cells[row]) for row in np.flatnonzero(column.notna()).tolist()}
    known = {row: one.unit for row, one in found.items() if one is not None and one.known}
    if 2 * len(known) < len(found):
        return
    units: dict[str, list[int]] = {}
    for row in found:
        if row in known:
            units.setdefault(repr(known[row]), []).append(row)
        elif is_number(cells[row]) or reads_as_number(cells[row]):
            units.setdefault("none", []).append(row)
    if len(units) > 1:
        where = ", ".join(f"{unit} in {RowNames.of(column).at(rows)}" for unit, rows in units.items())
        raise SpaceError(
            f"column {column.name!r} holds numbers with different units: {where}; write all in one unit, which may "
            "stand in every cell or in the name of the column"
        )


def _text_among_numbers(column: "pd.Series[Any]") -> str:
    """Return what to say of a column of numbers with cells that are none."""
    present = np.flatnonzero(column.notna())
    cells = [plain_value(value) for value in column]
    text = odd_rows(cells, [int(row) for row in present if not is_number(cells[row])])
    shown = ", ".join(f"{cells[row]!r:.60}" for row in text[:SHOWN_VALUES]) + (
        ", ..." if len(text) > SHOWN_VALUES else ""
    )
    return (
        f"column {column.name!r} holds text, {shown} in {RowNames.of(column).at(text)}, though most of it seems to be "
        "numbers; write plain numbers with a decimal point, or describe it in a space"
    )
