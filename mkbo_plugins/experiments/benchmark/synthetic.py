"""Families of analytic functions, a random member being the table's function and another the target."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from mkbo_plugins.experiments.benchmark.problems import Problem, hitting, labelled
from mkbo_plugins.space.space import ParameterSpace

POOL, SOURCE = 1000, 80
"""Candidates of a pool and rows of a table."""

Function = Callable[[np.ndarray], np.ndarray]


def _space(dimension: int) -> ParameterSpace:
    return ParameterSpace.from_dict({f"x{j + 1}": (0.0, 1.0) for j in range(dimension)})


def _problem(name: str, source: Function, target: Function, dimension: int, member: int) -> Problem:
    """Return a problem over the unit cube."""
    space = _space(dimension)
    table, pool = space.sobol(SOURCE, seed=2 * member), space.sobol(POOL, seed=2 * member + 1)
    outcome = target(pool)
    return Problem(f"{name}.{member}", space, table, source(table), pool, outcome, outcome)


def forrester(X: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Return minus a (6x - 2)^2 sin(12x - 4) + b (x - 1/2) + c, (n,), for `shape` (a, b, c)."""
    x = X[:, 0]
    return -(shape[0] * (6 * x - 2) ** 2 * np.sin(12 * x - 4) + shape[1] * (x - 0.5) + shape[2])


def branin(X: np.ndarray, shift: np.ndarray, scale: float) -> np.ndarray:
    """Return minus the Branin function on its usual domain, its inputs shifted and its ridge scaled, (n,)."""
    u, v = 15 * (X[:, 0] + shift[0]) - 5, 15 * (X[:, 1] + shift[1])
    ridge = v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6
    return -(scale * ridge**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10)


_A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P = 1e-4 * np.array([[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])


def hartmann3(X: np.ndarray, heights: np.ndarray, shift: float = 0.0) -> np.ndarray:
    """Return minus the three-dimensional Hartmann function with the heights of its four wells, (n,)."""
    distances = (_A[None] * ((X - shift)[:, None, :] - _P[None]) ** 2).sum(axis=2)
    return np.exp(-distances) @ heights


HARTMANN_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])


def _member_heights(rng: np.random.Generator) -> np.ndarray:
    return HARTMANN_HEIGHTS + rng.uniform(-0.2, 0.2, 4) * np.array([1.0, 1.0, 2.0, 2.0])


def _forrester(member: int) -> Problem:
    rng = np.random.default_rng([1, member])
    shapes = [np.array([rng.uniform(0.5, 1.5), rng.uniform(-10, 10), rng.uniform(-5, 5)]) for _ in range(2)]
    source, target = (partial(forrester, shape=shape) for shape in shapes)
    return _problem("forrester", source, target, 1, member)


def _branin(member: int) -> Problem:
    rng = np.random.default_rng([2, member])
    source, target = (partial(branin, shift=rng.uniform(-0.05, 0.05, 2), scale=rng.uniform(0.8, 1.2)) for _ in range(2))
    return _problem("branin", source, target, 2, member)


def _hartmann(name: str, member: int, *, sign: float = 1.0, shift: float = 0.0) -> Problem:
    rng = np.random.default_rng([3, member])
    source, target = (partial(hartmann3, heights=_member_heights(rng)) for _ in range(2))
    return _problem(name, lambda X: sign * source(X, shift=shift), target, 3, member)


def rings(X: np.ndarray, angle: float, width: float) -> np.ndarray:
    """Return rings about the centre of the unit square whose height varies with the direction, (n,).

    Members differ by a rotation: where the rings are is shared, where they are high is not.
    """
    centred = 2 * X - 1
    radius, direction = np.hypot(*centred.T), np.arctan2(centred[:, 1], centred[:, 0])
    return np.cos(2 * np.pi * radius / width) * (1 + 0.5 * np.cos(direction - angle)) * np.exp(-(radius**2) / 2)


def _rotation(member: int) -> Problem:
    rng = np.random.default_rng([5, member])
    angle, width = rng.uniform(0, 2 * np.pi), rng.uniform(0.8, 1.1)
    turn = rng.uniform(np.pi / 2, 3 * np.pi / 2)
    source, target = (partial(rings, angle=a, width=width) for a in (angle, angle + turn))
    return _problem("rotation", source, target, 2, member)


def _unrelated(member: int) -> Problem:
    """Return Hartmann's function with a table of random ridges and waves that has nothing to do with it."""
    rng = np.random.default_rng([4, member])
    target = partial(hartmann3, heights=_member_heights(rng))
    waves, phases = rng.normal(0, 4, (3, 12)), rng.uniform(0, 2 * np.pi, 12)
    return _problem("hartmann3_unrelated", lambda X: np.cos(X @ waves + phases).sum(axis=1), target, 3, member)


def _hartmann_hit(member: int) -> Problem:
    problem = _hartmann("hartmann3_hit", member)
    return hitting(problem, float(np.quantile(problem.outcome, 0.9)), 0.01 * float(problem.outcome.std()))


FAMILIES: Mapping[str, Callable[[int], Problem]] = MappingProxyType(
    {
        "rotation": _rotation,
        "forrester": _forrester,
        "branin": _branin,
        "hartmann3": partial(_hartmann, "hartmann3"),
        "hartmann3_shifted": partial(_hartmann, "hartmann3_shifted", shift=0.2),
        "hartmann3_negated": partial(_hartmann, "hartmann3_negated", sign=-1.0),
        "hartmann3_unrelated": _unrelated,
        "hartmann3_hit": _hartmann_hit,
        "hartmann3_labels": lambda member: labelled(_hartmann("hartmann3_labels", member)),
    }
)
"""Function from the number of a member to its problem, by name of the family."""
