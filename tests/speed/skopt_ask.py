"""Time one ask of scikit-optimize with a pre-trained covariance against its own Gaussian process.

Run by hand: ``python -m tests.speed.skopt_ask [--runs 10] [--forms transfer moment] [--artefact FILE]``. An ask is a
fit of the model to 50 points of 5 dimensions, the scoring of 10,000 candidates and the search from the best of them.
Models take turns within every run, so that a busy machine slows all of them alike; ratios are of the same run.
"""

import argparse
import time
import warnings
from statistics import median

import numpy as np
from skopt import Optimizer
from skopt.space import Categorical, Integer, Real

from mkbo_plugins import PretrainedCovariance
from mkbo_plugins.skopt import pretrained_regressor
from mkbo_plugins.space.parameters import Numeric
from tests.speed.suggestion import smooth, trained

TARGETS = 50
FORMS = ("transfer", "moment", "normalised")
MOST_RATIO, MOST_EXTRA = 2.0, 0.5


def dimensions(space):
    """Return the space as scikit-optimize dimensions."""
    found = []
    for p in space.parameters:
        if isinstance(p, Numeric):
            kind, prior = Integer if p.integer else Real, "log-uniform" if p.log else "uniform"
            found.append(kind(p.lower, p.upper, prior=prior, name=p.name))
        else:
            found.append(Categorical(list(p.levels), name=p.name))
    return found


def ask(cov, form, acquisition, seed):
    """Return the seconds between the last result told and the next point asked for."""
    space = dimensions(cov.space)
    model = "GP" if form == "skopt" else pretrained_regressor(cov, space, form)
    optimiser = Optimizer(space, model, n_initial_points=TARGETS, acq_func=acquisition, random_state=seed)
    points = optimiser.space.rvs(TARGETS, random_state=seed)
    unit = np.asarray(
        cov.space.to_coordinates(cov.space.to_raw([dict(zip(cov.space.names, x, strict=True)) for x in points]), "unit")
    )
    values = smooth(unit, shift=0.1) + np.random.default_rng(seed).normal(0, 0.02, TARGETS)
    begin = time.perf_counter()
    optimiser.tell(points, values.tolist())
    optimiser.ask()
    return time.perf_counter() - begin


def main():
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--artefact", action="append", help="covariance to measure instead, may be repeated")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--forms", nargs="+", default=FORMS)
    parser.add_argument("--acquisitions", nargs="+", default=("gp_hedge", "EI", "LCB"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    loaded = (PretrainedCovariance.load(path) for path in arguments.artefact or ())
    for cov in loaded if arguments.artefact else (trained(),):
        print(f"{cov.record.target}: d = {len(cov.space.coordinate_names)}, {len(cov.alpha)} support vectors")
        for acquisition in arguments.acquisitions:
            seconds = {form: [] for form in ("skopt", *arguments.forms)}
            for form in seconds:
                ask(cov, form, acquisition, 0)
            for seed in range(arguments.runs):
                for form in seconds if seed % 2 else reversed(seconds):
                    seconds[form].append(ask(cov, form, acquisition, seed))
            stock = np.array(seconds["skopt"])
            for form, found in seconds.items():
                ratio, extra = median(found / stock), median(found - stock)
                met = "met" if ratio <= MOST_RATIO or extra <= MOST_EXTRA else "MISSED"
                print(
                    f"  {acquisition:9s} {form:11s} {median(found):6.2f} s  x {ratio:5.2f}  {extra:+6.2f} s  {met}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
