"""Fixtures of the scikit-optimize adapter's tests: dimensions, targets, and artefacts small enough to search over."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from skopt.space import Categorical, Integer, Real, Space

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core.forms import FORMS

FORM_NAMES = tuple(FORMS)


def mixed_dimensions(base: int = 2) -> list:
    """Return dimensions of the mixed space in another order, with narrower bounds and one more parameter."""
    return [
        Categorical(["Air", "Argon", "Nitrogen"], name="gas"),
        Integer(1, 5, name="layers"),
        Real(200.0, 5000.0, name="power"),
        Categorical(["new", "used"], name="tip"),
        Real(1e-4, 1e-1, prior="log-uniform", base=base, name="rate"),
    ]


def as_records(dimensions: list, rows: list) -> list[dict]:
    return [{d.name: value for d, value in zip(dimensions, row, strict=True)} for row in rows]


def related(cov: PretrainedCovariance, dimensions: list, row: list) -> float:
    """Return a target value related to the table's, smaller being better."""
    record = as_records(dimensions, [row])[0]
    return float(-2 * cov.predict([record])[0] + (0.3 if record.get("tip") == "used" else 0.0))


def normalised(dimensions: list) -> Space:
    """Return the space as the host feeds it to Gaussian processes."""
    space = Space(dimensions)
    space.set_transformer_by_type("normalize", Real)
    space.set_transformer_by_type("normalize", Integer)
    space.set_transformer_by_type("onehot", Categorical)
    return space


def sample(cov: PretrainedCovariance, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list]:
    """Return transformed columns, target values and rows over `mixed_dimensions`."""
    space = normalised(mixed_dimensions())
    rows = space.rvs(n, random_state=seed)
    noise = 0.05 * np.random.default_rng(seed).standard_normal(n)
    return space.transform(rows), np.array([related(cov, space.dimensions, row) for row in rows]) + noise, rows


@cache
def real_coordinates(d: int, rows: int = 12) -> PretrainedCovariance:
    """Return a covariance over `d` real parameters between -1 and 1, with few support vectors."""
    space = ParameterSpace.from_dict({f"x{j}": (-1.0, 1.0) for j in range(d)})
    table = pd.DataFrame(space.sobol(rows), columns=list(space.names))
    table["y"] = np.sin(2 * table["x0"]) + (table["x1"] ** 2 if d > 1 else 0.0)
    return pretrain(table, target="y", space=space, C=5.0, epsilon=0.2, sigma=2.0, progress=False)


def real_dimensions(d: int) -> list[Real]:
    return [Real(-1.0, 1.0, name=f"x{j}") for j in range(d)]


@pytest.fixture(scope="session")
def small_cov(table: pd.DataFrame, space: ParameterSpace) -> PretrainedCovariance:
    """Return a covariance over mixed parameters with few support vectors."""
    return pretrain(table, target="strength", space=space, C=5.0, epsilon=0.3, sigma=2.0, progress=False)
