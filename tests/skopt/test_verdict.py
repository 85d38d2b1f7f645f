"""What the regressor says of its table: whether it helps, and whether its units are those of the dimensions."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from skopt import gp_minimize
from skopt.space import Real

from mkbo_plugins.core.gp.bayes_factor import Answer
from mkbo_plugins.errors import TableError, TableWarning
from mkbo_plugins.skopt import pretrained_regressor
from tests.skopt.conftest import mixed_dimensions, real_coordinates, real_dimensions, related, sample


def test_it_is_that_of_the_covariance():
    cov = real_coordinates(2)
    X = cov.space.sobol(12, seed=3)
    y = cov.predict(X) + 0.1 * X[:, 1]
    for form in ("transfer", "two_layer", "stock"):
        expected = cov.verdict(X, y, form)
        regressor = pretrained_regressor(cov, real_dimensions(2), form).fit((X + 1) / 2, y)
        found = regressor.verdict()
        assert found.answer is expected.answer is Answer.YES
        assert found.log_ratio == pytest.approx(expected.log_ratio, rel=1e-3)
        assert (found.form, found.instead) == (form, expected.instead)
        assert found.form_log_ratio == pytest.approx(expected.form_log_ratio, rel=1e-3)


def test_it_speaks_of_the_points_fitted_to(small_cov):
    X, y, _ = sample(small_cov, 14)
    regressor = pretrained_regressor(small_cov, mixed_dimensions())
    with pytest.raises(NotFittedError):
        regressor.verdict()
    assert regressor.fit(X, y).verdict().answer is Answer.YES
    assert regressor.verdict() == pickle.loads(pickle.dumps(regressor)).verdict()
    assert regressor.verdict().log_ratio == pytest.approx(regressor.fit(X, -5 * y).verdict().log_ratio, abs=0.1)
    noise = np.random.default_rng(0).normal(size=len(y))
    assert regressor.fit(X, noise).verdict().answer is not Answer.YES
    with pytest.raises(TableError, match="at least 3 values"):
        regressor.fit(X[:2], y[:2]).verdict()
    with pytest.raises(TableError, match="not all equal"):
        regressor.fit(X, np.ones(len(y))).verdict()


def test_a_model_of_the_host_has_one(small_cov):
    dimensions = mixed_dimensions()
    regressor = pretrained_regressor(small_cov, dimensions, random_state=0)
    result = gp_minimize(
        lambda row: related(small_cov, mixed_dimensions(), row),
        dimensions,
        base_estimator=regressor,
        n_calls=12,
        n_initial_points=10,
        random_state=0,
    )
    assert result.models[-1].verdict().values == 12
    assert str(result.models[-1].verdict()).startswith("yes")


def test_dimensions_in_other_units_are_warned_of(small_cov):
    dimensions = mixed_dimensions()
    dimensions[2] = Real(0.1, 5.5, name="power")
    message = r"'power' runs from 0\.1 to 5\.5 here but from 100 to 5500 in the table"
    with pytest.warns(TableWarning, match=message) as caught:
        pretrained_regressor(small_cov, dimensions)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("bounds", [(200.0, 400.0), (0.0, 20_000.0), (3000.0, 9000.0)])
def test_narrower_wider_and_moved_bounds_are_not(small_cov, bounds):
    dimensions = mixed_dimensions()
    dimensions[2] = Real(*bounds, name="power")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pretrained_regressor(small_cov, dimensions)


def test_known_noise_counts():
    cov = real_coordinates(2)
    X = cov.space.sobol(12, seed=3)
    y = cov.predict(X)
    quiet, loud = (
        pretrained_regressor(cov, real_dimensions(2), noise=float(v * y.var())).fit((X + 1) / 2, y).verdict()
        for v in (1e-3, 100.0)
    )
    assert quiet.log_ratio > 5
    assert abs(loud.log_ratio) < 1
