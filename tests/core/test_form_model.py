"""Forms with gradients: combined as `forms` says, and derivatives equal to finite differences."""

import numpy as np
import pytest

from mkbo_plugins.core.forms import FORMS, HYPERPARAMETERS, get_form
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.priors import length_scale_prior
from tests.core.helpers import component_of, numeric_gradient


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def points(rng, cov, n, k):
    return Points(rng.uniform(-1, 1, (n, cov.support.shape[1])), rng.uniform(0, 1, (n, k)))


@pytest.fixture(params=[(name, k) for name in FORMS for k in (0, 3) if k or not get_form(name).uses_stock])
def model(request, cov):
    name, k = request.param
    return FormModel(cov.fixed, name, k)


@pytest.fixture
def theta(model, rng):
    return rng.normal(0, 0.5, len(model.priors))


def test_value_is_the_form_of_its_parts(model, theta, cov, rng):
    x, y = points(rng, cov, 4, model.stock_dims), points(rng, cov, 5, model.stock_dims)
    scales = dict(zip(model.form.hyperparameters, np.exp(theta), strict=False))
    parts = {name: component_of(cov.fixed, name, x.frame, y.frame).value for name in model.form.parts}
    lengths = np.exp(theta[len(scales) :])
    stock = np.exp(-0.5 * (((x.stock[:, None] - y.stock) / lengths) ** 2).sum(axis=-1)) if model.stock_dims else None
    expected = model.form.combine(parts, stock, scales)
    if stock is not None and not model.form.uses_stock:
        expected = expected * stock
    assert np.allclose(model.value(model.pairs(x, y), theta), expected, rtol=1e-12)
    square = model.value(model.pairs(x), theta)
    assert np.allclose(model.value(model.pairs(x, elementwise=True), theta), np.diag(square), rtol=1e-9)
    assert np.allclose(model.value(model.pairs(x, x, elementwise=True), theta), np.diag(square), rtol=1e-6, atol=1e-9)


def test_gradient_in_the_hyperparameters(model, theta, cov, rng):
    pairs = model.pairs(points(rng, cov, 4, model.stock_dims))
    value, gradient = model.gradient(pairs, theta)
    assert np.array_equal(value, model.value(pairs, theta))
    for j in range(len(theta)):
        step = 1e-5 * np.eye(len(theta))[j]
        numeric = (model.value(pairs, theta + step) - model.value(pairs, theta - step)) / 2e-5
        assert np.allclose(gradient[..., j], numeric, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("extreme", [-40.0, 40.0])
def test_derivatives_survive_scales_at_their_bounds(cov, rng, extreme):
    model = FormModel(cov.fixed, "transfer", 3)
    theta = np.zeros(len(model.priors))
    theta[:3] = extreme if extreme < 0 else 9.0, extreme if extreme < 0 else 9.0, extreme
    _, gradient = model.gradient(model.pairs(points(rng, cov, 4, 3)), theta)
    assert np.isfinite(gradient).all()


def test_pull_is_the_gradient_in_the_points(model, theta, cov, rng):
    x, y = points(rng, cov, 3, model.stock_dims), points(rng, cov, 4, model.stock_dims)
    d, k = x.frame.shape[1], x.stock.shape[1]

    def moved(flat):
        both = flat.reshape(3, d + k)
        return Points(both[:, :d], both[:, d:])

    flat = np.hstack([x.frame, x.stock]).ravel()
    cases = [
        (y, {}, (3, 4)),
        (Points(y.frame[:3], y.stock[:3]), {"elementwise": True}, (3,)),
        (None, {"elementwise": True}, (3,)),
    ]
    for other, pairing, shape in cases:
        upstream = rng.normal(size=shape)
        numeric = numeric_gradient(
            lambda z, o=other, p=pairing, u=upstream: (u * model.value(model.pairs(moved(z), o, **p), theta)).sum(),
            flat,
        )
        pairs = model.pairs(x, other, **pairing)
        found = np.hstack(model.pull(x, other, pairs, upstream, model.slopes(pairs, theta)))
        assert np.allclose(found.ravel(), numeric, rtol=1e-5, atol=1e-6)


def test_priors_are_those_of_the_form_and_a_length_scale_for_each_stock_input(cov):
    model = FormModel(cov.fixed, "transfer", 3)
    assert model.priors[:3] == tuple(HYPERPARAMETERS[name] for name in model.form.hyperparameters)
    assert model.priors[3:] == (length_scale_prior(3),) * 3


def test_from_one_point_to_others_and_itself_is_a_row_of_the_whole(model, theta, cov, rng):
    """Of the whole matrix, and its gradients are those of each entry; the others are also equal to the point once."""
    x, y = points(rng, cov, 1, model.stock_dims), points(rng, cov, 5, model.stock_dims)
    for others in (y, Points(np.vstack([x.frame, y.frame]), np.vstack([x.stock, y.stock]))):
        pairs = model.from_point(x, others)
        slopes = model.slopes(pairs, theta)
        itself = model.pairs(x, elementwise=True)
        expected = np.append(model.value(model.pairs(x, others), theta), model.value(itself, theta))
        np.testing.assert_allclose(slopes.value[0], expected, rtol=1e-9, atol=1e-10)
        upstream = rng.normal(size=(2, len(expected)))
        found = model.pull(x, others, pairs, upstream, slopes)
        for row, gradients in zip(upstream, zip(*found, strict=True), strict=True):
            of_others, of_itself = row[None, :-1], np.array([row[-1] / 2])
            across = model.pairs(x, others)
            one = model.pull(x, others, across, of_others, model.slopes(across, theta))
            other = model.pull(x, None, itself, of_itself, model.slopes(itself, theta))
            for gradient, first, second in zip(gradients, one, other, strict=True):
                np.testing.assert_allclose(gradient, (first + second)[0], rtol=1e-7, atol=1e-8)
