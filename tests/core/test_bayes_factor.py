"""Verdicts on targets whose relation to the table is known."""

import numpy as np
import pytest

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.core.forms import DEFAULT_FORM, FORMS, get_form
from mkbo_plugins.core.gp import bayes_factor
from mkbo_plugins.core.gp.bayes_factor import AGAINST_TABLE, Answer, Verdict, form_evidence, judge
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.laplace import Evidence
from mkbo_plugins.core.gp.posterior import PosteriorDensity
from mkbo_plugins.core.priors import NOISE
from mkbo_plugins.errors import TableError
from mkbo_plugins.experiments.benchmark.lookup import train
from mkbo_plugins.experiments.benchmark.synthetic import FAMILIES
from tests.core.integration import sampled_log_evidence


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


@pytest.fixture
def odds_of(monkeypatch, cov):
    """Return a function to the verdict where forms have given odds against the stock model."""
    X = cov.space.sobol(12, seed=5)

    def verdict(form=DEFAULT_FORM, **odds):
        def evidence(fixed, name, *_):
            return Evidence(0.0 if name == "stock" else np.log(odds.get(name, odds.get("others"))), np.empty(0))

        monkeypatch.setattr(bayes_factor, "form_evidence", evidence)
        return cov.verdict(X, np.arange(12.0), form)

    return verdict


def test_a_no_needs_more_than_a_yes(odds_of):
    assert [odds_of(others=odds).answer for odds in (11, 9, 1 / 11, 1 / 29, 1 / 31)] == [
        Answer.YES,
        Answer.UNSURE,
        Answer.UNSURE,
        Answer.UNSURE,
        Answer.NO,
    ]


@pytest.mark.parametrize("form", [name for name in FORMS if name != "stock"])
def test_a_form_that_explains_less_than_the_stock_model_is_warned_of(odds_of, form):
    suits = odds_of(form, others=2, **{form: 1 / 29})
    assert suits.instead is None
    assert "suit" not in str(suits)
    bad = odds_of(form, others=2, **{form: 1 / 31})
    assert bad.form == form
    assert bad.form_log_ratio == pytest.approx(-np.log(31))
    assert bad.instead == ("link" if form == "moment" else "moment")
    assert f"form={form!r} they are 31 to 1 less likely" in str(bad)
    assert f"does not suit this target; use form={bad.instead!r}" in str(bad)
    assert bad.warns
    assert not suits.warns


def test_where_no_form_explains_more_the_stock_model_is_advised(odds_of):
    assert odds_of("product", moment=0.5, link=0.4, product=1e-3).instead == "stock"


@pytest.mark.parametrize("form", ["moment", "link", "stock"])
def test_nothing_is_said_twice(odds_of, form):
    verdict = odds_of(form, others=1e-3)
    assert verdict.answer is Answer.NO
    assert verdict.warns
    assert "suit" not in str(verdict)


def test_the_sentence_gives_the_ratio():
    assert "20 to 1 more likely with the table" in str(Verdict(Answer.YES, np.log(20.0), 9))
    assert "20 to 1 more likely without it" in str(Verdict(Answer.NO, -np.log(20.0), 9))


@pytest.fixture(scope="module", params=[1, 2])
def wave(request):
    """Return a covariance trained on a wave in one dimension or two."""
    space = ParameterSpace.from_dict(dict.fromkeys(("x", "w")[: request.param], (-1.0, 1.0)))
    X = space.sobol(40, seed=0)
    y = np.sin(5 * X[:, 0]) if request.param == 1 else np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + X[:, 1] / 2
    return pretrain((X, y), "known", space, C=5.0, epsilon=0.02, sigma=1.0, ard=False, progress=False)


def outcomes(cov, kind, seed, n):
    """Return points (n, d) in raw units, and outcomes (n,) of a kind."""
    rng = np.random.default_rng(seed)
    X = cov.space.sobol(n, seed=seed)
    made = {
        "noise": lambda: rng.normal(size=n),
        "shuffled": lambda: rng.permutation(cov.predict(X)),
        "table": lambda: cov.predict(X) + rng.normal(0, 0.1, n),
        "negated": lambda: -cov.predict(X) + rng.normal(0, 0.5, n),
        "other": lambda: np.sin(4 * X[:, 0] + seed) + X[:, -1] ** 2,
    }
    return X, made[kind]()


def seen(cov, X):
    return Points(cov.to_coordinates(X), np.asarray(cov.space.to_coordinates(cov.space.to_raw(X), "unit")))


@pytest.mark.parametrize("kind", ["noise", "shuffled", "table", "negated", "other"])
def test_ratios_are_those_of_importance_sampling(wave, kind):
    for seed in range(3):
        X, y = outcomes(wave, kind, seed, 15)
        z, points = (y - y.mean()) / y.std(ddof=1), seen(wave, X)
        g = np.asarray(wave.fixed.standardised_decision(points.frame))
        stock = form_evidence(wave.fixed, "stock", points, z)
        sampled, counted = sampled_log_evidence("stock", g, points.stock, z)
        assert counted > 100
        for form in bayes_factor.FORMS:
            found = form_evidence(wave.fixed, form, points, z, None, stock)
            expected, counted = sampled_log_evidence(form, g, points.stock, z)
            assert counted > 100
            assert found.log - stock.log == pytest.approx(expected - sampled, abs=1.5)


def test_noise_never_gets_a_no_that_better_starts_would_take_back(wave):
    """A search from the hosts' start alone said no at 158 to 1 where outcomes were pure noise."""
    ratios = [wave.verdict(*outcomes(wave, "noise", seed, 15), "stock").log_ratio for seed in range(40)]
    assert min(ratios) > AGAINST_TABLE
    assert np.mean(np.array(ratios) > bayes_factor.FOR_TABLE) < 0.15


def test_a_target_that_is_the_tables_function_gets_a_yes(wave):
    for seed in range(4):
        X, _ = outcomes(wave, "table", seed, 15)
        for sign in (1, -3):
            verdict = wave.verdict(X, sign * wave.predict(X), "link")
            assert verdict.answer is Answer.YES
            assert verdict.instead is None


@pytest.mark.parametrize("form", [name for name in FORMS if get_form(name).uses_stock])
def test_a_search_near_the_stock_model_begins_nearer_to_it_than_prior_medians_are(wave, form):
    X, y = outcomes(wave, "noise", 0, 15)
    points = seen(wave, X)
    stock, other = (
        PosteriorDensity(FormModel(wave.fixed, name, X.shape[1]), points, y, None) for name in ("stock", form)
    )

    def covariance(density, theta):
        return density.model.value(density.pairs, density.split(theta)[0])

    theta, medians = stock.noisy_start, other.noisy_start
    expected = covariance(stock, theta)
    near, far = (np.linalg.norm(covariance(other, at) - expected) for at in (other.near_stock(theta), medians))
    assert near < 0.5 * far or near == far == 0
    assert near < 0.5 * np.linalg.norm(expected)


def test_parameters_that_the_table_lacks_alone_are_stock_inputs_of_a_form_without_a_stock_covariance(cov):
    X = cov.space.sobol(12, seed=5)
    y = cov.predict(X) + np.random.default_rng(0).normal(0, 0.1, 12)
    points = seen(cov, X)
    assert cov.verdict(X, y, "two_layer").form_log_ratio == pytest.approx(
        judge(cov.fixed, points, y, form="two_layer", as_used=Points(points.frame, np.empty((12, 0)))).form_log_ratio
    )
    assert cov.verdict(X, y, "two_layer") != judge(cov.fixed, points, y, form="two_layer")


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
