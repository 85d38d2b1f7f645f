"""The covariance models by name, and that the data can refuse what the table says."""

import numpy as np
import pytest
from scipy.stats import lognorm

from mkbo_plugins.core import SquaredExponential, WeightedPoints
from mkbo_plugins.core.components.components import COMPONENTS, PretrainedComponents
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.forms import FORMS, HYPERPARAMETERS, get_form
from mkbo_plugins.errors import KernelError
from tests.core.helpers import component_of, make_table, smallest_eigenvalue

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (12, 2))
STOCK = SquaredExponential(sigma=0.4).gram(X)
SCALES = {
    "output_scale": 1.7,
    "moment_scale": 0.6,
    "feature_scale": 0.9,
    "link_scale": 0.7,
    "link_width": 0.4,
    "similarity_scale": 1.3,
}


@pytest.fixture(scope="module")
def parts():
    decision = DecisionFunction(SquaredExponential(sigma=0.6), WeightedPoints(*make_table(2, RNG)), bias=0.1)
    fixed = PretrainedComponents(decision, mean_diagonal=0.05, decision_mean=0.1, decision_spread=0.5)
    return {name: component_of(fixed, name, X).value for name in COMPONENTS}


def combined(name, parts, **changed):
    form = get_form(name)
    scales = {**SCALES, **changed}
    return form.combine(
        {part: parts[part] for part in form.parts},
        STOCK if form.uses_stock else None,
        {scale: scales[scale] for scale in form.hyperparameters},
    )


def test_each_form_is_its_formula(parts):
    a, b, s, c, t, e = SCALES.values()
    near = np.exp(-parts["feature_distance"] / (2 * s))
    alike = 1 / (1 + parts["feature_distance"] / (2 * s))
    link = c * np.exp(-parts["decision_distance"] / (2 * t))
    formulas = {
        "stock": STOCK,
        "base": a * parts["base"],
        "reweighted": a * parts["reweighted"],
        "normalised": a * parts["normalised"],
        "two_layer": a * near,
        "moment": a * STOCK + b * parts["moment"],
        "product": a * STOCK * near,
        "transfer": a * STOCK * near + b * parts["moment"],
        "link": a * STOCK + b * parts["moment"] + link,
        "transfer_link": a * STOCK * near + b * parts["moment"] + link,
        "similarity_link": a * STOCK + e * STOCK * alike + b * parts["moment"] + link,
    }
    assert set(formulas) == set(FORMS)
    for name, formula in formulas.items():
        np.testing.assert_allclose(combined(name, parts), formula, rtol=1e-14)


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_positive_semidefinite(name, parts):
    assert smallest_eigenvalue(combined(name, parts)) > -1e-12


@pytest.mark.parametrize("name", ["transfer", "moment", "link", "transfer_link", "similarity_link"])
def test_the_data_can_refuse_the_table(name, parts):
    without = dict.fromkeys(("moment_scale", "link_scale", "similarity_scale"), 0.0)
    refused = combined(name, parts, output_scale=1.0, feature_scale=np.inf, **without)
    np.testing.assert_allclose(refused, STOCK, rtol=1e-14)


@pytest.mark.parametrize("name", FORMS)
def test_forms_name_parts_and_scales_that_exist(name):
    form = get_form(name)
    assert set(form.parts) <= set(COMPONENTS)
    assert set(form.hyperparameters) <= set(HYPERPARAMETERS)


@pytest.mark.parametrize("name", HYPERPARAMETERS)
def test_bounds_hold_nearly_all_of_the_prior(name):
    scale = HYPERPARAMETERS[name]
    prior = lognorm(s=scale.log_spread, scale=np.exp(scale.log_mean))
    assert prior.cdf(scale.lower) < 1e-6
    assert prior.sf(scale.upper) < 1e-6


def test_an_unknown_form_is_refused_with_the_known_ones():
    with pytest.raises(KernelError, match=r"transfer.*'best'"):
        get_form("best")
