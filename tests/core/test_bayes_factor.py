"""Verdicts on targets whose relation to the table is known."""

import numpy as np
import pytest

from mkbo_plugins.core.gp import bayes_factor
from mkbo_plugins.core.gp.bayes_factor import Answer, Verdict, judge
from mkbo_plugins.core.gp.form_model import Points
from mkbo_plugins.core.priors import NOISE
from mkbo_plugins.errors import TableError
from mkbo_plugins.experiments.benchmark.lookup import train
from mkbo_plugins.experiments.benchmark.synthetic import FAMILIES


def verdict_on(family: str, member: int, n: int = 18):
    problem = FAMILIES[family](member)
    chosen = np.random.default_rng(member).choice(len(problem.outcome), n, replace=False)
    return train(problem, "gp").verdict(problem.pool_points[chosen], problem.outcome[chosen])


@pytest.mark.parametrize("family", ["hartmann3", "hartmann3_negated"])
def test_a_table_of_a_similar_function_helps_whatever_its_sign(family):
    assert verdict_on(family, 0).answer is Answer.YES


def test_an_unrelated_table_is_not_said_to_help():
    assert verdict_on("hartmann3_unrelated", 0).answer is not Answer.YES


def test_shuffled_outcomes_speak_against_the_table():
    problem = FAMILIES["hartmann3"](0)
    cov, rng = train(problem, "gp"), np.random.default_rng(0)
    draws = [rng.choice(len(problem.outcome), 18, replace=False) for _ in range(12)]
    verdicts = [cov.verdict(problem.pool_points[rows], rng.permutation(problem.outcome[rows])) for rows in draws]
    assert np.median([each.log_ratio for each in verdicts]) < -1.5
    assert sum(each.answer is Answer.YES for each in verdicts) <= 1


def test_a_no_needs_more_than_a_yes(monkeypatch, cov):
    X = cov.space.sobol(12, seed=5)

    def answer(odds):
        """Return the answer where every model with the table has these odds against the stock model."""
        evidence = {form: np.log(odds) for form in bayes_factor.FORMS} | {"stock": 0.0}
        monkeypatch.setattr(bayes_factor, "form_log_evidence", lambda fixed, form, *_: evidence[form])
        return cov.verdict(X, np.arange(12.0)).answer

    assert [answer(odds) for odds in (11, 9, 1 / 11, 1 / 29, 1 / 31)] == [
        Answer.YES,
        Answer.UNSURE,
        Answer.UNSURE,
        Answer.UNSURE,
        Answer.NO,
    ]


def test_the_sentence_gives_the_ratio():
    assert "20 to 1 more likely with the table" in str(Verdict(Answer.YES, np.log(20.0), 9))
    assert "20 to 1 more likely without it" in str(Verdict(Answer.NO, -np.log(20.0), 9))


@pytest.mark.parametrize("y", [[1.0, 2.0], [1.0, 2.0, np.nan], [1.0, 1.0, 1.0]])
def test_values_that_tell_nothing_are_refused(cov, y):
    with pytest.raises(TableError, match=r"y must be|at least 3"):
        cov.verdict(cov.space.sobol(3), y)


def test_scale_and_offset_of_the_values_do_not_matter(cov):
    X = cov.space.sobol(12, seed=5)
    y = cov.predict(X) + np.random.default_rng(0).normal(0, 0.1, 12)
    assert cov.verdict(X, y).log_ratio == pytest.approx(cov.verdict(X, 1e3 * y + 7).log_ratio, abs=1e-4)


def test_known_noise_is_in_squared_units_of_the_values_and_never_less_than_the_least_learned(cov):
    X = cov.space.sobol(12, seed=5)
    points = Points(cov.to_coordinates(X), np.asarray(cov.space.to_coordinates(cov.space.to_raw(X), "unit")))
    y = cov.predict(X) + np.random.default_rng(0).normal(0, 0.1, 12)
    least = NOISE.lower * y.var(ddof=1)
    ratios = [judge(cov.fixed, points, y, noise).log_ratio for noise in (0.0, least / 2, least, 100 * least)]
    assert ratios[:3] == pytest.approx([ratios[0]] * 3)
    assert ratios[3] != pytest.approx(ratios[0], abs=0.01)
    scaled = judge(cov.fixed, points, 1e3 * y, np.full(12, 1e6 * 100 * least)).log_ratio
    assert scaled == pytest.approx(ratios[3], abs=1e-4)
