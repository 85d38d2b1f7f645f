"""Suggestions: from when on there is a model, and what a verdict costs them."""

import numpy as np
import pytest

from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.errors import MkboError
from mkbo_plugins.suggestion.advice import Reason
from mkbo_plugins.trials import Trials


def trials_of(cov, n):
    X = cov.space.sobol(n, seed=3)
    return Trials(X, cov.predict(X) + 0.1 * np.random.default_rng(3).standard_normal(n), X[:0])


@pytest.mark.parametrize("initial", [3, 6])
def test_there_is_a_model_from_the_initial_outcomes_on(small_cov, initial):
    for count in (initial - 1, initial):
        (found,) = suggest(small_cov, trials_of(small_cov, count), direction="same", initial=initial).suggestions
        assert (found.reason == Reason.START) == (count < initial)
        assert (f"a model needs {initial} outcomes" in found.why) == (count < initial)


def test_a_suggestion_is_the_same_without_a_verdict(small_cov):
    judged, plain = (suggest(small_cov, trials_of(small_cov, 10), judged=judged) for judged in (True, False))
    assert judged.verdict is not None
    assert plain.verdict is None
    assert judged.suggestions == plain.suggestions


def test_a_model_needs_three_outcomes(small_cov):
    with pytest.raises(MkboError, match="initial must be a whole number of at least 3, got 2"):
        suggest(small_cov, trials_of(small_cov, 4), initial=2)


def test_the_function_is_a_name_of_the_package_and_of_its_module():
    import mkbo_plugins.botorch

    assert mkbo_plugins.botorch.suggest is suggest
    assert "suggest" in mkbo_plugins.botorch.__all__


@pytest.mark.parametrize(("direction", "said"), [("unknown", True), ("same", False)])
def test_where_the_direction_is_unknown_first_points_say_that_the_table_does_not_choose(small_cov, direction, said):
    for each in suggest(small_cov, Trials.none(small_cov.space), 2, direction=direction).suggestions:
        assert ("while its direction is unknown" in each.why) == said
        assert "100%" not in each.why
