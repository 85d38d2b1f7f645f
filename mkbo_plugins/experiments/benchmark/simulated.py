"""The simulated experiment of Shilton et al., arXiv 1802.05370, which is printed in full."""

import numpy as np

from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.space.space import ParameterSpace

SIMULATED = "simulated"
"""Name of the problem."""

SPACE = ParameterSpace.from_dict({"x1": (-1.0, 1.0), "x2": (-1.0, 1.0)})

ROWS = 100

POOL = 1000
"""Candidates among which an acquisition function is maximised; the paper does not say how it is there."""


def target(X: np.ndarray) -> np.ndarray:
    """Return sin(5 pi |x|) exp(-5 (|x| - 1/2)^2), (n,), which is to be minimised, for points (n, 2)."""
    radius = symmetry(X)
    return np.sin(5 * np.pi * radius) * np.exp(-5 * (radius - 0.5) ** 2)


def symmetry(X: np.ndarray) -> np.ndarray:
    """Return |x|, (n,), the table's quantity, which shares the target's symmetry but not its form."""
    return np.hypot(X[:, 0], X[:, 1])


def simulated(member: int) -> Problem:
    """Return the experiment with the table and the candidates of one repetition."""
    table = np.random.default_rng([6, member]).uniform(-1.0, 1.0, (ROWS, 2))
    pool = SPACE.sobol(POOL, seed=member)
    outcome = -target(pool)
    return Problem(f"{SIMULATED}.{member}", SPACE, table, symmetry(table), pool, outcome, outcome)
