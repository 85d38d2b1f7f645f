"""Kernels and random tables that the tests of the core share."""

import tracemalloc
from collections.abc import Callable

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from mkbo_plugins.core import (
    Exponential,
    FreeKernel,
    Linear,
    Polynomial,
    ReweightedKernel,
    SquaredExponential,
    TaylorSeries,
    reweight,
)

FAMILIES: dict[str, Callable[..., FreeKernel]] = {
    "linear": Linear,
    "polynomial": lambda **options: Polynomial(degree=3, **options),
    "exponential": lambda **options: Exponential(sigma=0.8, **options),
    "squared_exponential": lambda **options: SquaredExponential(sigma=0.8, **options),
    "taylor": lambda **options: TaylorSeries(coefficients=(0.5, 0.0, 1.5, 0.7), **options),
}

few = settings(derandomize=True, deadline=None, max_examples=15)
seeds = st.integers(0, 2**32 - 1)
dimensions = st.integers(1, 3)
kernels = st.sampled_from(sorted(FAMILIES))


def make_kernel(family: str, dimension: int, rng: np.random.Generator, *, weighted: bool) -> FreeKernel:
    return FAMILIES[family](weights=tuple(rng.uniform(0.3, 2.0, dimension)) if weighted else None)


def make_table(dimension: int, rng: np.random.Generator, rows: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return points in the frame and coefficients that sum to zero, as those of a support vector machine do."""
    alpha = rng.normal(size=rows)
    return rng.uniform(-1, 1, (rows, dimension)), alpha - alpha.mean()


def make_reweighted(
    family: str, dimension: int, rng: np.random.Generator, *, weighted: bool = False, rows: int = 5
) -> ReweightedKernel:
    return reweight(make_kernel(family, dimension, rng, weighted=weighted), *make_table(dimension, rng, rows))


def weights_of(kernel: FreeKernel, dimension: int) -> np.ndarray:
    return np.ones(dimension) if kernel.weights is None else np.array(kernel.weights)


def smallest_eigenvalue(gram: np.ndarray) -> float:
    """Return the smallest eigenvalue relative to the largest."""
    values = np.linalg.eigvalsh(gram)
    return float(values[0] / values[-1])


def numeric_gradient(function: Callable[[np.ndarray], float], x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    gradient = np.empty_like(x)
    for index in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[index] = step
        gradient[index] = (function(x + shift) - function(x - shift)) / (2 * step)
    return gradient


def component_of(fixed, name, *points, **options):
    """Return one component of a covariance between points."""
    return fixed.components((name,), *points, **options)[name]


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the most memory that a call holds at once."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
