"""What the text of a cell stands for: a number, a number with its unit, a date."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mkbo_plugins.space.parameters import is_number

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
DECIMAL_COMMA = r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?"
_GROUPED = r"[+-]?\d{1,3}(?:(?P<mark>[ ,.'\u2019\u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*(?:[.,]\d+)?"
UNIT = r"(?:[^\W\d_]|[°%‰$€£])(?:[^\W\d_]|[°%‰/·*^().\s-]|(?<=[^\W\d_^])\d|(?<=[\^-])\d)*"
"""A letter or sign, and more of them; digits are exponents, as in m2 or s-1."""

_QUANTITY = re.compile(rf"\s*({NUMBER})(\s*)({UNIT})\s*")
_SEEMS_NUMBER = re.compile(rf"\s*[<>~≈]?=?\s*(?:{NUMBER}|{DECIMAL_COMMA}|{_GROUPED})(\s*)({UNIT})?\s*")
_DAY = r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([./-])\d{1,2}\1(?:\d{4}|\d{2})"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?(?:Z|[+-]\d{2}:?\d{2})?"
_DATE = re.compile(rf"\s*(?:(?:{_DAY})(?:[T ]{_CLOCK})?|{_CLOCK}|-?\d+ days?,? {_CLOCK})\s*")

_COMMON = (
    "°c °f c k h hr hrs hour hours min mins minutes s sec secs seconds ms μs us ns d day days l ml μl ul g mg kg μg ug "
    "ng mol mmol μmol umol m mm cm km μm um nm pa kpa mpa gpa bar mbar psi atm torr v mv kv a ma w mw kw hz khz mhz "
    "ghz rpm % ‰ wt% vol% mol% at% ppm ppb eq eq. equiv equiv. j kj mj ev n kn ml/min l/min mg/ml g/l mol/l mmol/l "
    "°c/min k/min"
)
_KNOWN_UNITS = frozenset(_COMMON.split())


class Quantity(NamedTuple):
    """A number as it is written, and the unit behind it."""

    number: str
    unit: str
    apart: bool
    """Whether blanks stand between the two."""

    @property
    def known(self) -> bool:
        """Whether the unit is a common one, not only letters as in the label 1B."""
        return _is_known(self.unit, self.apart)


def quantity(value: Any) -> Quantity | None:
    """Return the number and unit that a text consists of, as in ``60.9 °C``, or None."""
    found = _QUANTITY.fullmatch(unicodedata.normalize("NFKC", value)) if isinstance(value, str) else None
    return None if found is None else Quantity(found[1], found[3].strip(), bool(found[2]))


def is_unit(text: str) -> bool:
    """Return whether a text is a common unit, which may stand in brackets."""
    bare = re.sub(r"^\[(.*)\]$|^\((.*)\)$", r"\1\2", unicodedata.normalize("NFKC", text).strip())
    return _is_known(bare.strip(), apart=True)


def reads_as_number(value: Any) -> bool:
    """Return whether a value is a text that Python reads as a finite number."""
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False


def looks_numeric(values: Sequence[Any]) -> bool:
    """Return whether most values are numbers, or texts that a person reads as one.

    Those may have a decimal comma, thousands apart, a sign such as < in front and a common unit behind.
    """
    return 2 * sum(is_number(value) or _seems_number(value) for value in values) > len(values)


def _seems_number(value: Any) -> bool:
    found = _SEEMS_NUMBER.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return False
    return not found[3] or _is_known(unicodedata.normalize("NFKC", found[3]).strip(), bool(found[2]))


def _is_known(unit: str, apart: bool) -> bool:
    return unit.casefold() in _KNOWN_UNITS and (apart or len(unit) > 1 or not unit.isalpha())


def are_dates(values: Iterable[Any]) -> bool:
    """Return whether all values, and one at least, are texts of dates, times of day or durations."""
    texts = list(values)
    return bool(texts) and all(isinstance(value, str) and _DATE.fullmatch(value) is not None for value in texts)


def odd_rows(values: Sequence[Any], faulty: Sequence[int]) -> list[int]:
    """Return those of the faulty rows that hold no number even when text is read as one, or all if none is such.

    One odd cell makes a table reader hand over the whole column as text; the message should name the cell.
    """
    odd = [row for row in faulty if not reads_as_number(values[row])]
    return odd or list(faulty)
