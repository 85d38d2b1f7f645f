"""Random spaces with linear constraints, and a check of whatever is suggested in them.

``python -m tests.random_spaces 1000`` checks a thousand of them.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from mkbo_plugins import ParameterSpace
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.suggestion.candidates import SpaceCandidates

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Case:
    """A description of a space, and whether no point can keep its constraints."""

    spec: dict[str, Any]
    constraints: list[dict[str, Any]]
    impossible: bool


def random_case(seed: int) -> Case:
    """Return a mixture or other constraints on real and whole parameters, with others beside them."""
    rng = np.random.default_rng(seed)
    mixture = rng.random() < 0.4
    d = int(rng.integers(2, 7))
    if mixture:
        total = float(rng.choice([1.0, 100.0, 12.0]))
        whole = rng.random(d) < (0.3 if total > 1 else 0.0)
        lower = np.zeros(d)
        upper = np.where(rng.random(d) < 0.5, total, np.ceil(total * rng.uniform(1.5, 3.0) / d))
        constraints = [{"sum": [f"x{j}" for j in range(d)], "equals": total}]
        if not whole[0] and rng.random() < 0.5:
            constraints.append({"coefficients": {"x0": 1.0, f"x{d - 1}": -2.0}, "at_most": float(total * rng.random())})
    else:
        whole = rng.random(d) < 0.3
        size = rng.choice([0.01, 1.0, 10.0], d)
        lower = np.where(whole, rng.integers(-5, 5, d), rng.uniform(-10, 10, d) * size)
        upper = lower + np.where(whole, rng.integers(2, 30, d), rng.uniform(1, 100, d) * size)
        inside = rng.uniform(lower, upper)
        inside = np.where(whole, np.round(inside), inside)
        constraints = []
        for _ in range(int(rng.integers(1, 4))):
            weights = rng.choice([0.0, 1.0, 1.0, 2.0, -1.0, 0.5, 0.37], d)
            weights[rng.integers(d)] = 1.0
            value, room = float(weights @ inside), float(np.abs(weights) @ (upper - lower))
            terms = {f"x{j}": float(w) for j, w in enumerate(weights) if w}
            kind = rng.choice(["equals", "at_most", "at_least", "between"])
            ends = {
                "equals": {"equals": value},
                "at_most": {"at_most": value + 0.05 * room},
                "at_least": {"at_least": value - 0.05 * room},
                "between": {"at_least": value - 0.02 * room, "at_most": value + 0.02 * room},
            }[kind]
            constraints.append({"coefficients": terms} | ends)
    impossible = rng.random() < 0.1
    if impossible:
        constraints.append({"sum": ["x0"], "at_least": float(upper[0]) + 1.0})
    spec: dict[str, Any] = {
        f"x{j}": (float(lower[j]), float(upper[j]), *(("int",) if whole[j] else ())) for j in range(d)
    }
    spec |= {"rate": (1e-5, 1e-1, "log"), "gas": ["Argon", "Air"], "passes": (1, 6, "int")}
    return Case(spec, constraints, impossible)


def error(case: Case, points: list[dict[str, Any]]) -> float:
    """Return by how much points break bounds, kinds or constraints at most, computed from the description alone."""
    worst = 0.0
    for point in points:
        for constraint in case.constraints:
            weights = constraint.get("coefficients") or dict.fromkeys(constraint["sum"], 1.0)
            value = sum(weight * point[name] for name, weight in weights.items())
            low = constraint.get("equals", constraint.get("at_least", -np.inf))
            high = constraint.get("equals", constraint.get("at_most", np.inf))
            worst = max(worst, low - value, value - high)
        for name, entry in case.spec.items():
            if isinstance(entry, tuple):
                worst = max(worst, entry[0] - point[name], point[name] - entry[1])
                if "int" in entry:
                    worst = max(worst, abs(point[name] - round(point[name])))
            elif point[name] not in entry:
                worst = np.inf
    return worst


def check(seed: int) -> str:
    """Return what became of the random space of a seed: ``"refused"`` or ``"kept"``; raises where that is wrong."""
    case = random_case(seed)
    try:
        space = ParameterSpace.from_dict(case.spec, constraints=case.constraints)
    except SpaceError as fault:
        said = str(fault)
        named = any(str(name) in said for c in case.constraints for name in c.get("sum", c.get("coefficients", ())))
        assert named, said
        assert "single value" in said or (case.impossible and "cannot be kept" in said), (seed, said)
        return "refused"
    assert not case.impossible, seed
    rng = np.random.default_rng(seed)
    pool = SpaceCandidates(space, seed)
    slope = rng.normal(size=len(space.names)) / np.ptp(pool.initial, axis=0).clip(1e-12)
    tried = pool.initial[:3]
    _, first = pool.best(lambda points: points @ slope, tried, 1)
    _, second = pool.best(lambda points: points @ slope, np.concatenate([tried, first]), 1)
    points = np.concatenate([space.sobol(8, seed), pool.initial, first, second])
    worst = error(case, space.from_raw(points))
    assert worst <= TOLERANCE, (seed, worst)
    shown = [
        {k: float(f"{v:.15g}") if isinstance(v, float) else v for k, v in p.items()} for p in space.from_raw(first)
    ]
    assert error(case, shown) <= TOLERANCE, (seed, error(case, shown))
    return "kept"


if __name__ == "__main__":
    counts = {"kept": 0, "refused": 0}
    for number in range(int(sys.argv[1])):
        counts[check(number)] += 1
    print(counts)
