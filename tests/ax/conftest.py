"""Fixtures of the Ax adapter's tests."""

import pytest

pytest.importorskip("ax")

from tests.ax.experiments import make_quiet, small_covariance

make_quiet()


@pytest.fixture(scope="session")
def small_cov():
    """Return a covariance over mixed parameters with few support vectors."""
    return small_covariance()
