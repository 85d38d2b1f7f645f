"""Fixtures of the BoTorch adapter's tests: target data, and artefacts small enough to optimise over."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain

PRETRAINED_FORMS = (
    "transfer",
    "transfer_link",
    "similarity_link",
    "moment",
    "two_layer",
    "normalised",
    "reweighted",
    "base",
)


@cache
def four_coordinates(sign: float = 1.0) -> PretrainedCovariance:
    """Return a covariance over four real parameters, with few support vectors."""
    space = ParameterSpace.from_dict(dict.fromkeys("abcd", (-1.0, 1.0)))
    table = pd.DataFrame(space.sobol(20), columns=list("abcd"))
    table["y"] = sign * (np.sin(2 * table["a"]) + table["b"] * table["c"] - 0.3 * table["d"])
    return pretrain(table, target="y", space=space, C=5.0, epsilon=0.3, sigma=2.0, progress=False)


@pytest.fixture(scope="session")
def small_cov(table: pd.DataFrame, space: ParameterSpace) -> PretrainedCovariance:
    """Return a covariance over mixed parameters with few support vectors."""
    return pretrain(table, target="strength", space=space, C=5.0, epsilon=0.3, sigma=2.0, progress=False)


@pytest.fixture
def target(cov: PretrainedCovariance) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ten raw target rows and noisy outcomes related to the table."""
    X = cov.space.sobol(10, seed=3)
    noise = 0.1 * np.random.default_rng(3).standard_normal(10)
    return torch.tensor(X), torch.tensor(3 * cov.predict(X) - 2 + noise).unsqueeze(-1)


@pytest.fixture(scope="session")
def bounds() -> torch.Tensor:
    """Return raw bounds of the mixed space, with level indices for the categorical parameter."""
    return torch.tensor([[100.0, 1e-5, 1.0, 0.0], [5500.0, 1e-1, 6.0, 2.0]], dtype=torch.double)


@pytest.fixture(scope="session")
def four_cov() -> PretrainedCovariance:
    """Return the covariance over four real parameters."""
    return four_coordinates()
