"""Time of pre-training: ``python -m tests.speed.pretraining FOLDER``, a folder with lig_graphene.csv and concrete.csv.

First the exact leave-one-out grid (8 C x 8 sigma x 3 epsilon) on 163 rows against a plain loop that refits
scikit-learn's SVR without every row in every cell; then a table of 10,000 rows; then what is lost on 500 rows when
only some of them are trained on.
"""

import itertools
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.svm import SVR

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.training.ard import ard_map
from mkbo_plugins.core.training.selection import select
from mkbo_plugins.experiments.lig_graphene import SOURCE_ROWS, SPACE, TARGET


def plain_loop(gram, y, grid):
    """Return the best cell and its error, refitting without every row in every cell."""
    errors = {}
    for C, epsilon, sigma in itertools.product(*grid.values()):
        K, residuals = gram(sigma), np.empty(len(y))
        for i in range(len(y)):
            kept = np.arange(len(y)) != i
            machine = SVR(kernel="precomputed", C=C, epsilon=epsilon, tol=1e-4).fit(K[np.ix_(kept, kept)], y[kept])
            residuals[i] = machine.predict(K[[i]][:, kept])[0] - y[i]
        errors[C, epsilon, sigma] = np.mean(residuals**2)
    return min(errors.items(), key=lambda item: item[1])


def grid_against_plain_loop(table):
    """Print times and winners of the exact grid and the plain loop."""
    rows = table[table["precursor"] == "PI"].sample(SOURCE_ROWS, random_state=0)
    X = np.asarray(SPACE.to_coordinates(SPACE.to_raw(rows[list(SPACE.names)]), "centred"))
    y = rows[TARGET].to_numpy()
    y = (y - y.mean()) / y.std()
    weights = ard_map(SquaredExponential(), X, y, SPACE.coordinate_ranges("centred"), ard=True).weights
    grid = {
        "C": np.geomspace(0.1, 100, 8).tolist(),
        "epsilon": [0.0, 0.1, 0.3],
        "sigma": np.geomspace(0.25, 8, 8).tolist(),
    }

    def gram(sigma):
        return SquaredExponential(sigma=sigma, weights=tuple(weights)).gram(X)

    start = time.perf_counter()
    found = select(gram, y, **grid)
    ours = time.perf_counter() - start
    winner, error = plain_loop(gram, y, grid)
    plain = time.perf_counter() - start - ours
    print(f"{len(y)} rows, {np.prod([len(v) for v in grid.values()])} cells of C, epsilon, sigma")
    print(f"  plain loop {plain:7.1f} s, winner {winner}, error {error:.6f}")
    print(
        f"  select     {ours:7.1f} s, winner {(found.C, found.epsilon, found.sigma)}, error "
        f"{found.loo.error:.6f}; {len(found.not_converged)} cells left out"
    )
    print(f"  ratio {plain / ours:.1f}, same winner: {winner == (found.C, found.epsilon, found.sigma)}", flush=True)


def quietly(*args, **settings):
    """Pre-train without warnings and return the covariance and the seconds taken."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cov = pretrain(*args, progress=False, **settings)
    return cov, time.perf_counter() - start


def long_table():
    """Print time and memory of 10,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (10_000, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * np.cos(4 * X[:, 3]) + rng.normal(0, 0.1, len(X))
    cov, seconds = quietly((X, y), space=ParameterSpace.from_dict(dict.fromkeys("abcde", (-1, 1))))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{len(X)} rows: {seconds:.0f} s, peak memory of the process {memory:.2f} GB")
    print(f"  {cov.record.notes[0]}", flush=True)


def distance_from_exact(table):
    """Print what training on some of 500 rows loses against training on all of them."""
    target = table.columns[-1]
    table = table.sample(frac=1, random_state=0).reset_index(drop=True)
    rows, others = table[:500], table[500:]
    space = ParameterSpace.from_table(table, target)
    print(
        f"{target}: root mean squared error on {len(others)} other rows, correlation with the machine of all 500 rows"
    )
    whole = None
    for count in (500, 250, 125):
        cov, seconds = quietly(rows, target, space, max_rows=count)
        predicted = cov.predict(others)
        whole = predicted if whole is None else whole
        error = np.sqrt(np.mean((predicted - others[target]) ** 2))
        print(
            f"  {count} rows: {seconds:5.1f} s, C {cov.C:.3g}, epsilon {cov.epsilon:.3g}, sigma {cov.sigma:.3g}, "
            f"error {error:.3f} (standard deviation {others[target].std():.3f}), leave-one-out "
            f"{np.sqrt(cov.loo_mse):.3f}, correlation {np.corrcoef(predicted, whole)[0, 1]:.4f}",
            flush=True,
        )


def main():
    """Print all three."""
    folder = Path(sys.argv[1])
    grid_against_plain_loop(pd.read_csv(folder / "lig_graphene.csv"))
    long_table()
    distance_from_exact(pd.read_csv(folder / "concrete.csv"))


if __name__ == "__main__":
    main()
