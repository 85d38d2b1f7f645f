"""Stated errors over a few of the cases of `tests.core.stated_errors`."""

import pytest

from tests.core.stated_errors import CHOICES, largest_ratio, make_case

SEEDS = range(10)


@pytest.mark.parametrize("choice", CHOICES)
def test_no_error_is_larger_than_stated(choice):
    found = {}
    for seed in SEEDS:
        case = make_case(seed, largest=80)
        result = largest_ratio(case, choice)
        if result is not None:
            found[case.words] = result[0]
    assert len(found) > len(SEEDS) / 2
    assert max(found.values()) <= 1, max(found, key=found.__getitem__)


@pytest.mark.parametrize("seed", [9006, 9039], ids=["levels", "binary"])
def test_errors_that_terms_share_are_stated(seed):
    """Two tables whose coordinates take few values: sums over all their pairs round alike."""
    ratio, _, form = largest_ratio(make_case(seed), "pairs")
    assert form == "pairs"
    assert ratio <= 1
