"""Outcomes of any scale: what double precision cannot hold with its squares is named, and nothing comes of it."""

import math
import re

import numpy as np
import pytest

from mkbo_plugins import pretrain
from mkbo_plugins.core.spread import SPREAD_LIMITS
from mkbo_plugins.errors import TableError, TableWarning
from tests.conftest import MIXED_SPACE

SCALES = [1e-300, 1e160, 1e300]
DIMENSIONS = [spec if isinstance(spec, list) else tuple(spec[:2]) for spec in MIXED_SPACE.values()]
GOOD_SCALES = [10 * SPREAD_LIMITS[0], 1e-20, 1e20, SPREAD_LIMITS[1] / 10]


def outcomes(table, scale):
    """Return outcomes that spread over a scale."""
    y = table["strength"].to_numpy()
    return scale * (y - y.mean()) / np.ptp(y)


@pytest.mark.parametrize("scale", SCALES)
def test_a_table_is_refused(table, space, scale):
    with pytest.raises(TableError, match=r"'strength' spreads over .* use other units"):
        pretrain(table.assign(strength=outcomes(table, scale)), "strength", space, trainer="gp")


@pytest.mark.parametrize("scale", SCALES)
def test_experiments_are_refused(gp_cov, table, scale):
    suggest = pytest.importorskip("mkbo_plugins.botorch.suggest").suggest
    from mkbo_plugins.tables.trials import Trials

    done = table.head(8).assign(strength=outcomes(table.head(8), scale))
    with pytest.raises(TableError, match="'strength' of outcomes spreads over"):
        Trials.from_table(done, "strength", gp_cov.space)
    X = gp_cov.space.to_raw(done)
    with pytest.raises(TableError, match="use other units"):
        suggest(gp_cov, Trials(X, done["strength"].to_numpy(), X[:0]))
    with pytest.raises(TableError, match="use other units"):
        gp_cov.verdict(X, done["strength"].to_numpy())


@pytest.mark.parametrize("scale", SCALES)
def test_a_gaussian_process_is_refused(gp_cov, table, scale):
    torch = pytest.importorskip("torch")
    from mkbo_plugins.botorch import pretrained_gp

    X = torch.tensor(gp_cov.space.to_raw(table))
    for Y in (outcomes(table, scale)[:, None], np.stack([table["strength"], outcomes(table, scale)], axis=1)):
        with pytest.raises(TableError, match="train_Y spreads over"):
            pretrained_gp(gp_cov, X, torch.tensor(Y))


def _regressor(cov):
    pytest.importorskip("skopt")
    from mkbo_plugins.skopt import pretrained_regressor

    return pretrained_regressor(cov, DIMENSIONS, names=list(MIXED_SPACE))


def _columns(table):
    from skopt.space import Space

    return Space(DIMENSIONS).transform([list(row) for row in table[list(MIXED_SPACE)].itertuples(index=False)])


@pytest.mark.parametrize("scale", SCALES)
def test_a_regressor_refuses_them(gp_cov, table, scale):
    regressor = _regressor(gp_cov)
    with pytest.raises(TableError, match="y spreads over"):
        regressor.fit(_columns(table), outcomes(table, scale))


@pytest.mark.parametrize("scale", GOOD_SCALES)
def test_within_the_limits_predictions_have_the_scale_of_outcomes(gp_cov, table, scale):
    regressor = _regressor(gp_cov)
    X = _columns(table)
    expected = regressor.fit(X, outcomes(table, 1.0)).predict(X, return_std=True)
    found = regressor.fit(X, outcomes(table, scale)).predict(X, return_std=True)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one / scale, other, rtol=1e-5, atol=1e-7)


def _ax_client(cov, table, y, **options):
    pytest.importorskip("ax")
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    from mkbo_plugins.ax import use_pretrained

    client = Client(random_seed=0)
    client.configure_experiment(
        [
            ChoiceParameterConfig(name, spec, parameter_type="str", is_ordered=False)
            if isinstance(spec, list)
            else RangeParameterConfig(name, spec[:2], parameter_type="int" if "int" in spec else "float")
            for name, spec in MIXED_SPACE.items()
        ]
    )
    client.configure_optimization("m")
    use_pretrained(client, cov, initial_trials=0, direction="same", **options)
    for point, value in zip(cov.space.from_raw(cov.space.to_raw(table)), y, strict=True):
        client.complete_trial(client.attach_trial(point), {"m": float(value)})
    return client


@pytest.mark.parametrize("scale", SCALES)
def test_ax_refuses_them(gp_cov, table, scale):
    client = _ax_client(gp_cov, table.head(6), outcomes(table.head(6), scale))
    with pytest.raises(TableError, match=r"metric 'm' spreads over .*use other units"):
        client.get_next_trials(1)


def test_what_ax_takes_for_constant_is_named(gp_cov, table):
    """Ax leaves such values as they are, so that what a table says of standardised ones would outweigh them."""
    client = _ax_client(gp_cov, table.head(6), outcomes(table.head(6), 1e-9))
    with pytest.warns(TableWarning, match=r"metric 'm' has a standard deviation of .*take another unit"):
        client._generation_strategy.fit(client._experiment)
    from ax.adapter.transforms.standardize_y import compute_standardization_parameters

    from mkbo_plugins.ax.nodes import LEAST_STANDARDISED

    kept, cut = ({"m": factor * LEAST_STANDARDISED * np.array([-1.0, 1.0]) / np.sqrt(2)} for factor in (1.01, 0.99))
    assert compute_standardization_parameters(kept)[1]["m"] < 1
    assert compute_standardization_parameters(cut)[1]["m"] == 1


def test_noise_is_never_infinite(gp_cov, table):
    suggest = pytest.importorskip("mkbo_plugins.botorch.suggest").suggest
    from mkbo_plugins.tables.trials import Trials

    X = gp_cov.space.to_raw(table.head(8))
    for scale in (GOOD_SCALES[0], GOOD_SCALES[-1]):
        advice = suggest(gp_cov, Trials(X, outcomes(table.head(8), scale), X[:0]))
        assert math.isfinite(advice.noise / scale)
        assert 0 < advice.suggestions[0].uncertainty / scale < 10


def test_limits_are_stated_in_words():
    from mkbo_plugins.core.spread import check_spread

    with pytest.raises(TableError, match=re.escape("y spreads over inf, too much or too little; use other units")):
        check_spread(np.array([-1.7e308, 1.7e308]), "y")
    check_spread(np.array([1e300, 1e300]), "y")
