"""Time suggestions by every kind of acquisition function against BoTorch's own model, in seconds of a processor.

Run by hand: ``OMP_NUM_THREADS=1 python -m tests.speed.acquisitions [--artefact FILE] [--runs 10] [--names LogEI JES]
[--between-levels]``. A suggestion is what follows the fit, which is timed alone: making the model `for_search` and the
acquisition function, sampled optima among it, and its optimisation, at one level of a categorical after the other or
with points between levels too. Forms take turns within every run; ratios are of the same run.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement, PosteriorMean, qKnowledgeGradient, qLogNoisyExpectedImprovement
from botorch.acquisition.joint_entropy_search import qJointEntropySearch
from botorch.acquisition.max_value_entropy_search import qLowerBoundMaxValueEntropy, qMaxValueEntropy
from botorch.acquisition.predictive_entropy_search import qPredictiveEntropySearch
from botorch.acquisition.utils import get_optimal_samples
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf, optimize_acqf_mixed
from botorch.sampling.pathwise import get_matheron_path_model
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins.botorch import for_search, pretrained_gp
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.space.parameters import Categorical
from tests.speed.suggestion import raw_bounds, target_data, trained

MOST_RATIO, MOST_EXTRA = 2.0, 0.3
SEARCH = {"q": 1, "num_restarts": 10, "raw_samples": 512}
OPTIMA = {"num_optima": 8, "raw_samples": 512, "num_restarts": 5}


class Box(NamedTuple):
    """What is searched: bounds (2, d), and the levels of each choice of them by column, none to search between them."""

    bounds: torch.Tensor
    choices: list[dict[int, float]]

    @classmethod
    def of(cls, space, between_levels):
        """Return the box of a space."""
        levels = {j: range(len(p.levels)) for j, p in enumerate(space.parameters) if isinstance(p, Categorical)}
        choices = [dict(zip(levels, map(float, choice), strict=True)) for choice in product(*levels.values())]
        return cls(raw_bounds(space), choices if levels and not between_levels else [])


def best(acquisition, box, seed):
    """Return what maximises an acquisition function."""
    if box.choices:
        options = {"fixed_features_list": box.choices, "options": {"seed": seed}}
        return optimize_acqf_mixed(acquisition, box.bounds, **SEARCH, **options)
    return optimize_acqf(acquisition, box.bounds, options={"seed": seed}, **SEARCH)


def entropy_search(model, Y, pool, box, seed):
    """Sample optima and optimise joint entropy search."""
    return best(qJointEntropySearch(model, *get_optimal_samples(model, box.bounds, **OPTIMA)), box, seed)


def predictive_entropy_search(model, Y, pool, box, seed):
    """Sample optima and optimise predictive entropy search."""
    return best(qPredictiveEntropySearch(model, get_optimal_samples(model, box.bounds, **OPTIMA)[0]), box, seed)


def thompson(model, Y, pool, box, seed):
    """Return the best of many points on one sample path."""
    with torch.no_grad():
        return pool[get_matheron_path_model(model)(pool).argmax()]


SUGGESTIONS: dict[str, Callable] = {
    "LogEI": lambda m, Y, pool, box, seed: best(LogExpectedImprovement(m, best_f=Y.max()), box, seed),
    "qLogNEI": lambda m, Y, pool, box, seed: best(
        qLogNoisyExpectedImprovement(m, X_baseline=pool[: len(Y)], prune_baseline=True), box, seed
    ),
    "KG": lambda m, Y, pool, box, seed: best(qKnowledgeGradient(m, num_fantasies=8), box, seed),
    "MES": lambda m, Y, pool, box, seed: best(qMaxValueEntropy(m, pool), box, seed),
    "GIBBON": lambda m, Y, pool, box, seed: best(qLowerBoundMaxValueEntropy(m, pool), box, seed),
    "PES": predictive_entropy_search,
    "JES": entropy_search,
    "TS": thompson,
    "path": lambda m, Y, pool, box, seed: best(PosteriorMean(get_matheron_path_model(m)), box, seed),
}


def fitted(cov, form, X, Y):
    """Return a fitted model and the seconds it took."""
    begin = time.process_time()
    if form == "stock":
        # BoTorch draws no paths of a model whose input transform adds columns, as pretrained_gp's does for levels.
        model = SingleTaskGP(X, Y, input_transform=Normalize(X.shape[-1], bounds=raw_bounds(cov.space)))
    else:
        model = pretrained_gp(cov, X, Y, form=form)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model.eval(), time.process_time() - begin


def measure(cov, names, runs, form, box):
    """Print the seconds of each suggestion beside those of the stock model."""
    seconds = {(name, f): [] for name in ("fit", *names) for f in ("stock", form)}
    for seed in range(-1, runs):  # the first run loads and prepares, and does not count
        X, Y = target_data(cov, max(seed, 0))
        pool = torch.cat([X, torch.as_tensor(cov.space.sobol(1000, seed=7))])
        for f in ("stock", form) if seed % 2 else (form, "stock"):
            model, took = fitted(cov, f, X, Y)
            if seed >= 0:
                seconds["fit", f].append(took)
            for name in names:
                torch.manual_seed(max(seed, 0))
                begin = time.process_time()
                SUGGESTIONS[name](for_search(model), Y, pool, box, max(seed, 0))
                if seed >= 0:
                    seconds[name, f].append(time.process_time() - begin)
    print(f"  medians of {runs} runs\n  {'':8s} {'stock':>7s} {form:>16s} {'ratio':>6s} {'range':>12s} {'extra':>7s}")
    for name in ("fit", *names):
        report(name, np.array(seconds[name, "stock"]), np.array(seconds[name, form]))


def report(name, stock, ours):
    """Print one line of the table."""
    ratios, extra = ours / stock, median(ours - stock)
    met = "met" if median(ratios) <= MOST_RATIO or extra <= MOST_EXTRA else "MISSED"
    print(f"  {name:8s} {median(stock):7.2f} {median(ours):16.2f} {median(ratios):6.2f}", end="")
    print(f" {ratios.min():6.2f}-{ratios.max():5.2f} {extra:+7.2f} {met}", flush=True)


def main():
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--artefact", action="append", help="covariance to measure instead, may be repeated")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--names", nargs="+", default=list(SUGGESTIONS), choices=list(SUGGESTIONS))
    parser.add_argument("--between-levels", action="store_true", help="search between levels of categoricals too")
    parser.add_argument("--form", default=DEFAULT_FORM)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"one suggestion: {SEARCH}, optima {OPTIMA}; at most {MOST_RATIO:g} x stock or stock + {MOST_EXTRA:g} s")
    loaded = (Covariance.load(path) for path in arguments.artefact or ())
    for cov in loaded if arguments.artefact else (trained(),):
        print(f"{' + '.join(cov.targets)}, {cov.fingerprint[:12]}")
        measure(cov, arguments.names, arguments.runs, arguments.form, Box.of(cov.space, arguments.between_levels))


if __name__ == "__main__":
    main()
