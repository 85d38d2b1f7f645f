"""Stated errors of sums against double-double arithmetic over adversarial cases.

``python -m tests.core.stated_errors [CASES]`` runs them by hand and prints, for each way to evaluate, how many cases
state less than the true error and how much more than it they state. A case draws a kernel, a table and points.
"""

import sys
from typing import NamedTuple

import numpy as np

from mkbo_plugins.core import Exponential, FreeKernel, Polynomial, SquaredExponential, TaylorSeries, WeightedPoints
from mkbo_plugins.core.evaluation import doubledouble as dd
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator
from mkbo_plugins.errors import KernelError
from tests.core.helpers import weights_of

CHOICES = ("pairs", "features", "auto")
ALPHAS = ("two-valued", "alternating", "graded", "normal", "bounded")
POINTS = ("uniform", "levels", "binary", "even", "twins")
CHUNK = 1 << 17


class Case(NamedTuple):
    """A re-weighted kernel and points, (n, d), to evaluate it at."""

    base: FreeKernel
    table: WeightedPoints
    X: np.ndarray
    words: str


def make_case(seed: int, largest: int = 500) -> Case:
    """Draw a case of at most so many weighted points."""
    rng = np.random.default_rng([29, seed])
    d, count = int(rng.integers(1, 7)), int(np.exp(rng.uniform(np.log(4), np.log(largest))))
    weights = tuple(rng.uniform(0.2, 3.0, d)) if rng.integers(2) else None
    sigma = float(np.exp(rng.uniform(np.log(0.05), np.log(100.0))))
    base = [
        Exponential(sigma=sigma, weights=weights),
        Exponential(sigma=sigma, weights=weights),
        SquaredExponential(sigma=sigma, weights=weights),
        Polynomial(degree=int(rng.integers(2, 5)), weights=weights),
        TaylorSeries(coefficients=(0.5, 0.0, 1.5, 0.7), weights=weights),
    ][rng.integers(5)]
    kind, of_alpha = POINTS[rng.integers(len(POINTS))], ALPHAS[rng.integers(len(ALPHAS))]
    points = make_points(kind, count, d, rng)
    alpha = make_alpha(of_alpha, count, rng) * np.exp(rng.uniform(-3, 10))
    ray = rng.uniform(-1, 1, d)
    X = np.array(
        [
            np.ones(d),
            rng.choice([-1.0, 1.0], d),
            np.eye(d)[-1],
            rng.uniform(-1, 1, d),
            ray * 10.0 ** rng.uniform(-9, 0),
            ray * 10.0 ** rng.uniform(-3, 0),
            rng.choice([-1.0, 1.0], d) * rng.uniform(1, 5),
            rng.uniform(-3, 3, d),
            np.round(4 * rng.uniform(-1, 1, d)) / 4,
            points[0],
        ]
    )
    words = f"{seed}: {type(base).__name__} sigma={sigma:.3g} d={d} N={count} points {kind} alpha {of_alpha}"
    return Case(base, WeightedPoints(points, alpha), X, words)


def make_points(kind: str, count: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return weighted points in the frame, (count, d)."""
    points = rng.uniform(-1, 1, (count, d))
    if kind == "levels":
        points = np.round(5 * points) / 5
    elif kind == "binary":
        points[:, : (d + 1) // 2] = np.where(points[:, : (d + 1) // 2] > 0, 0.7, -0.3)
    elif kind == "even":
        points = np.column_stack([rng.permutation(np.linspace(-1, 1, count)) for _ in range(d)])
    elif kind == "twins":
        points[1::2] = points[: count // 2 * 2 : 2] + 10.0 ** rng.uniform(-9, -2) * rng.normal(size=(count // 2, d))
    return points


def make_alpha(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return coefficients, (count,), which sum to zero or nearly."""
    if kind == "two-valued":
        k = int(rng.integers(1, count))
        return np.where(rng.permutation(count) < k, 1.0, -k / (count - k))
    signs = np.resize([1.0, -1.0], count)
    if kind == "alternating":
        return signs
    if kind == "graded":
        return signs * rng.uniform(1.01, 2) ** -np.minimum(np.arange(count), 40)
    alpha = rng.normal(size=count)
    if kind == "bounded":
        alpha = np.clip(3 * alpha, -1, 1)
    alpha = alpha - alpha.mean()
    return alpha if alpha.any() else signs


def true_sums(
    case: Case, x: np.ndarray, y: np.ndarray, half_x: np.ndarray, half_y: np.ndarray
) -> tuple[dd.DoubleDouble, np.ndarray]:
    """Return S(x * y) exp(-half_x - half_y), (m,), for points (m, d), and what double-double arithmetic may lose."""
    base, (z, alpha) = case.base, (case.table.points, case.table.alpha)
    i, j = np.triu_indices(len(alpha))
    weights, rate = weights_of(base, z.shape[1]), 1.0 if base.exponent_rate is None else _inverse(base.sigma)
    total, size = dd.from_double(np.zeros(len(x))), np.zeros(len(x))
    for start in range(0, len(i), CHUNK // len(x)):
        a, b = (index[start : start + CHUNK // len(x)] for index in (i, j))
        inner = dd.from_double(np.zeros((len(x), len(a))))
        for k, weight in enumerate(weights):
            product = dd.multiply(dd.two_product(z[a, k], z[b, k]), _full(weight, a))
            factor = dd.two_product(x[:, k], y[:, k])
            inner = dd.add(inner, dd.multiply(_outer(factor, axis=1), _outer(product, axis=0)))
            if base.damping_rate:
                norm = dd.add(*(dd.multiply(dd.two_product(z[c, k], z[c, k]), _full(weight / 2, a)) for c in (a, b)))
                inner = dd.subtract(inner, _outer(norm, axis=0))
        factors = dd.scale(dd.two_product(alpha[a], alpha[b]), np.where(a == b, 1.0, 2.0))
        if base.exponent_rate is None:
            value = dd.from_double(np.zeros_like(inner.hi))
            for q in range(int(base.degree_limit), -1, -1):
                value = dd.add(dd.multiply(value, inner), dd.from_double(np.full_like(inner.hi, base.coefficient(q))))
            unit = dd.exp(dd.two_sum(-half_x, -half_y))
            value = dd.multiply(value, dd.scale(_outer(unit, axis=1), np.ones_like(inner.hi)))
        else:
            scale = dd.two_sum(-half_x, -half_y)
            value = dd.exp(dd.add(dd.multiply(inner, dd.scale(rate, np.ones_like(inner.hi))), _outer(scale, axis=1)))
        terms = dd.multiply(value, _outer(factors, axis=0))
        total, size = dd.add(total, dd.sum_axis(terms, 1)), size + np.abs(terms.hi).sum(axis=1)
    return total, 1e-29 * size


def _inverse(value: float) -> dd.DoubleDouble:
    first = np.array([1.0 / value])
    product = dd.two_product(first, np.array([value]))
    return dd.two_sum(first, ((1.0 - product.hi) - product.lo) / value)


def _full(value: float, like: np.ndarray) -> dd.DoubleDouble:
    return dd.from_double(np.full(len(like), value))


def _outer(a: dd.DoubleDouble, axis: int) -> dd.DoubleDouble:
    return dd.DoubleDouble(*(np.expand_dims(part, axis) for part in a))


def ratios(case: Case, choice: str) -> tuple[np.ndarray, float, str]:
    """Return errors of diagonals and of entries as shares of those stated, the relative one stated and the form."""
    evaluator = CertifiedEvaluator(case.base, (case.table,), case.table.points.shape[1], choice)
    X = case.X if choice != "features" or case.base.exponent_rate is None else np.clip(case.X, -1, 1)
    P, _ = evaluator.prepare(X)
    a, b = np.triu_indices(len(X))
    found = np.where(a == b, P.diagonal[a], P.form.between(P, P)[0][a, b])
    true, unknown = true_sums(case, X[a], X[b], P.half_log_scale[a], P.half_log_scale[b])
    errors = np.maximum(np.abs((found - true.hi) - true.lo) - unknown, 0.0)
    # A value below the least normal number has no relative accuracy; zero has none to lose.
    return errors / (np.sqrt(P.error[a] * P.error[b]) + np.spacing(np.abs(found))), P.worst_error(), P.form.name


def largest_ratio(case: Case, choice: str) -> tuple[float, float, str] | None:
    """Return the largest of `ratios`, the relative error stated and the form; None where there is no such form."""
    try:
        shares, relative, form = ratios(case, choice)
    except KernelError:
        return None
    return float(shares.max()), relative, form


def main() -> None:
    """Print a table."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found: dict[str, list[float]] = {}
    promised = []
    for seed in range(first, first + cases):
        case = make_case(seed)
        choice = CHOICES[seed % len(CHOICES)]
        result = largest_ratio(case, choice)
        if result is None:
            continue
        ratio, relative, form = result
        found.setdefault(f"{choice}: {form}" if choice == "auto" else choice, []).append(ratio)
        if choice == "auto":
            promised.append(relative)
        if ratio > 1:
            print(f"below the truth by {ratio:.3g}: {choice}, {form}, case {case.words}", flush=True)
    for name, values in sorted(found.items()):
        print(
            f"{name:24} {len(values):5} cases, {sum(np.array(values) > 1):3} below the truth, largest share "
            f"{max(values):.3f}, stated over true {1 / np.median(values):.1f} in the median"
        )
    print(f"auto: {np.mean(np.array(promised) > 1e-10):.3f} of cases state more than 1e-10")


if __name__ == "__main__":
    main()
