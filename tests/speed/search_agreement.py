"""Count how often a model `for_search` chooses another candidate than the model it was made of.

Run by hand: ``OMP_NUM_THREADS=1 python -m tests.speed.search_agreement [--artefact FILE] [--steps 50]``. A step is a
model fitted to 5 to 50 outcomes, and the candidate of 512 of largest expected improvement. Where the two choose
differently, what is lost is the share of the largest expected improvement that the other candidate lacks, by the model
itself.
"""

import argparse
import warnings

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement

from mkbo_plugins.botorch import for_search
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.base import Covariance
from tests.speed.acquisitions import fitted
from tests.speed.suggestion import TARGETS, target_data, trained

CANDIDATES, FEWEST = 512, 5


def step(cov, form, seed):
    """Return whether both choose the same candidate, and the share of expected improvement lost."""
    X, Y = target_data(cov, seed)
    n = int(np.random.default_rng(seed).integers(FEWEST, TARGETS + 1))
    X, Y = X[:n], Y[:n]
    model, _ = fitted(cov, form, X, Y)
    pool = torch.as_tensor(cov.space.sobol(CANDIDATES, 10_000 + seed))[:, None]
    with torch.no_grad():
        exact, searched = (LogExpectedImprovement(m, best_f=Y.max())(pool) for m in (model, for_search(model)))
    chosen = int(searched.argmax())
    return chosen == int(exact.argmax()), float(-torch.expm1(exact[chosen] - exact.max()))


def main():
    """Read the arguments and count."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--artefact", action="append", help="covariance to take instead, may be repeated")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--form", default=DEFAULT_FORM)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    loaded = (Covariance.load(path) for path in arguments.artefact or ())
    every = []
    for cov in loaded if arguments.artefact else (trained(),):
        found = [step(cov, arguments.form, seed) for seed in range(arguments.steps)]
        every += found
        report(f"{' + '.join(cov.targets)}, {cov.fingerprint[:12]}", found)
    report("all", every)


def report(name, found):
    """Print one line."""
    same, lost = zip(*found, strict=True)
    print(
        f"{name:40s} {sum(same):4d} of {len(same)} the same, expected improvement lost at most {max(lost):.1e}",
        flush=True,
    )


if __name__ == "__main__":
    main()
