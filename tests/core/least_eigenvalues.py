"""Least eigenvalues of Gram matrices, relative to the largest, over adversarial cases.

``python -m tests.core.least_eigenvalues [CASES]`` runs them by hand. Cases are those of `tests.core.stated_errors`,
with points of the frame and around it, among them twins, the origin and the table's own.
"""

import sys

import numpy as np

from mkbo_plugins.core import ReweightedKernel, TwoLayerKernel, normalise
from tests.core.helpers import smallest_eigenvalue
from tests.core.stated_errors import make_case

LARGEST_TABLE = 40


def least(seed: int) -> dict[str, float]:
    """Return for each form the least eigenvalue of a case's Gram matrix relative to the largest; zero matrices none."""
    case, rng = make_case(seed, LARGEST_TABLE), np.random.default_rng(seed)
    d = case.X.shape[1]
    near = rng.uniform(-1, 1, (8, d))
    X = np.vstack(
        [np.zeros((1, d)), case.X[:6], near, near + 1e-9 * rng.normal(size=near.shape), case.table.points[:8]]
    )
    kernel = ReweightedKernel(case.base, (case.table,))
    with np.errstate(over="ignore"):
        reweighted = kernel.gram(X)
        base = case.base.gram(X)
    scale = float(np.mean(np.diag(reweighted)))
    grams = {"base": base, "reweighted": reweighted, "normalised": normalise(kernel).gram(X)}
    if np.isfinite(scale) and scale > 0:
        grams["two_layer"] = TwoLayerKernel(kernel, scale=scale).gram(X)
    return {
        name: smallest_eigenvalue(gram)
        for name, gram in grams.items()
        if np.isfinite(gram).all() and np.diag(gram).any()
    }


def main() -> None:
    """Print the least of each form."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    found: dict[str, list[float]] = {}
    for seed in range(cases):
        for name, value in least(seed).items():
            found.setdefault(name, []).append(value)
    for name, values in found.items():
        print(f"{name:12} {len(values):5} cases, least {min(values):.1e}, median {np.median(values):.1e}", flush=True)


if __name__ == "__main__":
    main()
