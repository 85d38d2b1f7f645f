"""Suggestions that keep further outcomes to bounds, and know the noise of outcomes."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

from mkbo_plugins.botorch.improvement import noisy_improvement
from mkbo_plugins.botorch.models import pretrained_gp
from mkbo_plugins.botorch.requirements import RequiredModels
from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.errors import MkboError
from mkbo_plugins.tables.requirements import Required, Requirement
from mkbo_plugins.tables.trials import Trials


@pytest.fixture(scope="module")
def trials(small_cov):
    X = small_cov.space.sobol(10, seed=3)
    return Trials(X, small_cov.predict(X) + 0.1 * np.random.default_rng(0).standard_normal(10), X[:0])


def required(trials, values, sign=">=", bound=None):
    bound = float(np.median(values)) if bound is None else bound
    return Required(Requirement("other", bound, sign == ">="), trials.X, values, values)


def test_improvement_counts_where_the_requirement_is_met(small_cov, trials):
    """The acquisition function is the mean improvement over the best experiment that meets it, where it is met."""
    y = (trials.y - trials.y.mean()) / trials.y.std()
    model = pretrained_gp(small_cov, torch.tensor(trials.X), torch.tensor(y)[:, None]).eval()
    model.likelihood.noise = 0.1
    one = required(trials, trials.X[:, 0])
    models = RequiredModels.fitted([one], small_cov, None, None)
    joint, kept = models.beside(model)
    points = small_cov.space.sobol(6, seed=6)
    found = np.exp(noisy_improvement(joint, trials.X, trials.X[:0], 0, **kept)(points))
    rng, draws = np.random.default_rng(1), []
    for single in (model, models.models[0]):
        with torch.no_grad():
            posterior = single.posterior(torch.tensor(np.concatenate([points, trials.X])))
        covariance = posterior.distribution.covariance_matrix.numpy()
        draws.append(rng.multivariate_normal(posterior.mean[:, 0].numpy(), covariance, 100_000))
    gain, margin = draws
    best = np.where(margin[:, 6:] > 0, gain[:, 6:], -np.inf).max(axis=1)
    improvement = np.maximum(gain[:, :6] - best[:, None], 0) * (margin[:, :6] > 0)
    np.testing.assert_allclose(found, improvement.mean(axis=0), rtol=0.15, atol=2e-3)


@pytest.mark.parametrize("sign", [">=", "<="])
def test_suggestions_keep_to_a_bound_that_the_best_points_break(small_cov, trials, sign):
    (free,) = suggest(small_cov, trials).suggestions
    name = small_cov.space.names[0]
    values = (trials.X[:, 0] - free.point[name]) * (1 if sign == ">=" else -1)
    one = required(trials, values, sign, bound=0.3 * np.ptp(values) * (1 if sign == ">=" else -1))
    advice = suggest(small_cov, trials, 2, required=[one])
    for kept in advice.suggestions:
        (chance,) = kept.meets
        assert chance > 0.5
        value = (kept.point[name] - free.point[name]) * (1 if sign == ">=" else -1)
        assert one.requirement.met(np.array([value]))[0]
    meeting = trials.y[one.requirement.met(values)]
    assert advice.best == (meeting.max() if len(meeting) else None)


def test_chances_are_those_of_the_requirement_s_own_model(small_cov, trials):
    values = np.sin(trials.X[:, 0])
    for sign in (">=", "<="):
        models = RequiredModels.fitted([required(trials, values, sign)], small_cov, None, None)
        chances = np.array([models.chances(x[None])[0] for x in trials.X])
        met = required(trials, values, sign).requirement.met(values)
        assert chances[met].mean() > 0.7
        assert chances[~met].mean() < 0.3


@pytest.mark.parametrize("constant", [1.0, 3.0, 2.0])
def test_where_nothing_met_the_requirement_the_reason_says_so(small_cov, trials, constant):
    one = required(trials, np.full(10, constant), bound=2.0)
    advice = suggest(small_cov, trials, required=[one])
    (suggestion,) = advice.suggestions
    if constant < 2:
        assert advice.best is None
        assert suggestion.chance is None
        assert "no experiment so far meets all requirements" in suggestion.why
    else:
        assert advice.best == trials.y.max()
    assert 0 < suggestion.meets[0] <= 1


def test_known_noise_is_the_models(small_cov, trials):
    loud = suggest(small_cov, trials, noise=np.full(10, trials.y.std()))
    quiet = suggest(small_cov, trials, noise=np.full(10, 0.05 * trials.y.std()))
    assert loud.noise == pytest.approx(trials.y.std(), rel=0.01)
    assert quiet.noise == pytest.approx(0.05 * trials.y.std(), rel=0.01)


def test_an_outcome_of_great_noise_is_not_believed(small_cov, trials):
    wrong = Trials(trials.X, trials.y + 100 * (np.arange(10) == 4), trials.pending)
    noise = np.where(np.arange(10) == 4, 300.0, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (knowing,) = suggest(small_cov, wrong, noise=noise).suggestions
    assert abs(knowing.predicted - trials.y.mean()) < 10 * np.ptp(trials.y)


def test_numbers_of_values_must_be_that_of_trials(small_cov, trials):
    with pytest.raises(MkboError, match="noise must be 10, one for each"):
        suggest(small_cov, trials, noise=np.ones(3))
    with pytest.raises(MkboError, match="above 0"):
        suggest(small_cov, trials, noise=np.zeros(10))
    one = required(trials, trials.y)
    short = Required(one.requirement, one.X, one.y, one.of_trials[:4])
    with pytest.raises(MkboError, match="values of 'other' must be 10"):
        suggest(small_cov, trials, required=[short])


def far_off(trials, bound):
    """Return a requirement that all trials break by the same, but for a little."""
    return required(trials, 100 + 0.1 * np.random.default_rng(0).standard_normal(10), bound=bound)


def test_where_all_break_a_requirement_by_far_the_next_points_leave_them(small_cov, trials):
    """Draws of the outcome meet it nowhere there, and improvement alone would stay at the best of the trials."""
    suggestions = suggest(small_cov, trials, 3, required=[far_off(trials, 1000.0)]).suggestions
    points = small_cov.space.to_raw(pd.DataFrame([each.point for each in suggestions]))
    unit = small_cov.space.to_coordinates(np.concatenate([trials.X, points]), "unit")
    for i in range(10, 13):
        assert np.linalg.norm(np.delete(unit, i, 0) - unit[i], axis=1).min() > 0.2
    pool = small_cov.space.sobol(256, seed=8)
    models = RequiredModels.fitted([far_off(trials, 1000.0)], small_cov, None, None)
    assert models.log_chance(trials.X[:0])(points[:1]) > np.quantile(models.log_chance(trials.X[:0])(pool), 0.9)


def test_the_chance_beside_pending_points_is_that_of_a_model_that_expects_them(small_cov, trials):
    models = RequiredModels.fitted([required(trials, np.sin(trials.X[:, 0]))], small_cov, None, None)
    (model,) = models.models
    pending, pool = small_cov.space.sobol(2, seed=4), small_cov.space.sobol(20, seed=5)
    with torch.no_grad():
        joint = model.posterior(torch.tensor(np.concatenate([pending, pool])))
        mean, K = joint.mean[:, 0].numpy(), joint.mvn.covariance_matrix.numpy()
    gain = K[2:, :2] @ np.linalg.inv(K[:2, :2])
    variance = np.diag(K)[2:] - (gain * K[2:, :2]).sum(1)
    np.testing.assert_allclose(models.log_chance(pending)(pool), norm.logcdf(mean[2:] / np.sqrt(variance)), rtol=1e-4)
    assert models.any_expected(pool)
    assert not models.any_expected(pending[:0])
    assert not RequiredModels.fitted([far_off(trials, 1000.0)], small_cov, None, None).any_expected(trials.X)
