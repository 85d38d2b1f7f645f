"""Time scikit-optimize with a pre-trained covariance against its own Gaussian process.

Run by hand: ``python -m tests.speed.skopt_ask [--what ask minimise search] [--artefact FILE] [--trials 10 50]
[--runs 10] [--forms similarity_link]``. An ask is a fit of the model to so many points, the scoring of 10,000
candidates and the search from the best of them; `minimise` is a whole `gp_minimize`, `search` a `BayesSearchCV` over
support vector classifiers of digits, with their training in it. Models take turns within every run, so that a busy
machine slows all of them alike; times are of the processor, ratios are of the same run.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from statistics import median

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from skopt import BayesSearchCV, Optimizer, gp_minimize
from skopt.space import Categorical, Integer, Real

from mkbo_plugins import PretrainedCovariance, pretrain
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.experiments.digits import images
from mkbo_plugins.skopt import parameter_space, pretrained_regressor
from mkbo_plugins.space.parameters import Numeric
from tests.speed.suggestion import smooth, trained

STOCK = "skopt"
CALLS, STARTS = 25, 10
SEARCHES, IMAGES, FEWER_IMAGES = 20, 400, 150
MOST_RATIO, MOST_EXTRA = 2.0, 0.2


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


def model(cov, space, form):
    """Return what the host calls a base estimator."""
    return "GP" if form == STOCK else pretrained_regressor(cov, space, form)


def values(cov, points):
    """Return a smooth function of rows of raw values."""
    records = [dict(zip(cov.space.names, row, strict=True)) for row in points]
    return smooth(np.asarray(cov.space.to_coordinates(cov.space.to_raw(records), "unit")), shift=0.1)


def seconds(run):
    """Return the processor's seconds that a function takes."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def ask(cov, trials, acquisition, form, seed):
    """Return the seconds between the last result told and the next point asked for."""
    space = dimensions(cov.space)
    optimiser = Optimizer(
        space, model(cov, space, form), n_initial_points=trials, acq_func=acquisition, random_state=seed
    )
    points = optimiser.space.rvs(trials, random_state=seed)
    told = values(cov, points) + np.random.default_rng(seed).normal(0, 0.02, trials)
    return seconds(lambda: (optimiser.tell(points, told.tolist()), optimiser.ask()))


def minimise(cov, form, seed):
    """Return the seconds of a minimisation."""
    space = dimensions(cov.space)
    settings = {"n_calls": CALLS, "n_initial_points": STARTS, "random_state": seed}
    objective = lambda row: float(values(cov, [row])[0])  # noqa: E731
    return seconds(lambda: gp_minimize(objective, space, model(cov, space, form), **settings))


def searched():
    """Return fresh dimensions of a search over classifiers, as the host changes those it gets."""
    return {"svc__C": Real(1e-3, 1e5, prior="log-uniform"), "svc__gamma": Real(1e-6, 1e2, prior="log-uniform")}


@cache
def knowledge():
    """Return a covariance trained on scores of classifiers of fewer images."""
    space, (X, y) = parameter_space(searched()), images(FEWER_IMAGES)
    settings = space.sobol(64, 1)
    classify = lambda C, gamma: make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma))  # noqa: E731
    scores = Parallel(n_jobs=1)(delayed(cross_val_score)(classify(*row), X, y, cv=3) for row in settings)
    return pretrain((settings, np.mean(scores, axis=1)), "accuracy", space, progress=False)


def search(form, seed):
    """Return the seconds of a search over classifiers."""
    X, y = images(IMAGES)
    settings = {"base_estimator": model(knowledge(), searched(), form)}
    classifier = make_pipeline(StandardScaler(), SVC())
    found = BayesSearchCV(
        classifier, searched(), n_iter=SEARCHES, cv=3, random_state=seed, optimizer_kwargs=settings, refit=False
    )
    return seconds(lambda: found.fit(X, y))


def compare(label: str, forms: list[str], runs: int, timed: Callable[..., float]) -> float:
    """Print medians over runs of each model, and return the ratio of the first form to the host's own."""
    taken: dict[str, list[float]] = {form: [] for form in (STOCK, *forms)}
    for form in taken:
        timed(form=form, seed=0)
    for seed in range(1, runs + 1):
        for form in taken if seed % 2 else reversed(taken):
            taken[form].append(timed(form=form, seed=seed))
    stock = np.array(taken[STOCK])
    for form in forms:
        found = np.array(taken[form])
        ratio, extra = median(found / stock), median(found - stock)
        met = "met" if ratio <= MOST_RATIO or extra <= MOST_EXTRA else "MISSED"
        print(
            f"  {label:16s} {form:16s} {median(stock):6.2f} s {median(found):6.2f} s  x {ratio:5.2f}  {extra:+6.2f} s  "
            f"{met}",
            flush=True,
        )
    return median(np.array(taken[forms[0]]) / stock)


def main():
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--what", nargs="+", choices=("ask", "minimise", "search"), default=("ask",))
    parser.add_argument("--artefact", nargs="+", help="covariances to measure with")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--trials", type=int, nargs="+", default=(10, 50))
    parser.add_argument("--forms", nargs="+", default=(DEFAULT_FORM,))
    parser.add_argument("--acquisitions", nargs="+", default=("gp_hedge",))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    ratios: dict[str, list[float]] = {}
    for path in (arguments.artefact or (None,)) if set(arguments.what) - {"search"} else ():
        cov = trained() if path is None else PretrainedCovariance.load(path)
        print(f"{' + '.join(cov.targets)}: d = {len(cov.space.coordinate_names)}")
        for acquisition in arguments.acquisitions if "ask" in arguments.what else ():
            for trials in arguments.trials:
                label = f"{acquisition} {trials}"
                ratio = compare(label, arguments.forms, arguments.runs, partial(ask, cov, trials, acquisition))
                ratios.setdefault(f"ask, {label}", []).append(ratio)
        if "minimise" in arguments.what:
            ratio = compare("gp_minimize", arguments.forms, arguments.runs, partial(minimise, cov))
            ratios.setdefault("gp_minimize", []).append(ratio)
    for name, found in ratios.items():
        print(f"{name}: median x {median(found):.2f}, worst x {max(found):.2f} of {len(found)} covariances")
    if "search" in arguments.what:
        compare("BayesSearchCV", arguments.forms, arguments.runs, search)


if __name__ == "__main__":
    main()
