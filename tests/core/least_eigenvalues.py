"""Least eigenvalues of Gram matrices, relative to the largest, over adversarial cases, of every form.

``python -m tests.core.least_eigenvalues [CASES] [FIRST]`` runs them by hand. Cases are those of
`tests.core.stated_errors`, with points of the frame and around it, among them twins, the origin and the table's own;
scales are drawn from their priors.
"""

import sys

import numpy as np

from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.components.components import COMPONENTS, OF_REWEIGHTED, PretrainedComponents
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.forms import FORMS, get_form
from tests.core.helpers import component_of, smallest_eigenvalue
from tests.core.stated_errors import Case, make_case

LARGEST_TABLE = 40


def least(seed: int) -> dict[str, float]:
    """Return for each form the least eigenvalue of a case's Gram matrix relative to the largest.

    Without those that overflow or are zero, and without forms in K^E where its mean diagonal is zero or overflows.
    """
    case, rng = make_case(seed, LARGEST_TABLE), np.random.default_rng(seed)
    d = case.X.shape[1]
    near = rng.uniform(-1, 1, (8, d))
    X = np.vstack(
        [np.zeros((1, d)), case.X[:6], near, near + 1e-9 * rng.normal(size=near.shape), case.table.points[:8]]
    )
    with np.errstate(over="ignore", invalid="ignore"):
        fixed = make_components(case, rng)
        usable = np.isfinite(fixed.mean_diagonal) and fixed.mean_diagonal > 0
        parts = {name: component_of(fixed, name, X).value for name in COMPONENTS if usable or name not in OF_REWEIGHTED}
        stock = SquaredExponential(sigma=float(np.exp(rng.normal()))).gram(X)
        grams = {}
        for name in FORMS:
            form = get_form(name)
            scales = {scale: draw_scale(prior, rng) for scale, prior in form.hyperparameters.items()}
            if set(form.parts) <= set(parts):
                grams[name] = form.covariance(parts, stock if form.uses_stock else None, scales)
    return {
        name: smallest_eigenvalue(gram)
        for name, gram in grams.items()
        if np.isfinite(gram).all() and np.diag(gram).any()
    }


def make_components(case: Case, rng: np.random.Generator) -> PretrainedComponents:
    """Return a case's components on the scales over its own points."""
    decision = DecisionFunction(case.base, case.table, bias=float(rng.normal()))
    values = decision(case.table.points)
    unscaled = PretrainedComponents(decision, 1.0, float(values.mean()), float(values.std()) or 1.0)
    mean_diagonal = unscaled.kernel.mean_diagonal(case.table.points)
    return PretrainedComponents(decision, mean_diagonal, unscaled.decision_mean, unscaled.decision_spread)


def draw_scale(prior, rng: np.random.Generator) -> float:
    """Return a scale drawn from its prior, within its bounds."""
    value = np.exp(rng.normal(prior.log_mean, prior.log_spread))
    return float(np.clip(value, prior.lower, prior.upper))


def main() -> None:
    """Print the least of each form."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found: dict[str, list[float]] = {}
    for seed in range(first, first + cases):
        for name, value in least(seed).items():
            found.setdefault(name, []).append(value)
            if value < -1e-10:
                print(f"{name}: {value:.1e}, case {make_case(seed, LARGEST_TABLE).words}", flush=True)
    for name, values in found.items():
        print(f"{name:16} {len(values):5} cases, least {min(values):.1e}, median {np.median(values):.1e}", flush=True)


if __name__ == "__main__":
    main()
