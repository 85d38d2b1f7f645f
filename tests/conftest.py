"""Shared fixtures: small spaces and tables, covariances trained on them, and the real data beside the project."""

import os
import random
import sys
from contextlib import suppress
from pathlib import Path

# Tests run in parallel processes; threads of their own would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain

# The process that gathers results imports the modules of warnings, in several threads at once, which deadlocks in the
# circular imports of these packages unless they are there already.
with suppress(ImportError):
    import botorch  # noqa: F401

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def shared_file(relative: str) -> Path:
    """Return a file of the real data, or skip the test with the reason."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"real data not found: {relative} is expected in a folder 'shared' beside the project")
    return path


MIXED_SPACE = {
    "power": (100.0, 5500.0),
    "rate": (1e-5, 1e-1, "log"),
    "layers": (1, 6, "int"),
    "gas": ["Argon", "Nitrogen", "Air"],
}


def mixed_table(n: int = 24, seed: int = 0) -> pd.DataFrame:
    """Return a table over `MIXED_SPACE` with a smooth target and a little noise."""
    space = ParameterSpace.from_dict(MIXED_SPACE)
    frame = pd.DataFrame(space.from_raw(space.sobol(n, seed)))
    noise = np.random.default_rng(seed).normal(0, 0.05, n)
    frame["strength"] = (
        np.sin(frame["power"] / 1500)
        + 0.4 * np.log10(frame["rate"])
        + 0.1 * frame["layers"]
        + frame["gas"].map({"Argon": 0.5, "Nitrogen": 0.0, "Air": -0.5})
        + noise
        + 5
    )
    return frame


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Hosts draw from the global generators, whose state would be that of whatever tests ran before in a process."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    return mixed_table()


@pytest.fixture(scope="session")
def space() -> ParameterSpace:
    return ParameterSpace.from_dict(MIXED_SPACE)


@pytest.fixture(scope="session")
def cov(table: pd.DataFrame, space: ParameterSpace) -> PretrainedCovariance:
    """Return a covariance trained by a support vector machine with fixed settings, over mixed parameters."""
    return pretrain(table, target="strength", space=space, C=5.0, epsilon=0.05, sigma=2.0, progress=False)


@pytest.fixture(scope="session")
def gp_cov(table: pd.DataFrame, space: ParameterSpace) -> PretrainedCovariance:
    """Return a covariance trained as a Gaussian process over mixed parameters."""
    return pretrain(table, target="strength", space=space, trainer="gp")
