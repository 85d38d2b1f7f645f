"""Time one suggestion of a target campaign with a pre-trained covariance against BoTorch's own model.

Run by hand: ``python -m tests.speed.suggestion [--artefact FILE] [--runs 10] [--forms transfer_link link moment]``.
A suggestion is a fit of the model and an optimisation of expected improvement. Forms take turns within every run, so
that a busy machine slows all of them alike; ratios are of the same run.
"""

import argparse
import time
import warnings
from statistics import median

import numpy as np
import pandas as pd
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.botorch import pretrained_gp
from mkbo_plugins.core.forms import DEFAULT_FORM

ROWS, TARGETS, DIMENSION = 163, 50, 5
FORMS = (DEFAULT_FORM, "transfer", "link", "moment", "normalised")
MOST_RATIO, MOST_EXTRA = 2.0, 0.3
SEARCH = {"q": 1, "num_restarts": 10, "raw_samples": 512}


def smooth(unit, shift=0.0):
    """Return a smooth function of points in the unit cube (n, d)."""
    weights = 1.0 / np.arange(1, unit.shape[1] + 1)
    waves = np.sin((unit - shift) * np.pi * 1.5) @ weights
    return waves + np.exp(-4 * np.mean((unit - 0.4 - shift) ** 2, axis=1))


def trained():
    """Return a covariance with coordinate weights, trained on a smooth function with noise."""
    space = ParameterSpace.from_dict({f"x{j}": (0.0, 1.0) for j in range(DIMENSION)})
    X = space.sobol(ROWS, 1)
    y = smooth(X) + np.random.default_rng(0).normal(0, 0.05, ROWS)
    table = pd.DataFrame(X, columns=list(space.names)).assign(y=y)
    return pretrain(table, target="y", space=space, trainer="svm", progress=False)


def target_data(cov, seed):
    """Return target points in raw units and outcomes that are the table's function, moved and with noise."""
    X = cov.space.sobol(TARGETS, 100 + seed)
    unit = np.asarray(cov.space.to_coordinates(X, "unit"))
    y = smooth(unit, shift=0.1) + np.random.default_rng(seed).normal(0, 0.02, TARGETS)
    return torch.as_tensor(X), torch.as_tensor(y)[:, None]


def raw_bounds(space):
    """Return bounds of the raw columns (2, d)."""
    ends = [np.ravel(p.from_unit(np.array([0.0, 1.0 - 1e-12]))) for p in space.parameters]
    return torch.as_tensor(np.stack(ends, axis=1).astype(float))


def suggest(cov, form, X, Y, seed):
    """Return the seconds of building and fitting a model and of optimising its acquisition function."""
    torch.manual_seed(seed)
    begin = time.perf_counter()
    model = pretrained_gp(cov, X, Y, form=form)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    fitted = time.perf_counter()
    acquisition = LogExpectedImprovement(model, best_f=Y.max())
    optimize_acqf(acquisition, raw_bounds(cov.space), options={"seed": seed}, **SEARCH)
    return np.array([fitted - begin, time.perf_counter() - fitted])


def describe(cov):
    """Print what the covariance is and how it is evaluated."""
    d, sizes = len(cov.space.coordinate_names), (1, 10, TARGETS, 512)
    print(f"{cov.record.target}: d = {d}, {len(cov.alpha)} support vectors, sigma = {cov.sigma:.3g}")
    print(f"  {cov.evaluator.describe()}")
    Z = np.random.default_rng(0).uniform(-1, 1, (max(sizes), d))
    routes = [f"{n}: {type(cov.evaluator.prepare(Z[:n], Z[:TARGETS])[0].form).__name__}" for n in sizes]
    print(f"  route between {TARGETS} points and " + ", ".join(routes))


def measure(cov, forms, runs):
    """Print the seconds of each form beside those of the stock model."""
    seconds = {form: [] for form in ("stock", *forms)}
    for form in seconds:  # imports, features and tables of the covariance itself
        suggest(cov, form, *target_data(cov, 0), 0)
    for seed in range(runs):
        X, Y = target_data(cov, seed)
        for form in seconds if seed % 2 else reversed(seconds):
            seconds[form].append(suggest(cov, form, X, Y, seed))
    print(f"  medians of {runs} runs, seconds\n  {'form':11s} {'fit':>6s} {'search':>7s} {'total':>6s}", end="")
    print(f" {'x stock':>8s} {'range of ratios':>16s} {'+ stock':>8s}  requirement")
    stock = np.sum(seconds["stock"], axis=1)
    for form, pairs in seconds.items():
        report(form, np.array(pairs), stock)


def report(form, pairs, stock):
    """Print one line of the table."""
    total = pairs.sum(axis=1)
    ratios, extra = total / stock, median(total - stock)
    met = "met" if median(ratios) <= MOST_RATIO or extra <= MOST_EXTRA else "MISSED"
    fit, search = np.median(pairs, axis=0)
    print(f"  {form:11s} {fit:6.2f} {search:7.2f} {median(total):6.2f} {median(ratios):8.2f}", end="")
    print(f" {ratios.min():8.2f}-{ratios.max():.2f}   {extra:+8.2f}  {'' if form == 'stock' else met}", flush=True)


def main():
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--artefact", action="append", help="covariance to measure instead, may be repeated")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--forms", nargs="+", default=FORMS)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    print(f"one suggestion: n = {TARGETS}, {SEARCH}; at most {MOST_RATIO:g} x stock or stock + {MOST_EXTRA:g} s")
    loaded = (PretrainedCovariance.load(path) for path in arguments.artefact or ())
    for cov in loaded if arguments.artefact else (trained(),):
        describe(cov)
        measure(cov, arguments.forms, arguments.runs)


if __name__ == "__main__":
    main()
