"""How the time of a search grows with outcomes, parameters, rows of the table, points at once and tables.

Run by hand: ``OMP_NUM_THREADS=1 python -m tests.speed.growth [--runs 3] [--plot FILE]``. One number is varied at a
time, the others being as in `USUAL`; the function is smooth and made up. A search is the optimisation of noisy expected
improvement over a model `for_search` with usual hyperparameters, which are not fitted, in seconds of a processor,
beside BoTorch's own model.
"""

import argparse
import time
import warnings
from statistics import median
from types import MappingProxyType

import numpy as np
import pandas as pd
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from matplotlib import pyplot as plt

from mkbo_plugins import CombinedCovariance, ParameterSpace, pretrain
from mkbo_plugins.botorch import for_search, pretrained_gp
from tests.speed.suggestion import raw_bounds, smooth

USUAL = MappingProxyType({"outcomes": 30, "parameters": 5, "rows": 100, "points": 1, "tables": 1})
VARIED = MappingProxyType(
    {
        "outcomes": (10, 30, 100, 300, 1000),
        "parameters": (2, 5, 10, 20),
        "rows": (20, 100, 500, 2500, 10000),
        "points": (1, 2, 4, 8, 16),
        "tables": (1, 3, 10, 30),
    }
)
SEARCH = MappingProxyType({"num_restarts": 4, "raw_samples": 64})
MOST_SECONDS = 60.0
"""Seconds of a search from which on larger numbers are left out."""


def covariance(parameters, rows, tables):
    """Return a covariance of tables of a smooth function, each moved a little."""
    space = ParameterSpace.from_dict({f"x{j}": (0.0, 1.0) for j in range(parameters)})
    members = []
    for i in range(tables):
        X = space.sobol(rows, 1 + i)
        y = smooth(X, 0.02 * i) + np.random.default_rng(i).normal(0, 0.05, rows)
        table = pd.DataFrame(X, columns=list(space.names)).assign(y=y)
        members.append(pretrain(table, "y", space, trainer="gp", progress=False))
    return members[0] if tables == 1 else CombinedCovariance(members)


def data(space, n, seed):
    """Return target points and noisy outcomes."""
    X = space.sobol(n, 100 + seed)
    return torch.as_tensor(X), torch.as_tensor(smooth(X, 0.1) + np.random.default_rng(seed).normal(0, 0.02, n))[:, None]


def search(model, X, bounds, points, seed):
    """Return the seconds of a search."""
    begin = time.process_time()
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=seed)
    acquisition = qLogNoisyExpectedImprovement(for_search(model), X, sampler=sampler, prune_baseline=True)
    optimize_acqf(acquisition, bounds, q=points, options={"seed": seed, "maxiter": 30}, **SEARCH)
    return time.process_time() - begin


def seconds(cov, outcomes, points, runs):
    """Return medians of the seconds with BoTorch's own covariance and with a pre-trained one."""
    bounds, found = raw_bounds(cov.space), []
    for seed in range(-1, runs):  # the first run prepares, and does not count
        X, Y = data(cov.space, outcomes, max(seed, 0))
        stock = SingleTaskGP(X, Y, input_transform=Normalize(X.shape[-1], bounds=bounds))
        models = stock, pretrained_gp(cov, X, Y)
        for model in models:
            model.likelihood.noise = 1e-3
        found.append([search(model.eval(), X, bounds, points, max(seed, 0)) for model in models])
    return [median(column) for column in zip(*found[1:], strict=True)]


def vary(name, runs):
    """Return the values of a number with the seconds of both, and print them."""
    found = []
    for value in VARIED[name]:
        setting = {**USUAL, name: value}
        cov = covariance(setting["parameters"], setting["rows"], setting["tables"])
        both = seconds(cov, setting["outcomes"], setting["points"], runs)
        found.append((value, *both))
        print(f"{name:10s} {value:6d}  BoTorch's own {both[0]:6.2f} s, pre-trained {both[1]:6.2f} s", flush=True)
        if max(both) > MOST_SECONDS:
            break
    return found


def plot(found, path):
    """Draw seconds over each number."""
    figure, axes = plt.subplots(1, len(found), figsize=(14, 3), sharey=True, layout="constrained")
    for axis, (name, rows) in zip(axes, found.items(), strict=True):
        values, stock, ours = zip(*rows, strict=True)
        axis.semilogx(values, stock, "o--", color="0.5", label="BoTorch's own")
        axis.semilogx(values, ours, "o-", color="C0", label="pre-trained")
        axis.set_xlabel(name)
        axis.set_xticks(values, list(map(str, values)), minor=False)
        axis.minorticks_off()
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("seconds of a search")
    axes[0].legend()
    figure.savefig(path, dpi=110)


def main():
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--names", nargs="+", default=list(VARIED), choices=list(VARIED))
    parser.add_argument("--plot", help="file of a picture")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"usual: {dict(USUAL)}, {dict(SEARCH)}; medians of {arguments.runs} runs")
    found = {name: vary(name, arguments.runs) for name in arguments.names}
    if arguments.plot:
        plot(found, arguments.plot)


if __name__ == "__main__":
    main()
