"""Two tables with one parameter in common, covariances of them, and their kernels summed term by term."""

import math
from functools import cache

import numpy as np
import pandas as pd

from mkbo_plugins import CombinedCovariance, ParameterSpace, PretrainedCovariance, pretrain

SPACE = ParameterSpace.from_dict({"p": (0.0, 10.0), "q": (1e-3, 1.0, "log"), "r": (-5.0, 5.0)})
SETTINGS = {"C": 3.0, "epsilon": 0.1, "sigma": 1.5, "progress": False}


def table(names: tuple[str, ...], target: str, n: int = 12, seed: int = 0) -> pd.DataFrame:
    """Return a table over some of the parameters with a smooth target."""
    found = pd.DataFrame(SPACE.sobol(n, seed), columns=list(SPACE.names))
    found[target] = np.sin(found["p"] / 2) * ("p" in names) + np.log10(found["q"]) + found["r"] / 4 * ("r" in names)
    return found[[*names, target]]


TABLE_A, TABLE_B = table(("p", "q"), "hardness"), table(("q", "r"), "yield", n=9, seed=1)


@cache
def combined() -> CombinedCovariance:
    """Return the covariance of a table over p and q and one over q and r."""
    return pretrain([TABLE_A, TABLE_B], target=["hardness", "yield"], space=SPACE, **SETTINGS)


@cache
def chain() -> PretrainedCovariance:
    """Return the covariance re-weighted by two tables of five rows over all parameters."""
    tables = [table(SPACE.names, "y", n=5, seed=seed) for seed in (2, 3)]
    return pretrain(tables, "y", SPACE, combine="chain", **SETTINGS)


def _frame(space: ParameterSpace, point: dict) -> list[float]:
    """Return centred coordinates of one point in raw units, by hand."""
    found = []
    for name in space.names:
        parameter = space[name]
        value, low, high = (
            (math.log(v) if parameter.log else v) for v in (point[name], parameter.lower, parameter.upper)
        )
        found.append(2 * (value - low) / (high - low) - 1)
    return found


def m_kernel(cov: PretrainedCovariance, *points: list[float]) -> float:
    """Return the squared exponential of m points in frame coordinates, with the covariance's weights and sigma."""
    total = 0.0
    for j, weight in enumerate(cov.weights):
        total += weight * (2 * math.prod(point[j] for point in points) - sum(point[j] ** 2 for point in points))
    return math.exp(total / (2 * cov.sigma))


def brute_force(cov: PretrainedCovariance, left: list[dict], right: list[dict]) -> np.ndarray:
    """Return the re-weighted kernel of one table between points in raw units, summed over pairs of support vectors."""
    support = list(zip(cov.alpha.tolist(), cov.support.tolist(), strict=True))
    return np.array(
        [
            [
                math.fsum(
                    a * b * m_kernel(cov, s, t, _frame(cov.space, x), _frame(cov.space, y))
                    for a, s in support
                    for b, t in support
                )
                for y in right
            ]
            for x in left
        ]
    )


def brute_force_sum(scales: list[float], left: list[dict], right: list[dict]) -> np.ndarray:
    """Return the sum over tables of a scale times the re-weighted kernel over its mean diagonal."""
    members = combined().members
    return sum(
        scale / member.fixed.mean_diagonal * brute_force(member, left, right)
        for scale, member in zip(scales, members, strict=True)
    )


def assert_close(found: np.ndarray, expected: np.ndarray, diagonal: np.ndarray) -> None:
    """Check that entries agree to 1e-10 of the root of the product of both diagonals."""
    scale = np.sqrt(np.outer(diagonal, diagonal))[: expected.shape[0], : expected.shape[1]]
    np.testing.assert_array_less(np.abs(found - expected) / scale, 1e-10)


def points(n: int, seed: int = 5) -> list[dict]:
    """Return points in raw units."""
    return SPACE.from_raw(SPACE.sobol(n, seed))
