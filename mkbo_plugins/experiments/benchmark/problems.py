"""Benchmark problems: a table of knowledge and a pool of candidates to be looked up."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.table import Task

HARD = 15
"""Trials that random search must need on average, or a target says nothing."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A table and a pool over the same parameters.

    Parameters
    ----------
    name
        Name, with the member of its family behind a dot.
    space
        Parameters of both.
    source_points, source_y
        The table: raw points (N, number of parameters) and its own quantity, (N,).
    pool_points, outcome
        The candidates in raw units, (M, number of parameters), and what an experiment with one returns, (M,); the
        larger, the better.
    merit
        What a person judges a candidate by, (M,), rising with `outcome`; regret is measured on it.
    task
        ``"classification"`` where the table's quantity is a label, -1 or 1.
    """

    name: str
    space: ParameterSpace
    source_points: np.ndarray
    source_y: np.ndarray
    pool_points: np.ndarray
    outcome: np.ndarray
    merit: np.ndarray
    task: Task = "regression"

    @cached_property
    def regret(self) -> np.ndarray:
        """Normalised regret of every candidate, (M,): 0 for the best, 1 for the worst."""
        best, worst = self.merit.max(), self.merit.min()
        return (best - self.merit) / (best - worst)

    @cached_property
    def goal(self) -> float:
        """Regret that counts as success.

        It is the first of 2 %, the best 1 % of the pool, the best 5 candidates and the best one that random search
        does not reach within `HARD` trials on average.
        """
        size = len(self.regret)
        ranked = np.sort(self.regret)
        levels = (0.02, ranked[max(1, size // 100) - 1], ranked[min(5, size) - 1], 0.0)
        for level in levels:
            successes = int((self.regret <= level).sum())
            if (size + 1) / (successes + 1) >= HARD:
                break
        return float(level)


def labelled(problem: Problem) -> Problem:
    """Return a problem whose table says of each point only whether its value is above the median."""
    above = problem.source_y > np.median(problem.source_y)
    return replace(problem, source_y=np.where(above, 1.0, -1.0), task="classification")


def negated(problem: Problem) -> Problem:
    """Return a problem whose table points the other way."""
    return replace(problem, name=f"{problem.name}_negated", source_y=-problem.source_y)


def shuffled(problem: Problem) -> Problem:
    """Return a problem whose table says nothing: its values are those of other rows, the same ones each time."""
    order = np.random.default_rng(zlib.crc32(problem.name.encode())).permutation(len(problem.source_y))
    return replace(problem, name=f"{problem.name}_shuffled", source_y=problem.source_y[order])


CONTROLS: Mapping[str, Callable[[Problem], Problem]] = MappingProxyType({"negated": negated, "shuffled": shuffled})
"""Changes to a table after which a model must gain as much as before, or may gain nothing, by name."""


def hitting(problem: Problem, value: float, tolerance: float) -> Problem:
    """Return a problem whose aim is to hit a value of the outcome; the table keeps its quantity.

    An experiment returns minus the squared miss. People judge the logarithm of the miss, with `tolerance` added: below
    it, the logarithm would reward nothing but luck.
    """
    miss = problem.outcome - value
    return replace(problem, outcome=-(miss**2), merit=-np.log10(np.abs(miss) + tolerance))
