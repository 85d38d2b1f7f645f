"""Mathematical properties that every differentiable GPyTorch kernel must have; inherit and give two fixtures."""

import copy

import pytest
import torch
from gpytorch import settings
from gpytorch.kernels import Kernel
from torch import Tensor


class KernelPropertyTestCase:
    """Symmetry, positive semi-definiteness, exact gradients, and agreement of evaluation modes and dtypes.

    A subclass overrides the fixtures `kernel`, in double precision, and `points`, (n, d) with n of at least 5.
    """

    @pytest.fixture
    def kernel(self) -> Kernel:
        raise NotImplementedError

    @pytest.fixture
    def points(self) -> Tensor:
        raise NotImplementedError

    def test_symmetric(self, kernel: Kernel, points: Tensor) -> None:
        left, right = points[:3], points[2:]
        assert torch.allclose(kernel(left, right).to_dense(), kernel(right, left).to_dense().mT, rtol=1e-12, atol=1e-13)

    def test_gram_of_one_set_is_the_gram_between_it_and_itself(self, kernel: Kernel, points: Tensor) -> None:
        whole = kernel(points).to_dense()
        parts = torch.cat([kernel(points[:2], points).to_dense(), kernel(points[2:], points).to_dense()])
        assert torch.allclose(whole, parts, rtol=1e-10, atol=1e-11)

    def test_positive_semi_definite(self, kernel: Kernel, points: Tensor) -> None:
        repeated = torch.cat([points, points[:2], points[:1] + 1e-9])
        gram = kernel(repeated).to_dense()
        assert torch.linalg.eigvalsh(gram).min() > -1e-9 * gram.diagonal().max()

    def test_diagonal(self, kernel: Kernel, points: Tensor) -> None:
        gram = kernel(points).to_dense().diagonal()
        assert torch.allclose(kernel(points, diag=True), gram, rtol=1e-12, atol=1e-13)
        assert torch.allclose(kernel(points).diagonal(), gram, rtol=1e-12, atol=1e-13)

    def test_elementwise_pairs(self, kernel: Kernel, points: Tensor) -> None:
        left, right = points[:3], points[2:5]
        between = kernel(left, right).to_dense().diagonal()
        assert torch.allclose(kernel(left, right, diag=True), between, rtol=1e-10, atol=1e-11)

    def test_gradient_in_both_inputs(self, kernel: Kernel, points: Tensor) -> None:
        left, right = points[:2].clone().requires_grad_(), points[2:5].clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda a, b: kernel(a, b).to_dense(), (left, right))

    def test_gradient_in_shared_inputs(self, kernel: Kernel, points: Tensor) -> None:
        assert torch.autograd.gradcheck(lambda a: kernel(a).to_dense(), (points[:3].clone().requires_grad_(),))

    def test_gradient_of_the_diagonal(self, kernel: Kernel, points: Tensor) -> None:
        assert torch.autograd.gradcheck(lambda a: kernel(a, diag=True), (points[:3].clone().requires_grad_(),))

    def test_gradient_in_every_hyperparameter(self, kernel: Kernel, points: Tensor) -> None:
        parameters = dict(kernel.named_parameters())
        assert parameters

        def gram(*values: Tensor) -> Tensor:
            with settings.lazily_evaluate_kernels(False):
                state = dict(zip(parameters, values, strict=True))
                return torch.func.functional_call(kernel, state, (points[:3], points[2:])).to_dense()

        values = [value.detach().clone().requires_grad_() for value in parameters.values()]
        assert torch.autograd.gradcheck(gram, values)
        for name, slope in zip(parameters, torch.autograd.grad(gram(*values).sum(), values), strict=True):
            assert slope.abs().max() > 0, f"{name} has no effect"

    def test_single_precision_is_close_to_double(self, kernel: Kernel, points: Tensor) -> None:
        double = kernel(points).to_dense()
        single = copy.deepcopy(kernel).float()(points.float()).to_dense()
        assert single.dtype == torch.float32
        scale = torch.sqrt(torch.outer(double.diagonal(), double.diagonal()))
        assert ((single.double() - double).abs() / scale).max() < 1e-5
