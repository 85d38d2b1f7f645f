"""Time one suggestion of Ax with a pre-trained covariance against Ax's own model.

Run by hand: ``python -m tests.speed.ax_next [--runs 10] [--trials 10 50] [--forms transfer link] [--artefact FILE]``. A
suggestion is what `get_next_trials` does after so many completed trials: a fit of the model and an optimisation of
noisy expected improvement. Models take turns within every run, so that a busy machine slows all of them alike; ratios
are of CPU time and of the same run. ``--profile`` prints where the time of one suggestion goes.
"""

import argparse
import cProfile
import logging
import pstats
import time
import warnings
from statistics import median

import numpy as np
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.utils.common.logger import set_ax_logger_levels

from mkbo_plugins.ax import use_pretrained
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.space.parameters import Numeric
from tests.speed.suggestion import smooth, trained

TRIALS = (10, 50)
MOST_RATIO, MOST_EXTRA = 1.3, 0.2


def parameters(space):
    """Return a space as Ax's parameters."""
    found = []
    for p in space.parameters:
        if isinstance(p, Numeric):
            kind, scaling = "int" if p.integer else "float", "log" if p.log else "linear"
            found.append(RangeParameterConfig(p.name, (p.lower, p.upper), parameter_type=kind, scaling=scaling))
        else:
            text = isinstance(p.levels[0], str)
            kind = "str" if text else "float"
            found.append(ChoiceParameterConfig(p.name, list(p.levels), parameter_type=kind, is_ordered=not text))
    return found


def campaign(cov, form, n, seed):
    """Return a client with `n` completed trials, of the table's function moved and with noise."""
    client = Client(random_seed=seed)
    client.configure_experiment(parameters(cov.space))
    client.configure_optimization("y")
    if form == "ax":
        client.configure_generation_strategy(initialization_budget=n, initialize_with_center=False)
    else:
        use_pretrained(client, cov, form, initial_trials=n, seed=seed)
    points = {str(point): point for point in cov.space.from_raw(cov.space.sobol(2 * n, 100 + seed))}
    for point in list(points.values())[:n]:
        unit = np.asarray(cov.space.to_coordinates(cov.space.to_raw([point]), "unit"))
        noise = np.random.default_rng([seed, len(client._experiment.trials)]).normal(0, 0.02)
        client.complete_trial(client.attach_trial(point), {"y": round(float(smooth(unit, shift=0.1)[0] + noise), 6)})
    return client


def suggest(cov, form, n, seed):
    """Return the seconds of CPU of one suggestion."""
    client = campaign(cov, form, n, seed)
    torch.manual_seed(seed)
    begin = time.process_time()
    client.get_next_trials(1)
    return time.process_time() - begin


def measure(cov, forms, n, runs):
    """Print the seconds of each form beside those of Ax's own model."""
    seconds = {form: [] for form in ("ax", *forms)}
    for form in seconds:  # imports and features of the covariance itself
        suggest(cov, form, n, 0)
    for seed in range(1, runs + 1):
        for form in seconds if seed % 2 else reversed(seconds):
            seconds[form].append(suggest(cov, form, n, seed))
    own = np.array(seconds["ax"])
    for form, found in seconds.items():
        ratio, extra = median(found / own), median(found - own)
        met = "met" if ratio <= MOST_RATIO or extra <= MOST_EXTRA else "MISSED"
        print(f"  n = {n:3d} {form:16s} {median(found):6.2f} s  x {ratio:5.2f}  {extra:+6.2f} s  {met}", flush=True)


def profile(cov, form, n):
    """Print the functions in which one suggestion spends most time."""
    suggest(cov, form, n, 0)
    client = campaign(cov, form, n, 1)
    with cProfile.Profile() as profiler:
        client.get_next_trials(1)
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(70)


def main():
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--artefact", action="append", help="covariance to measure instead, may be repeated")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--trials", type=int, nargs="+", default=TRIALS)
    parser.add_argument("--forms", nargs="+", default=(DEFAULT_FORM,))
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    set_ax_logger_levels(logging.ERROR)
    loaded = (Covariance.load(path) for path in arguments.artefact or ())
    for cov in loaded if arguments.artefact else (trained(),):
        print(f"{' + '.join(cov.targets)}: d = {len(cov.space.coordinate_names)}, {cov.fingerprint[:12]}")
        for n in arguments.trials:
            if arguments.profile:
                for form in arguments.forms:
                    profile(cov, form, n)
            else:
                measure(cov, arguments.forms, n, arguments.runs)


if __name__ == "__main__":
    main()
