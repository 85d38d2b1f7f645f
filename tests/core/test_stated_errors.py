"""Stated errors over a few of the cases of `tests.core.stated_errors`."""

import mpmath
import numpy as np
import pytest

from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.core.forms import FORMS
from tests.core.helpers import weights_of
from tests.core.least_eigenvalues import least
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


def test_an_error_above_the_tolerance_is_stated():
    """Twins of opposite signs in an exponential kernel, close to the middle of the frame."""
    ratio, relative, _ = largest_ratio(make_case(300293, largest=150), "auto")
    assert relative > 1e-5
    assert ratio <= 1


def test_equal_terms_at_the_middle_of_the_frame_are_not_added_up():
    """Terms of few sizes whose sum cancels: what is rounded adds up like their number."""
    ratio, _, form = largest_ratio(make_case(70542), "pairs")
    assert form == "pairs"
    assert ratio <= 1


def test_weights_of_alternating_coefficients_are_within_their_errors():
    """Sums of equal numbers of either sign, of which a vector unit's lane may get one sign only."""
    ratio, _, form = largest_ratio(make_case(214073), "auto")
    assert form == "features"
    assert ratio <= 1


def test_what_features_leave_out_attains_its_bound():
    """In one coordinate little but the next power is left out: an error next to what is stated needs no margin."""
    case = make_case(1546)
    (P, _) = CertifiedEvaluator(case.base, (case.table,), 1, "features").prepare(np.ones((1, 1)))
    with mpmath.workdps(40):
        rate = mpmath.mpf(weights_of(case.base, 1)[0]) / mpmath.mpf(case.base.sigma)
        z, alpha = ([mpmath.mpf(value) for value in values] for values in (case.table.points[:, 0], case.table.alpha))
        damped = [a * mpmath.exp(-rate * x**2 / 2) for a, x in zip(alpha, z, strict=True)]
        left_out = mpmath.fsum(
            mpmath.fdot(damped, [x**k for x in z]) ** 2 * rate**k / mpmath.factorial(k)
            for k in range(P.form.monomials.degrees[-1] + 1, 40)
        )
        share = left_out / mpmath.exp(2 * mpmath.mpf(P.half_log_scale[0])) / P.truncation[0]
    assert 0.99 < share <= 1
    ratio, _, _ = largest_ratio(case, "features")
    assert 0.99 < ratio <= 1


def test_gram_matrices_of_every_form_are_positive_semidefinite():
    found = [least(seed) for seed in range(12)]
    assert {name for values in found for name in values} == set(FORMS)
    assert min(min(values.values()) for values in found) >= -1e-10
