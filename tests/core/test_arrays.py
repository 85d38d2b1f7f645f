"""Points and constants in NumPy and PyTorch."""

import array_api_compat
import numpy as np
import pytest

from mkbo_plugins.core.arrays import array_namespace, constant, coordinates, equal_points
from mkbo_plugins.errors import KernelError


def test_equal_points_compares_by_value():
    X = np.array([[0.0, 1.0], [2.0, 3.0]])
    Y = np.array([[-0.0, 1.0], [2.0, 3.5], [2.0, 3.0]])
    expected = [[True, False, False], [False, False, True]]
    np.testing.assert_array_equal(equal_points(X, Y, elementwise=False), expected)
    np.testing.assert_array_equal(equal_points(X, Y[:2], elementwise=True), [True, False])


def test_namespaces_are_those_of_the_library():
    torch = pytest.importorskip("torch")
    for arrays in ((np.zeros(2),), (np.zeros(2), np.zeros((3, 1), int)), (torch.zeros(2),), (torch.zeros(2), 1.0)):
        for _ in range(2):
            assert array_namespace(*arrays) is array_api_compat.array_namespace(*arrays)
    for _ in range(2):
        with pytest.raises(TypeError):
            array_namespace(np.zeros(2), torch.zeros(2))


def test_a_read_only_constant_becomes_a_tensor_of_its_own():
    torch = pytest.importorskip("torch")
    values = np.array([1.0, 2.0])
    values.setflags(write=False)
    tensor = constant(values, torch.zeros(1, dtype=torch.float64))
    assert tensor.dtype == torch.float64
    tensor += 1
    np.testing.assert_array_equal(values, [1.0, 2.0])


@pytest.mark.parametrize("X", [3, 3.0, np.float64(3), np.array(3.0), "text", [[1.0], [1.0, 2.0]], [[1.0, 2.0, 3.0]]])
def test_what_is_no_point_is_refused(X):
    with pytest.raises(KernelError):
        coordinates(X, 2)
