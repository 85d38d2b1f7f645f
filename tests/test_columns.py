"""What columns are taken as where no space describes them, and what is said of those that cannot be."""

import pandas as pd
import pytest

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.cells import are_dates, looks_numeric, quantity
from mkbo_plugins.space.columns import parameter_of_column
from mkbo_plugins.space.parameters import Categorical


@pytest.mark.parametrize("text", ["5", "-1.5e-3", "1,5", "1,234", "1 234 567,8", "1'000.5", "< 3", "~2.5 %", "60.9 °C"])
def test_texts_that_people_read_as_numbers_look_like_numbers(text):
    assert looks_numeric([text])


@pytest.mark.parametrize(
    "text",
    ["01.01.2024", "1.2.3", "10.0.1", "1%1%1%1", "12:30", "2024-01-31", "3A", "1,2,3", "2-3", "1st", "3-pentanol"],
)
def test_dates_versions_and_labels_are_no_numbers(text):
    assert not looks_numeric([text])
    assert parameter_of_column(pd.Series([text, "x", text], name="a")) == Categorical("a", tuple(sorted([text, "x"])))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60.9 °C", ("60.9", "°C")),
        ("60.9℃", ("60.9", "°C")),
        ("3 mL", ("3", "mL")),
        ("-2e-3 mol/L", ("-2e-3", "mol/L")),
        ("5 m s-1", ("5", "m s-1")),
        ("7 cm^-1", ("7", "cm^-1")),
        ("12%", ("12", "%")),
        ("1%1%1%1", None),
        ("1.2.3", None),
        ("2-3 h", None),
        ("12:30", None),
        ("2024-01-31", None),
        ("60", None),
        ("h 3", None),
    ],
)
def test_a_quantity_is_a_number_and_a_unit(text, expected):
    found = quantity(text)
    assert (found if found is None else (found.number, found.unit)) == expected


def test_a_column_of_one_text_is_constant_whatever_it_looks_like():
    for text in ("1%1%1%1", "3 h", "1,5", "01.01.2024"):
        with pytest.raises(SpaceError, match="column 'a' is constant"):
            parameter_of_column(pd.Series([text] * 4, name="a"))


def test_several_units_are_named_with_their_rows():
    with pytest.raises(SpaceError) as caught:
        parameter_of_column(pd.Series(["1 h", "30 min", "2 h", "90", "45 min"], name="t"))
    for words in ("column 't'", "'h' in rows [0, 2]", "'min' in rows [1, 4]", "none in row 3", "one unit"):
        assert words in str(caught.value)
    assert "leave" not in str(caught.value)


def test_labels_of_a_number_and_a_letter_stay_levels():
    wells = ["1A", "1B", "2A", "2B", "1C", "2C"]
    assert parameter_of_column(pd.Series(wells, name="well")) == Categorical("well", tuple(sorted(wells)))


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-31",
        "2024-01-31 12:30:05.123",
        "2024-01-31T12:30Z",
        "31.01.2024",
        "1/31/24",
        "12:30",
        "0 days 00:01:02.5",
    ],
)
def test_dates_times_and_durations_are_known(text):
    assert are_dates([text])
    assert not are_dates([text, "x"])
    assert not are_dates(["1.2.3", "1-2-3"])
