"""What is required of further outcomes, as it is written and as it is measured."""

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace
from mkbo_plugins.errors import TableError
from mkbo_plugins.tables.requirements import Required, Requirement, all_met, noise_of_trials

SPACE = ParameterSpace.from_dict({"a": (0, 1)})
TABLE = pd.DataFrame(
    {"a": [0.1, 0.2, 0.3, 0.4], "y": [1.0, None, 3.0, 4.0], "yield": [70, 80.0, 90, 85], "sd": [0.1, None, 0.2, 0.3]}
)


@pytest.mark.parametrize(
    ("text", "outcome", "bound", "at_least"),
    [
        ("yield >= 80", "yield", 80.0, True),
        ("yield<=-1.5e2", "yield", -150.0, False),
        ("  cost per kg <= 3 ", "cost per kg", 3.0, False),
        ("a>b >= 2", "a>b", 2.0, True),
    ],
)
def test_what_is_written_is_read(text, outcome, bound, at_least):
    found = Requirement.parse(text)
    assert (found.outcome, found.bound, found.at_least) == (outcome, bound, at_least)
    assert Requirement.parse(str(found)) == found


@pytest.mark.parametrize("text", ["", "yield", "yield = 80", "yield > 80", ">= 80", "80", "yield == 80"])
def test_what_is_written_otherwise_is_refused(text):
    with pytest.raises(TableError, match="'yield >= 80'"):
        Requirement.parse(text)


@pytest.mark.parametrize("text", ["yield >= high", "yield >=", "yield >= nan", "yield <= inf"])
def test_a_bound_is_a_number(text):
    with pytest.raises(TableError, match="must be a number"):
        Requirement.parse(text)


def test_values_are_those_measured_and_more_where_trials_are_pending():
    above = Required.from_table(Requirement.parse("yield >= 85"), TABLE, "y", SPACE)
    np.testing.assert_array_equal(above.y, [70, 80, 90, 85])
    np.testing.assert_array_equal(above.of_trials, [70, 90, 85])
    np.testing.assert_array_equal(all_met([above], 3), [False, True, True])
    below = Required.from_table(Requirement.parse("yield <= 85"), TABLE, "y", SPACE)
    np.testing.assert_array_equal(all_met([above, below], 3), [False, False, True])
    assert all_met([], 2).all()


@pytest.mark.parametrize(
    ("values", "text", "words"),
    [
        ([70, 80, 90, 85], "yeld >= 80", r"no column 'yeld'.*did you mean 'yield'"),
        ([70, 80, 90, 85], "a >= 80", "'a' is a parameter"),
        ([70, 80, 90, 85], "y >= 80", "'y' is the outcome"),
        ([70, 80, None, 85], "yield >= 80", "'yield' are missing in row 2"),
        ([70, 80, "high", 85], "yield >= 80", "must be numbers, got 'high' in row 2"),
        ([70, "high", 90, 85], "yield >= 80", "must be numbers, got 'high' in row 1"),
    ],
)
def test_values_that_cannot_be_used_are_named(values, text, words):
    with pytest.raises(TableError, match=words):
        Required.from_table(Requirement.parse(text), TABLE.assign(**{"yield": values}), "y", SPACE)


def test_noise_is_needed_where_the_outcome_is_measured():
    np.testing.assert_array_equal(noise_of_trials(TABLE, "y", "sd"), [0.1, 0.2, 0.3])
    for value, words in ((0.0, "above 0, got 0"), (-1.0, "above 0, got -1"), (np.nan, "got nan"), ("big", "got 'big'")):
        with pytest.raises(TableError, match=f"{words} in row 2"):
            noise_of_trials(TABLE.assign(sd=[0.1, None, value, 0.3]), "y", "sd")
    with pytest.raises(TableError, match="--noise: the table of --done has no column 'std'"):
        noise_of_trials(TABLE, "y", "std")
