"""The map from columns to coordinates: what stands for a parameter, in NumPy and PyTorch, and its gradient."""

import math

import numpy as np
import pytest
import torch

from mkbo_plugins import ParameterSpace
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.mapping import Affine, Constant, CoordinateMap, Levels

SPACE = ParameterSpace.from_dict(
    {
        "power": (100.0, 5500.0),
        "rate": (1e-5, 1e-1, "log"),
        "gas": ["Argon", "Nitrogen", "Air"],
        "size": [16, 32, 128],
        "grade": {"levels": ["low", "mid", "high"], "ordered": True},
    }
)
POINTS = [
    {"power": 250.0, "rate": 1e-3, "gas": "Air", "size": 32, "grade": "high"},
    {"power": 900.0, "rate": 2e-5, "gas": "Argon", "size": 16, "grade": "low"},
]
SOURCES = {
    # A number and a logarithm, each onto a linear and onto a logarithmic scale.
    "numbers": {"power": Affine((("a", 2.0),), 50.0), "rate": Affine((("b", 1e-3), ("a", 0.0)))},
    "logarithms": {"power": Affine((("a", 1.0), ("b", 1.0)), log=True), "rate": Affine((("b", 2.0),), -1.0, log=True)},
}
COLUMNS = {
    "numbers": lambda p: [(p["power"] - 50) / 2, p["rate"] / 1e-3],
    "logarithms": lambda p: [math.log(p["power"]) - (math.log(p["rate"]) + 1) / 2, (math.log(p["rate"]) + 1) / 2],
}


def example(kind, frame):
    """Return a map, columns of the points with weights of levels in another order behind them, and coordinates."""
    levels = {"gas": ["Air", "Argon"], "size": [128, 16, 32], "grade": ["high", "low"]}
    sources = {**SOURCES[kind], **{name: Levels(name, tuple(entry)) for name, entry in levels.items()}}
    labels = ["a", "b", *(label for name in levels for label in sources[name].columns)]
    weights = [[float(p[name] == level) for name, entry in levels.items() for level in entry] for p in POINTS]
    X = np.hstack([[COLUMNS[kind](p) for p in POINTS], weights])
    mapped = CoordinateMap.of(labels, [(sources[p.name], p, frame) for p in SPACE.parameters])
    return mapped, X, SPACE.to_coordinates(SPACE.to_raw(POINTS), frame)


@pytest.mark.parametrize("frame", ["centred", "unit"])
@pytest.mark.parametrize("kind", SOURCES)
def test_coordinates_are_those_of_the_space(kind, frame):
    mapped, X, expected = example(kind, frame)
    np.testing.assert_allclose(mapped(X), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(mapped(torch.tensor(X)).numpy(), expected, rtol=0, atol=1e-14)
    assert mapped(torch.tensor(X).float()).dtype == torch.float32
    np.testing.assert_array_equal(mapped(X[:, None]), mapped(X)[:, None])


@pytest.mark.parametrize("frame", ["centred", "unit"])
@pytest.mark.parametrize("kind", SOURCES)
def test_gradients_are_those_of_torch(kind, frame):
    mapped, X, expected = example(kind, frame)
    upstream = np.random.default_rng(0).normal(size=expected.shape)
    columns = torch.tensor(X, requires_grad=True)
    assert torch.autograd.gradcheck(mapped, (columns,), atol=1e-6)
    (mapped(columns) * torch.tensor(upstream)).sum().backward()
    np.testing.assert_allclose(mapped.vjp(X, upstream), columns.grad.numpy(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("frame", ["centred", "unit"])
def test_constants_need_no_columns(frame):
    fixed = {p.name: Constant(p.to_raw(POINTS[0][p.name])) for p in SPACE.parameters}
    mapped = CoordinateMap.of([], [(fixed[p.name], p, frame) for p in SPACE.parameters])
    expected = SPACE.to_coordinates(SPACE.to_raw(POINTS[:1]), frame)
    np.testing.assert_array_equal(mapped(np.empty((3, 0))), np.tile(expected, (3, 1)))
    assert mapped.vjp(np.empty((3, 0)), np.ones((3, expected.shape[1]))).shape == (3, 0)


@pytest.mark.parametrize("number", [0.0, -1.0, math.nan])
def test_numbers_on_a_log_scale_are_above_zero(number):
    sources = [(Affine(((name, 1.0),)), SPACE[name], "unit") for name in ("power", "rate")]
    mapped = CoordinateMap.of(["power", "rate"], sources)
    with pytest.raises(SpaceError, match="parameter 'rate' is on a log scale and must be above 0 everywhere"):
        mapped(np.array([[1.0, 1.0], [-1.0, number]]))
