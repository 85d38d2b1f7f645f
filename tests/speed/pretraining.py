"""Time of pre-training: ``python -m tests.speed.pretraining FOLDER [grid] [500] [long] [gains] [exact]``.

``grid``: the exact leave-one-out grid (8 C x 8 sigma x 3 epsilon) on 163 rows against a plain loop that refits
scikit-learn's SVR without every row in every cell; ``500``: that many rows of real tables; ``long``: tables of 10,000
and 100,000 rows; ``gains``: what all rows of long real tables gain beside 500 of them; ``exact``: what is lost on 500
rows when only some of them are trained on.
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


def synthetic(count, seed=0):
    """Return points (count, 5), values with noise, and the values without it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * np.cos(4 * X[:, 3])
    return X, y + rng.normal(0, 0.1, count), y


def long_tables():
    """Print time, memory and error of tables of 10,000 and 100,000 rows, beside those of 500 rows of them alone."""
    space, (others, _, truth) = ParameterSpace.from_dict(dict.fromkeys("abcde", (-1, 1))), synthetic(2000, seed=1)
    for trainer, count, most in itertools.product(("gp", "svm"), (10_000, 100_000), (500, None)):
        cov, seconds = quietly(synthetic(count)[:2], space=space, trainer=trainer, max_rows=most)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        error = np.sqrt(np.mean((cov.predict(others) - truth) ** 2))
        print(
            f"{count} rows, {trainer}, max_rows={most}: {seconds:.0f} s, peak memory of the process {memory:.2f} GB, "
            f"error {error:.4f} beside a standard deviation of {truth.std():.2f}",
            flush=True,
        )


def real_tables(folder):
    """Yield name, table, target and space of real tables of more than 500 rows."""
    table = pd.read_csv(folder / "concrete.csv")
    yield "concrete", table, "strength_MPa", ParameterSpace.from_table(table, "strength_MPa")
    table = pd.read_csv(folder / "direct_arylation.csv")
    yield "direct arylation", table, "yield_pct", ParameterSpace.from_table(table, "yield_pct")
    table = pd.read_csv(folder / "hpo_mlp.csv")
    logarithmic = ("alpha", "learning_rate_init", "batch_size", "width")
    bounds = {name: (float(table[name].min()), float(table[name].max()), "log") for name in logarithmic}
    space = ParameterSpace.from_dict({**bounds, "depth": (float(table["depth"].min()), float(table["depth"].max()))})
    yield "hpo_mlp, car", table, "err_car", space
    table = pd.read_csv(folder / "lcbench.csv.gz")
    logarithmic = ("batch_size", "max_units", "learning_rate")
    others = ("max_dropout", "num_layers", "momentum", "weight_decay")
    bounds = {name: (float(table[name].min()), float(table[name].max()), "log") for name in logarithmic}
    bounds |= {name: (float(table[name].min()), float(table[name].max())) for name in others}
    yield "lcbench, cnae-9", table, "cnae-9", ParameterSpace.from_dict(bounds)
    table = pd.read_csv(folder / "salinas_xgboost.csv.gz")
    table = table[table["task"] == "heart"].drop(columns="task")
    table = table[[name for name in table if table[name].nunique() > 1]]
    yield "xgboost, heart", table, "metric_error", ParameterSpace.from_table(table, "metric_error")


def gains(folder, trainer):
    """Print what all rows gain beside 500 of them: error on a fifth held out, times of training and of K^E."""
    print(f"trainer {trainer}: root mean squared error on a fifth of the rows, in their standard deviations")
    for name, table, target, space in real_tables(folder):
        order = np.random.default_rng(1).permutation(len(table))
        others, rows = table.iloc[order[: len(table) // 5]], table.iloc[order[len(table) // 5 :]]
        print(f"  {name}, {len(rows)} rows:")
        for most in (500, None):
            begin = time.process_time()
            cov, _ = quietly(rows.reset_index(drop=True), target, space, trainer=trainer, max_rows=most)
            trained = time.process_time()
            error = np.sqrt(np.mean((cov.predict(others) - others[target]) ** 2)) / others[target].std()
            settings = others[list(space.names)]
            cov.gram(settings[:1])
            begin_gram = time.process_time()
            cov.gram(settings[:30], settings[30:50])
            print(
                f"    max_rows={most}: error {error:.3f}, trained in {trained - begin:.1f} s, {len(cov.alpha)} "
                f"weighted rows, K^E of 600 pairs in {time.process_time() - begin_gram:.3f} s",
                flush=True,
            )


def five_hundred(folder):
    """Print the times of both trainers on 500 rows of real tables."""
    for name, table, target, space in real_tables(folder):
        rows = table.sample(500, random_state=0).reset_index(drop=True)
        for trainer in ("gp", "svm"):
            begin = time.process_time()
            quietly(rows, target, space, trainer=trainer, n_jobs=1)
            print(f"500 rows of {name}, {trainer}: {time.process_time() - begin:.1f} s", flush=True)


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
    """Print the parts named, or all."""
    folder = Path(sys.argv[1])
    parts = {
        "grid": lambda: grid_against_plain_loop(pd.read_csv(folder / "lig_graphene.csv")),
        "500": lambda: five_hundred(folder),
        "long": long_tables,
        "gains": lambda: [gains(folder, trainer) for trainer in ("gp", "svm")],
        "exact": lambda: distance_from_exact(pd.read_csv(folder / "concrete.csv")),
    }
    for part in sys.argv[2:] or parts:
        parts[part]()


if __name__ == "__main__":
    main()
