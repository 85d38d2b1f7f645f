"""The GPyTorch kernel: its contract, its mathematics, its copies and its cache."""

import copy
import io
import pickle
import unittest
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase

from mkbo_plugins.botorch import PretrainedKernel, pretrained_gp
from mkbo_plugins.botorch.differentiable import beside, components
from mkbo_plugins.core.components.components import COMPONENTS, PretrainedComponents
from mkbo_plugins.core.components.several import SeveralTables
from mkbo_plugins.errors import ArtefactError, KernelError
from tests.botorch.conftest import PRETRAINED_FORMS, four_coordinates
from tests.botorch.kernel_property_test_case import KernelPropertyTestCase

STOCK_DIMS = 2


def make_kernel(form="transfer", *, stock_dims=STOCK_DIMS, **kwargs):
    """Return a kernel over four frame coordinates whose learned scales are all different."""
    kernel = PretrainedKernel(four_coordinates(), form, stock_dims=stock_dims, **kwargs).double()
    scales = {"output_scale": 1.7, "moment_scale": 0.4, "feature_scale": 0.9, "link_scale": 0.6, "link_width": 0.8}
    scales |= {"similarity_scale": 1.2}
    for name in kernel.form.hyperparameters:
        spread = torch.linspace(1, 2, max(1, kernel.batch_shape.numel())).reshape(kernel.batch_shape)
        kernel.set_scale(name, scales[name] * spread)
    return kernel


def make_points(n=6, *, stock_dims=STOCK_DIMS, seed=0):
    """Return inputs of which some lie outside the frame."""
    generator = torch.Generator().manual_seed(seed)
    return 2.6 * torch.rand(n, 4 + stock_dims, generator=generator, dtype=torch.double) - 1.3


class _Widths:
    """Data of the contract's helpers with as many columns as the kernel has, and active columns to match."""

    width = 4
    active = (0, 2, 4, 6)

    def create_data_no_batch(self):
        return torch.rand(20, 10) * 2 - 1

    def create_data_single_batch(self):
        return torch.rand(2, 3, self.width) * 2 - 1

    def create_data_double_batch(self):
        return torch.rand(3, 2, 10, self.width) * 2 - 1

    def _check_active_dims(self, active):
        x = self.create_data_no_batch()
        chosen = self.create_kernel_no_ard(active_dims=list(active))(x).evaluate_kernel().to_dense()
        alone = self.create_kernel_no_ard()(x[:, list(active)]).evaluate_kernel().to_dense()
        torch.testing.assert_close(chosen, alone, rtol=1e-5, atol=1e-6)

    def test_active_dims_list(self):
        self._check_active_dims(self.active)

    def test_active_dims_range(self):
        self._check_active_dims(range(3, 3 + self.width))


class TestFixedFormContract(_Widths, BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **kwargs):
        return PretrainedKernel(four_coordinates(), "two_layer", **kwargs)


class TestTransferContract(_Widths, BaseKernelTestCase, unittest.TestCase):
    width = 4 + STOCK_DIMS
    active = (0, 2, 4, 6, 8, 9)

    def create_kernel_no_ard(self, **kwargs):
        return PretrainedKernel(four_coordinates(), "transfer", stock_dims=STOCK_DIMS, **kwargs)


class TestProperties(KernelPropertyTestCase):
    @pytest.fixture(params=PRETRAINED_FORMS)
    def kernel(self, request):
        return make_kernel(request.param)

    @pytest.fixture
    def points(self):
        return make_points()


class TestPropertiesWithoutStockColumns(KernelPropertyTestCase):
    @pytest.fixture(params=["two_layer", "normalised", "reweighted", "base"])
    def kernel(self, request):
        return make_kernel(request.param, stock_dims=0)

    @pytest.fixture
    def points(self):
        return make_points(stock_dims=0)


def test_dtype_and_device_follow_the_parameters():
    kernel = make_kernel()
    assert kernel.dtype == torch.float64
    assert kernel.float().dtype == torch.float32
    assert kernel.device == torch.device("cpu")


def test_gradients_are_finite_far_outside_the_frame_and_at_the_centre():
    for form in PRETRAINED_FORMS:
        x = torch.cat([torch.zeros(1, 6), torch.full((1, 6), 30.0), torch.eye(6)[:1]]).double().requires_grad_()
        gram = make_kernel(form)(x).to_dense()
        (slope,) = torch.autograd.grad(gram.sum(), x)
        assert torch.isfinite(gram).all(), form
        assert torch.isfinite(slope).all(), form


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_batched_inputs_equal_one_at_a_time(form):
    kernel = make_kernel(form)
    x = torch.stack([make_points(seed=s) for s in range(6)]).reshape(3, 2, 6, 6)
    y = make_points(4, seed=9)
    together = kernel(x, y).to_dense()
    assert together.shape == (3, 2, 6, 4)
    for i in range(3):
        for j in range(2):
            assert torch.allclose(together[i, j], kernel(x[i, j], y).to_dense(), rtol=1e-12)


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
@pytest.mark.parametrize("active_dims", [None, [1, 3, 4, 5, 6, 8]])
def test_batched_kernel_equals_its_members(form, active_dims):
    kernel = make_kernel(form, batch_shape=torch.Size([3, 2]), active_dims=active_dims)
    kernel.stock.lengthscale = torch.linspace(0.5, 1.5, 12).reshape(3, 2, 1, 2)
    x = make_points(5, stock_dims=6)[:, : 6 if active_dims is None else 10]
    together = kernel(x).to_dense()
    assert together.shape == (3, 2, 5, 5)
    assert not torch.allclose(together[0, 0], together[2, 1])
    for index in [(0, 0), (2, 1), (-1, 0)]:
        member = kernel[index]
        assert member.batch_shape == torch.Size([])
        assert torch.allclose(member(x).to_dense(), together[index], rtol=1e-12)
    assert kernel[1:].batch_shape == (2, 2)
    assert torch.allclose(kernel[1:](x).to_dense(), together[1:], rtol=1e-12)
    assert torch.allclose(kernel[:, 1](x).to_dense(), together[:, 1], rtol=1e-12)
    assert kernel.batch_shape == (3, 2)


@pytest.mark.parametrize("active_dims", [None, [1, 3, 4, 5, 6, 8]])
def test_expand_batch(active_dims):
    kernel = make_kernel(active_dims=active_dims)
    x = make_points(5, stock_dims=6)[:, : 6 if active_dims is None else 10]
    expanded = kernel.expand_batch(torch.Size([3, 2]))
    assert expanded.batch_shape == (3, 2)
    assert torch.allclose(expanded(x).to_dense(), kernel(x).to_dense().expand(3, 2, 5, 5), rtol=1e-12)
    assert kernel.batch_shape == ()
    assert kernel.expand_batch(()) is kernel


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_copies_are_equal_and_independent(form):
    kernel = make_kernel(form)
    x = make_points()
    before = kernel(x).to_dense()
    for duplicate in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert torch.equal(duplicate(x).to_dense(), before)
        for name in duplicate.form.hyperparameters:
            duplicate.set_scale(name, 0.1)
        assert not torch.allclose(duplicate(x).to_dense(), before)
        assert torch.equal(kernel(x).to_dense(), before)


def test_deepcopy_shares_the_artefact_and_starts_with_an_empty_cache():
    kernel = make_kernel()
    kernel(make_points()).to_dense()
    duplicate = copy.deepcopy(kernel)
    assert duplicate.cov is kernel.cov
    assert len(kernel._recent._entries) > 0
    assert len(duplicate._recent._entries) == 0
    assert len(pickle.loads(pickle.dumps(kernel))._recent._entries) == 0


def joined(train, test):
    """Return test and training rows cut out of one tensor, as GPyTorch gives them to a kernel."""
    both = torch.cat([train.expand(*test.shape[:-2], *train.shape), test], dim=-2)
    return both[..., len(train) :, :], both[..., : len(train), :]


@pytest.mark.parametrize("active_dims", [None, [1, 3, 4, 5, 6, 8]])
@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_points_beside_known_ones_meet_them_and_themselves(form, active_dims):
    kernel = make_kernel(form, active_dims=active_dims)

    def points(n, seed):
        return make_points(n, stock_dims=STOCK_DIMS if active_dims is None else 6, seed=seed)

    known = points(7, 0)
    for test in (points(3, 1), torch.stack([points(2, seed) for seed in (1, 2, 3)]), points(4, 5)[:, None, :]):
        for others in (known, known.clone().requires_grad_(), known.expand(*test.shape[:-2], *known.shape)):
            asked = [Z for Z in (test.requires_grad_(), others) if Z.requires_grad]
            beside = kernel.beside(test, others)
            apart = torch.cat([kernel(test, others).to_dense(), kernel(test).to_dense()], dim=-1)
            torch.testing.assert_close(beside, apart, rtol=1e-12, atol=1e-14)
            weights = torch.rand(beside.shape, dtype=torch.double)
            gradients = torch.autograd.grad((weights * beside).sum(), asked, retain_graph=True)
            expected = torch.autograd.grad((weights * apart).sum(), asked)
            torch.testing.assert_close(gradients, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("tables", [1, 2])
def test_components_beside_are_differentiable_twice(tables):
    one, name = four_coordinates().fixed, "feature_distance" if tables == 1 else "feature_distance_2"
    fixed = one if tables == 1 else SeveralTables((one, one), ((0, 1, 2, 3), (3, 1, 2, 0)))
    x, y = (make_points(2, seed=seed, stock_dims=0)[:, :4].clone().requires_grad_() for seed in (0, 1))
    assert torch.autograd.gradcheck(lambda a, b: beside(fixed, (name,), a, b), (x, y))
    assert torch.autograd.gradgradcheck(lambda a, b: beside(fixed, (name,), a, b), (x, y))


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_training_inputs_in_a_prediction_cost_no_gradient(form, monkeypatch):
    kernel, train = make_kernel(form), make_points(7)
    test = torch.stack([make_points(2, seed=k) for k in range(1, 4)]).requires_grad_()
    weights = torch.rand(3, 2, 7, dtype=torch.double)
    expected = kernel(*joined(train, test)).to_dense()
    gradient = torch.autograd.grad((weights * expected).sum(), test)[0]

    asked, evaluate = [], PretrainedComponents.components

    @dataclass
    class Asked:
        component: Any

        @property
        def value(self):
            return self.component.value

        def vjp(self, upstream, *, second):
            asked.append(second)
            return self.component.vjp(upstream, second=second)

    monkeypatch.setattr(
        PretrainedComponents,
        "components",
        lambda *args, **options: {name: Asked(found) for name, found in evaluate(*args, **options).items()},
    )
    kernel(train).to_dense()
    value = kernel(*joined(train, test)).to_dense()
    assert torch.allclose(value, expected, rtol=1e-12)
    assert torch.allclose(torch.autograd.grad((weights * value).sum(), test)[0], gradient, rtol=1e-9, atol=1e-12)
    assert asked
    assert not any(asked)


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_copies_of_training_inputs_are_evaluated_once(form, monkeypatch):
    kernel, train = make_kernel(form), make_points(7)
    test = torch.stack([make_points(2, seed=k) for k in range(1, 4)])
    expected = kernel(*joined(train, test)).to_dense()
    kernel(train).to_dense()
    seen, evaluate = [], PretrainedComponents.components
    monkeypatch.setattr(
        PretrainedComponents,
        "components",
        lambda self, names, X, Y=None, **kwargs: seen.append(Y.shape) or evaluate(self, names, X, Y, **kwargs),
    )
    assert torch.allclose(kernel(*joined(train, test)).to_dense(), expected, rtol=1e-12)
    assert seen == [(7, 4)]


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_other_inputs_of_the_shape_of_training_inputs_are_not_taken_for_them(form):
    kernel, train, other = make_kernel(form), make_points(7), make_points(7, seed=8)
    kernel(train).to_dense()
    test = torch.stack([make_points(2, seed=k) for k in range(1, 4)])
    for points in (test, test.clone().requires_grad_()):
        value, expected = (k(*joined(other, points)).to_dense() for k in (kernel, make_kernel(form)))
        assert torch.allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_inputs_that_need_a_gradient_get_it_where_they_equal_training_inputs(form):
    kernel, train = make_kernel(form), make_points(7)
    kernel(train).to_dense()
    test, same = make_points(2, seed=1).requires_grad_(), train.clone().requires_grad_()
    weights = torch.rand(2, 7, dtype=torch.double)
    for first, second in ((test, same), joined(same, test), (test, torch.cat([same[:3], same[3:]])[:])):
        direct = torch.autograd.grad((weights * kernel(first, second).to_dense()).sum(), same)[0]
        alone = same.detach().clone().requires_grad_()
        value = make_kernel(form)(test.detach(), alone).to_dense()
        assert torch.allclose(direct, torch.autograd.grad((weights * value).sum(), alone)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_inputs_cut_out_of_one_tensor_twice_are_evaluated_as_one(form, monkeypatch):
    kernel, train = make_kernel(form), make_points(7)
    test = torch.stack([make_points(2, seed=k) for k in range(1, 4)]).requires_grad_()
    both = torch.cat([train.expand(3, 7, -1), test], dim=-2)
    first, second = both[..., 7:, :], both[..., 7:, :]
    weights = torch.rand(3, 2, 2, dtype=torch.double)
    leaves = [test.detach().clone().requires_grad_() for _ in range(2)]
    expected = kernel(*leaves).to_dense()
    slopes = torch.autograd.grad((weights * expected).sum(), leaves)

    seen, evaluate = [], PretrainedComponents.components
    monkeypatch.setattr(
        PretrainedComponents,
        "components",
        lambda self, names, X, Y=None, **kwargs: seen.append(Y) or evaluate(self, names, X, Y, **kwargs),
    )
    value = kernel(first, second).to_dense()
    assert torch.allclose(value, expected, rtol=1e-12, atol=1e-14)
    assert torch.allclose(torch.autograd.grad((weights * value).sum(), test)[0], sum(slopes), rtol=1e-9, atol=1e-12)
    assert seen == [None]


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_equal_inputs_from_different_places_of_one_tensor_keep_their_gradients(form):
    kernel, points = make_kernel(form), make_points(3)
    both = torch.cat([points, points]).requires_grad_()
    leaves = [points.clone().requires_grad_() for _ in range(2)]
    weights = torch.rand(3, 3, dtype=torch.double)
    value = kernel(both[:3], both[3:]).to_dense()
    expected = torch.autograd.grad((weights * kernel(*leaves).to_dense()).sum(), leaves)
    assert torch.allclose(torch.autograd.grad((weights * value).sum(), both)[0], torch.cat(expected), rtol=1e-9)
    mirrored = torch.autograd.grad((weights.T * kernel(*leaves).to_dense()).sum(), leaves)
    for ours, theirs in zip(expected, reversed(mirrored), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_points_in_every_batch_that_each_need_a_gradient(form):
    kernel, batch = make_kernel(form), make_points(3).repeat(2, 1, 1)
    batch[1, 0] += 0.3
    batch[0, 0] = batch[0, 1]
    weights = torch.rand(2, 3, 3, dtype=torch.double)
    joint = batch.clone().requires_grad_()
    slope = torch.autograd.grad((weights * kernel(joint, joint).to_dense()).sum(), joint)[0]
    for b in range(2):
        alone = batch[b].clone().requires_grad_()
        expected = torch.autograd.grad((weights[b] * kernel(alone, alone).to_dense()).sum(), alone)[0]
        assert torch.allclose(slope[b], expected, rtol=1e-9, atol=1e-12)


def test_priors_survive_copies_and_set_the_scales():
    kernel = pickle.loads(pickle.dumps(make_kernel()))
    priors = {name: (prior, read, write) for name, _, prior, read, write in kernel.named_priors()}
    assert {f"{name}_prior" for name in kernel.form.hyperparameters} < set(priors)
    for name in kernel.form.hyperparameters:
        _, read, write = priors[f"{name}_prior"]
        write(kernel, torch.tensor(0.7))
        assert torch.allclose(kernel.scale(name), torch.tensor(0.7).double())
        assert torch.allclose(read(kernel), kernel.scale(name))


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_state_dict_round_trip_without_arbitrary_objects(form):
    kernel, fresh = make_kernel(form), PretrainedKernel(four_coordinates(), form, stock_dims=STOCK_DIMS).double()
    file = io.BytesIO()
    torch.save(kernel.state_dict(), file)
    file.seek(0)
    x = make_points()
    assert not torch.allclose(fresh(x).to_dense(), kernel(x).to_dense())
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(fresh(x).to_dense(), kernel(x).to_dense())


def test_state_dict_of_another_artefact_is_refused():
    other = PretrainedKernel(four_coordinates(-1.0), "transfer", stock_dims=STOCK_DIMS)
    assert other.cov.fingerprint != four_coordinates().fingerprint
    with pytest.raises(ArtefactError, match=other.cov.fingerprint[:12]):
        make_kernel().load_state_dict(other.state_dict())


def test_arguments_without_meaning_are_refused():
    x = make_points()
    deprecated = pytest.warns(DeprecationWarning, match="last_dim_is_batch")
    with deprecated, pytest.raises(KernelError, match="no last_dim_is_batch mode"):
        make_kernel()(x, last_dim_is_batch=True).to_dense()
    with pytest.raises(KernelError, match="4 frame and 2 stock columns, got 5"):
        make_kernel()(x[:, :5]).to_dense()
    with pytest.raises(KernelError, match="transfr"):
        PretrainedKernel(four_coordinates(), "transfr", stock_dims=1)


@pytest.mark.parametrize("elementwise", [False, True])
@pytest.mark.parametrize("name", COMPONENTS)
def test_gradients_of_parts(name, elementwise):
    fixed = four_coordinates().fixed
    x, y = make_points(3, stock_dims=0), make_points(3, seed=1, stock_dims=0)
    x, y = x[:, :4].clone().requires_grad_(), y[:, :4].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: components(fixed, (name,), a, b, elementwise=elementwise), (x, y))
    assert torch.autograd.gradcheck(lambda a: components(fixed, (name,), a, None, elementwise=elementwise), (x,))
    batch = torch.stack([x.detach(), y.detach() * 0.5])
    assert torch.autograd.gradcheck(lambda a: components(fixed, (name,), a, batch, elementwise=elementwise), (x,))
    shared = y.detach().expand(2, 3, 4)
    for second in (shared, batch.flip(0)):
        left, right = batch.clone().requires_grad_(), second.clone().requires_grad_()
        assert torch.autograd.gradcheck(
            lambda a, b: components(fixed, (name,), a, b, elementwise=elementwise), (left, right)
        )
        right = second.clone()
        assert torch.autograd.gradcheck(
            lambda a, b: components(fixed, (name,), a, b, elementwise=elementwise), (left, right)
        )


@pytest.mark.parametrize("choice", ["features", "pairs"])
@pytest.mark.parametrize("elementwise", [False, True])
@pytest.mark.parametrize("name", COMPONENTS)
def test_second_derivatives_of_components(name, elementwise, choice):
    fixed = replace(four_coordinates().fixed, choice=choice)
    x, y = (make_points(2, seed=seed, stock_dims=0)[:, :4].clone().requires_grad_() for seed in (0, 1))
    with torch.no_grad():
        x[0, 1] = 0.0
    assert torch.autograd.gradgradcheck(lambda a, b: components(fixed, (name,), a, b, elementwise=elementwise), (x, y))
    assert torch.autograd.gradgradcheck(lambda a: components(fixed, (name,), a, None, elementwise=elementwise), (x,))
    batch = torch.stack([x.detach(), y.detach() * 0.5]).requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda a: components(fixed, (name,), a, y.detach().expand(2, 2, 4), elementwise=elementwise), (batch,)
    )


@pytest.mark.parametrize("choice", ["features", "pairs"])
@pytest.mark.parametrize("name", COMPONENTS)
def test_the_hessian_at_points_that_equal_others_is_the_one_of_their_neighbours(name, choice):
    fixed, y = replace(four_coordinates().fixed, choice=choice), make_points(6, stock_dims=0)

    def total(steps):
        return components(fixed, (name,), (y + steps)[:, None, :], y[:, None, :])[0].sum()

    start = torch.zeros_like(y)
    hessian = torch.autograd.functional.hessian(total, start)
    for i, j in [(0, 0), (1, 2), (4, 3)]:
        step = torch.zeros_like(y)
        step[i, j] = 1e-5
        slopes = [torch.autograd.functional.jacobian(total, start + sign * step) for sign in (1, -1)]
        expected = (slopes[0] - slopes[1]) / 2e-5
        torch.testing.assert_close(hessian[i, j], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("elementwise", [False, True])
@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize("name", COMPONENTS)
def test_gradients_are_the_same_where_they_are_to_be_differentiated_again(name, tables, elementwise):
    one = four_coordinates().fixed
    other = replace(one, mean_diagonal=2 * one.mean_diagonal, decision_mean=-0.1, decision_spread=0.7)
    fixed, name = (
        (one, name) if tables == 1 else (SeveralTables((other, one), ((0, 1, 2, 3), (4, 1, 5, 0))), name + "_2")
    )
    width = 4 if tables == 1 else 6
    x, y = (make_points(3, seed=seed, stock_dims=width - 4).requires_grad_() for seed in (0, 1))
    same = torch.cat([x.detach()[:1], y.detach()[1:]]).requires_grad_()
    weights = torch.rand(3, dtype=torch.double) if elementwise else torch.rand(3, 3, dtype=torch.double)
    for points in ((x, y), (x, same), (x, None)):
        (value,) = components(fixed, (name,), *points, elementwise=elementwise)
        leaves = [Z for Z in points if Z is not None]
        once = torch.autograd.grad((weights * value).sum(), leaves, retain_graph=True)
        again = torch.autograd.grad((weights * value).sum(), leaves, create_graph=True)
        for ours, theirs in zip(again, once, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


def test_the_hessian_of_a_posterior_mean_is_the_one_of_its_values(cov):
    X = torch.as_tensor(cov.space.sobol(12, seed=1))
    y = torch.sin(torch.as_tensor(cov.to_coordinates(X.numpy())).sum(dim=1, keepdim=True))
    model, numeric = pretrained_gp(cov, X, y), [name for name in cov.space.names if name != "gas"]
    columns = [cov.space.names.index(name) for name in numeric]
    x, scale = X[3].clone(), X[:, columns].std(dim=0)

    def mean(step):
        point = x.clone()
        point[columns] = x[columns] + 0.05 * scale + step * scale
        return model.posterior(point[None, :]).mean.squeeze()

    hessian = torch.autograd.functional.hessian(mean, torch.zeros(len(columns), dtype=torch.double))
    slopes = lambda step: torch.autograd.functional.jacobian(mean, step)  # noqa: E731
    h = 1e-5 * torch.eye(len(columns), dtype=torch.double)
    expected = torch.stack([(slopes(step) - slopes(-step)) / 2e-5 for step in h])
    assert torch.allclose(hessian, expected, rtol=1e-5, atol=1e-7 * expected.abs().max())


def test_third_derivatives_are_refused():
    fixed, x = four_coordinates().fixed, make_points(1, stock_dims=0)[:, :4].clone().requires_grad_()
    value = components(fixed, ("reweighted",), x, x.detach() * 0.5)[0].sum()
    for _ in range(2):
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        value = gradient.sum()
    with pytest.raises(NotImplementedError, match="third derivatives"):
        torch.autograd.grad(value, x)


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_length_scales_are_those_of_a_stock_covariance_of_all_parameters(form):
    kernel = make_kernel(form)
    if not kernel.form.uses_stock:
        assert kernel.lengthscale is None
        with pytest.raises(KernelError, match="set_scale"):
            kernel.lengthscale = 0.3
        return
    kernel.lengthscale = torch.tensor([0.1, 0.2])
    assert torch.equal(kernel.lengthscale, kernel.stock.lengthscale)
    torch.testing.assert_close(kernel.lengthscale.detach(), torch.tensor([[0.1, 0.2]]).double())
    kernel.initialize(lengthscale=0.3)
    torch.testing.assert_close(kernel.stock.lengthscale.detach(), torch.full((1, 2), 0.3).double())


def test_is_not_stationary():
    assert not make_kernel().is_stationary


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_cache_follows_inputs_changed_in_place(form):
    kernel, x = make_kernel(form), make_points()
    kernel(x).to_dense()
    kernel(x, diag=True)
    x[0, 1] += 0.3
    assert torch.equal(kernel(x).to_dense(), make_kernel(form)(x).to_dense())
    assert torch.equal(kernel(x, diag=True), make_kernel(form)(x, diag=True))


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_cache_tells_both_sides_apart(form):
    kernel, x, y = make_kernel(form), make_points(4), make_points(4, seed=1)
    for left, right in [(x, y), (x, x), (y, x), (y, y)]:
        assert torch.equal(kernel(left, right).to_dense(), make_kernel(form)(left, right).to_dense())


def test_cache_follows_hyperparameters():
    kernel, x = make_kernel(), make_points()
    before = kernel(x).to_dense()
    kernel.set_scale("feature_scale", 0.2)
    after = kernel(x).to_dense()
    assert not torch.allclose(after, before)
    fresh = make_kernel()
    fresh.set_scale("feature_scale", 0.2)
    assert torch.equal(after, fresh(x).to_dense())


def test_cache_follows_dtype_and_shape():
    kernel, x = make_kernel(), make_points().float().double()
    double = kernel(x).to_dense()
    single = kernel.float()(x.float()).to_dense()
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    assert torch.equal(kernel.double()(x).to_dense(), make_kernel().float().double()(x).to_dense())
    assert kernel(x[None]).to_dense().shape == (1, 6, 6)


def test_cache_gives_results_whose_change_does_no_harm():
    kernel, x = make_kernel("base", stock_dims=0), make_points(stock_dims=0)
    first = kernel(x).to_dense().detach()
    expected = first.clone()
    first.zero_()
    assert torch.equal(kernel(x).to_dense(), expected)


def test_cache_is_not_filled_in_inference_mode():
    kernel, x = make_kernel(), make_points()
    with torch.inference_mode():
        kernel(x).to_dense()
    kernel(x).to_dense().sum().backward()
    assert all(p.grad is not None for p in kernel.parameters())


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_training_inputs_of_inference_mode_do_not_meet_a_gradient(form):
    kernel, test = make_kernel(form), make_points(2, seed=1)[None].requires_grad_()
    with torch.inference_mode():
        train = make_points(7)
        kernel(train).to_dense()
    value = kernel(*joined(train.clone(), test)).to_dense()
    (gradient,) = torch.autograd.grad(value.sum(), test)
    (expected,) = torch.autograd.grad(make_kernel(form)(test, train.clone()).to_dense().sum(), test)
    torch.testing.assert_close(gradient, expected)


def test_fixed_parts_are_evaluated_once_for_the_same_inputs(monkeypatch):
    calls = []
    evaluate = PretrainedComponents.components

    def counted(self, names, *args, **kwargs):
        calls.extend(names)
        return evaluate(self, names, *args, **kwargs)

    monkeypatch.setattr(PretrainedComponents, "components", counted)
    kernel, x = make_kernel(), make_points()
    for scale in (0.1, 1.0, 10.0):
        kernel.set_scale("feature_scale", scale)
        kernel(x).to_dense()
    assert sorted(calls) == ["feature_distance", "moment"]


@pytest.mark.parametrize("shift", [0.0, 1e-9])
def test_gradients_reach_points_that_equal_the_data(cov, shift):
    kernel = PretrainedKernel(cov).double()
    data = torch.as_tensor(cov.to_coordinates(cov.space.sobol(5, seed=1)))
    other = torch.as_tensor(cov.to_coordinates(cov.space.sobol(3, seed=2)))
    kernel(data, data).to_dense()
    points = (data + shift).requires_grad_()
    joined = torch.cat([torch.zeros(1, data.shape[1], dtype=torch.double), points])
    (gradient,) = torch.autograd.grad(kernel(other, joined[1:]).to_dense().sum(), points)
    (alone,) = torch.autograd.grad(kernel(other, points).to_dense().sum(), points)
    torch.testing.assert_close(gradient, alone)
