"""The covariance that campaigns say to expect: its definition, its gradients, and what a single campaign leaves."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mkbo_plugins.core import Exponential, SquaredExponential, WeightedPoints
from mkbo_plugins.core.components.campaigns import Campaigns
from mkbo_plugins.core.components.components import PretrainedComponents
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.gp.design import portfolio_design
from mkbo_plugins.errors import KernelError
from tests.core.helpers import numeric_gradient

KERNELS = [SquaredExponential(weights=(1.0, 0.3, 2.0), sigma=0.7), Exponential(weights=(0.5, 0.2, 0.1), sigma=0.9)]


def components(kernel, campaigns=5, seed=0):
    """Return the components of a machine and of campaigns with points of their own."""
    rng = np.random.default_rng(seed)
    machine = DecisionFunction(kernel, WeightedPoints(rng.uniform(-1, 1, (6, 3)), rng.normal(size=6)), 0.3)
    pooled = Campaigns(kernel, rng.uniform(-1, 1, (7, 3)), rng.normal(size=(campaigns, 7)), rng.normal(size=campaigns))
    return PretrainedComponents(machine, 2.0, 0.1, 0.8, campaigns=pooled)


def points(n, seed=1):
    """Return points of the frame."""
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("same", [True, False])
def test_the_moment_is_the_second_moment_of_the_campaigns(kernel, same):
    fixed, X = components(kernel), points(9)
    Y = X if same else points(4, 2)
    predictions = [
        [[a @ [float(kernel(z, x)) for z in fixed.campaigns.points] + b for x in P] for P in (X, Y)]
        for a, b in zip(fixed.campaigns.alpha, fixed.campaigns.bias, strict=True)
    ]
    of_x, of_y = (np.array([p[i] for p in predictions]) for i in (0, 1))
    differences = np.mean(
        [np.outer(gx - of_x.mean(axis=0), gy - of_y.mean(axis=0)) for gx, gy in zip(of_x, of_y, strict=True)], axis=0
    )
    g_x, g_y = ((predicted.mean(axis=0) - 0.1) / 0.8 for predicted in (of_x, of_y))
    got = fixed.components(("moment",), X, None if same else Y)["moment"].value
    np.testing.assert_allclose(got, np.outer(g_x, g_y) + differences / 0.8**2, rtol=1e-11, atol=1e-11)
    if same:
        diagonal = fixed.components(("moment",), X, elementwise=True)["moment"].value
        np.testing.assert_allclose(diagonal, np.diagonal(got), rtol=1e-12)
        assert np.linalg.eigvalsh(got).min() > -1e-12 * got.max()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("elementwise", [True, False])
def test_gradients_are_those_of_finite_differences(kernel, elementwise):
    fixed, X, Y = components(kernel), points(3), points(3, 2)
    upstream = np.random.default_rng(3).normal(size=3 if elementwise else (3, 3))

    def value(A, B):
        return float(np.sum(upstream * fixed.components(("moment",), A, B, elementwise=elementwise)["moment"].value))

    of_x, of_y = fixed.components(("moment",), X, Y, elementwise=elementwise)["moment"].vjp(upstream)
    np.testing.assert_allclose(of_x, numeric_gradient(lambda A: value(A, Y), X), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(of_y, numeric_gradient(lambda B: value(X, B), Y), rtol=1e-6, atol=1e-7)


def test_second_derivatives_in_pytorch_are_those_of_autograd():
    from mkbo_plugins.botorch.differentiable import components as tensors

    fixed, X = components(KERNELS[0]), torch.tensor(points(1))
    Y = torch.tensor(points(2, 2))

    def by_hand(x):
        C = fixed.campaigns
        g = [(C(P).mean(dim=-1) - 0.1) / 0.8 for P in (x, Y)]
        d = [C(P) - C(P).mean(dim=-1, keepdim=True) for P in (x, Y)]
        return (torch.outer(*g) + d[0] @ d[1].T / 5 / 0.64).square().sum()

    def built(x):
        return tensors(fixed, ("moment",), x, Y)[0].square().sum()

    hessian = torch.autograd.functional.hessian
    torch.testing.assert_close(hessian(built, X), hessian(by_hand, X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_from_a_point_it_is_what_it_is_between_points(kernel):
    fixed, x, Y = components(kernel), points(1), points(4, 2)
    from_point = fixed.from_point(("moment",), x, Y)["moment"]
    between = fixed.components(("moment",), x, np.concatenate([Y, x]))["moment"]
    np.testing.assert_allclose(from_point.value, between.value, rtol=1e-12)
    upstream = np.random.default_rng(4).normal(size=(2, 5))
    got, _ = from_point.vjp(upstream)
    wanted = np.concatenate([between.vjp(row[None, :], second=False)[0] for row in upstream])
    np.testing.assert_allclose(got, wanted, rtol=1e-11)


@pytest.mark.parametrize("of_campaigns", [True, False])
def test_single_precision_loses_no_more_than_its_own_rounding_where_large_terms_cancel(of_campaigns):
    from mkbo_plugins.botorch.differentiable import components as tensors

    kernel, rng = SquaredExponential(sigma=9.0), np.random.default_rng(0)
    Z = np.linspace(-1, 1, 30)[:, None]
    gram = kernel.gram(Z) + 1e-9 * np.eye(30)
    alpha = np.linalg.solve(gram, np.column_stack([np.sin(3 * Z[:, 0] + i) for i in range(4)])).T
    assert np.abs(alpha).max() > 1e4
    pooled = Campaigns(kernel, Z, alpha, np.zeros(4)) if of_campaigns else None
    machine = DecisionFunction(kernel, WeightedPoints(Z, alpha[0]), 0.0)
    fixed = PretrainedComponents(machine, 1.0, 0.0, 0.7, campaigns=pooled)
    X = torch.tensor(rng.uniform(-1, 1, (6, 1)), dtype=torch.float32).requires_grad_()
    Y = X.detach().double().requires_grad_()
    single, double = (tensors(fixed, ("moment",), P, P)[0] for P in (X, Y))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-5)
    of_x, of_y = (torch.autograd.grad(value.sum(), P)[0] for value, P in ((single, X), (double, Y)))
    torch.testing.assert_close(of_x.double(), of_y, rtol=1e-4, atol=1e-4)


def test_campaigns_that_agree_add_nothing():
    fixed = components(KERNELS[0])
    C = fixed.campaigns
    alike = replace(C, alpha=np.tile(C.alpha[:1], (5, 1)), bias=np.tile(C.bias[:1], 5))
    X = points(6)
    g = (alike(X)[:, 0] - 0.1) / 0.8
    np.testing.assert_allclose(
        replace(fixed, campaigns=alike).components(("moment",), X)["moment"].value, np.outer(g, g), atol=1e-12
    )


def test_wrong_shapes_and_numbers_are_refused():
    P, alpha = points(4), np.ones((3, 4))
    with pytest.raises(KernelError, match=r"alpha \(3, 4\) and bias|alpha \(3, 4\), bias \(2,\)"):
        Campaigns(KERNELS[0], P, alpha, np.ones(2))
    with pytest.raises(KernelError, match="finite"):
        Campaigns(KERNELS[0], P, alpha * np.nan, np.ones(3))


def test_a_portfolio_gains_most_with_each_next_point():
    rng = np.random.default_rng(5)
    predictions = rng.normal(size=(40, 6))
    picked = portfolio_design(predictions, 5)
    assert picked[0] == predictions.mean(axis=1).argmax()
    for k in range(1, 5):
        best = predictions[picked[:k]].max(axis=0)
        gains = [np.maximum(row - best, 0).mean() for row in predictions]
        assert gains[picked[k]] == max(gains)
    after = portfolio_design(predictions, 2, present=predictions[picked[:1]])
    assert after[0] == picked[1]


def test_a_portfolio_goes_on_by_the_mean_where_nothing_is_gained():
    predictions = np.array([[3.0, 3.0], [1.0, 1.0], [2.0, 2.0]])
    np.testing.assert_array_equal(portfolio_design(predictions, 3), [0, 2, 1])
