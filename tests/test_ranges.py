"""Ranges in other units than the table's are told from ranges that are narrowed or widened on purpose."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mkbo_plugins import ParameterSpace
from mkbo_plugins.errors import TableWarning
from mkbo_plugins.space.parameters import Categorical, Numeric, Ordered
from mkbo_plugins.tables.ranges import warn_of_units


def warned(table, target) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_units(ParameterSpace((table,)), {table.name: target})
    assert all(issubclass(one.category, TableWarning) for one in caught)
    return [str(one.message) for one in caught]


@st.composite
def nested(draw, log):
    """Return two ranges, the inner one having at least a thirtieth of the outer one's width on its scale."""
    start, width = draw(st.floats(-6, 6)), draw(st.floats(0.5, 6))
    share = draw(st.floats(1 / 30, 1))
    shift = draw(st.floats(0, 1)) * (1 - share)
    if log:
        ends = [10 ** (start + width * x) for x in (0, 1, shift, shift + share)]
    else:
        unit = 10**start
        offset = draw(st.floats(-1, 1)) * width
        ends = [unit * (offset + width * x) for x in (0, 1, shift, shift + share)]
    return Numeric("power", ends[0], ends[1], log=log), Numeric("power", ends[2], ends[3], log=log)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.booleans().flatmap(nested), st.booleans())
def test_narrowed_and_widened_bounds_are_taken_as_meant(ranges, widened):
    table, target = ranges[::-1] if widened else ranges
    assert not warned(table, target)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.floats(1.0, 100.0),
    st.floats(1.1, 50.0),
    st.sampled_from([60.0, 1e3, 1e6, 3600.0]),
    st.booleans(),
    st.sampled_from([False, True]),
)
def test_ranges_a_unit_apart_are_warned_of(low, ratio, factor, inverse, log):
    """Bounds above 0 whose ratio is below the factor between two units have nothing in common in these."""
    factor = 1 / factor if inverse else factor
    table = Numeric("power", low, low * ratio, log=log)
    (message,) = warned(table, Numeric("power", low * factor, low * ratio * factor, log=log))
    assert "'power'" in message
    assert "nothing in common" in message


@pytest.mark.parametrize("factor", [100.0, 1000.0, 0.01, 0.001])
@pytest.mark.parametrize(("low", "high"), [(0.0, 5500.0), (-40.0, 20.0), (-1.0, 1.0)])
def test_ranges_around_zero_are_warned_of_where_they_differ_by_orders_of_magnitude(low, high, factor):
    (message,) = warned(Numeric("x", low, high), Numeric("x", low * factor, high * factor))
    assert f"{max(factor, 1 / factor):.0f} times apart" in message


def test_message_names_both_ranges_and_both_names():
    (message,) = warned(Numeric("power_mW", 100.0, 5500.0), Numeric("laser", 0.1, 5.5))
    for part in ("'laser'", "0.1 to 5.5", "'power_mW'", "100 to 5500", "pre-train"):
        assert part in message


def test_fewer_decades_of_a_logarithmic_scale_are_no_other_unit():
    assert not warned(Numeric("rate", 1e-5, 1e-1, log=True), Numeric("rate", 1e-5, 1e-4, log=True))
    assert not warned(Numeric("rate", 1e-5, 1e-1, log=True), Numeric("rate", 1e-5, 1e-4))
    assert not warned(Numeric("rate", 0.0, 1.0), Numeric("rate", 1e-5, 1e-3, log=True))
    assert not warned(Numeric("rate", 1e-5, 1e-1, log=True), Numeric("rate", 0.0, 1e-1))


def test_levels_count_where_they_are_numbers():
    table = Ordered("size", (8, 16, 32))
    assert warned(table, Ordered("size", (8000, 32000)))
    assert not warned(table, Numeric("size", 8.0, 32.0))
    gas = Categorical("gas", ("Air", "Argon"))
    assert not warned(gas, gas)
    low = Ordered("level", ("low", "high"))
    assert not warned(low, low)


def test_shares_and_percentages_differ():
    assert warned(Numeric("share", 0.0, 1.0), Numeric("share", 0.0, 100.0))


@pytest.mark.parametrize(
    ("value", "doubted"), [(6.0, False), (5500.0, False), (5600.0, False), (6500.0, True), (1e9, True), (0.0, True)]
)
def test_constants_beyond_the_bounds_are_warned_of(value, doubted):
    space = ParameterSpace((Numeric("power", 5.0, 5500.0, log=value > 0),))
    if value == 0:
        space = ParameterSpace((Numeric("power", 100.0, 5500.0),))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_units(space, {}, {"power": value})
    assert [one.category for one in caught] == [TableWarning] * doubted
