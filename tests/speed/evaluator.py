"""Time normalised Gram matrices against the plain pair sum: ``python -m tests.speed.evaluator [FILE...] [--growth]``.

The baseline sums over all ordered pairs of support vectors in PyTorch, float64, two threads, in rows of bounded memory;
it is timed on fewer rows and scaled. Files are saved covariances to time besides the synthetic cases. With --growth, a
second table shows how time and memory grow with the number of points n, of rows N, of coordinates d, and the tolerance.
"""

import argparse
import time
import tracemalloc

import numpy as np
import torch

from mkbo_plugins import PretrainedCovariance
from mkbo_plugins.core import SquaredExponential, reweight
from mkbo_plugins.core.evaluation.feature_sum import FeatureSum
from mkbo_plugins.core.reweighted.formulas import Normalised
from mkbo_plugins.core.reweighted.gram import gram
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel
from mkbo_plugins.core.training.svr import fit_svr

POINTS = 400
TIMED_ROWS = 40
BUDGET = 256e6
GROWTH = {
    "n": (100, 400, 1600, 5000),
    "N": (40, 80, 163, 326),
    "d": (2, 3, 5, 8, 11),
    "tolerance": (1e-6, 1e-8, 1e-10, 1e-12),
}
SYNTHETIC = [(5, 3.0, 163), (5, 8.0, 163), (2, 0.36, 163), (2, 1.0, 163), (11, 0.1, 46), (5, 0.5, 163)]


def seconds(function):
    """Return the shortest of three times."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def baseline(kernel, X, Y):
    """Return the undamped Gram matrix from all ordered pairs."""
    (table,), base = kernel.tables, kernel.base
    z = torch.tensor(table.points)
    c = torch.tensor(table.alpha * np.exp(base.log_damping(table.points)))
    weights = torch.tensor(np.ones(z.shape[1]) if base.weights is None else np.array(base.weights)) / base.sigma
    pairs = (z[:, None] * z * weights).reshape(-1, z.shape[1]).T.contiguous()
    coefficients = torch.outer(c, c).ravel()
    products = (X[:, None] * Y).reshape(-1, X.shape[1])
    step = max(1, int(BUDGET / 16 / len(coefficients)))
    parts = [torch.exp(products[i : i + step] @ pairs) @ coefficients for i in range(0, len(products), step)]
    return torch.cat(parts).reshape(len(X), len(Y))


def trained(d, sigma, rows):
    """Return a kernel re-weighted by a machine nearly all of whose rows are support vectors."""
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, (rows, d))
    y = np.sin(2 * Z.sum(axis=1)) + Z[:, 0] ** 2 + rng.normal(0, 0.2, rows)
    base = SquaredExponential(sigma=sigma)
    fit = fit_svr(base.gram(Z), y, 10.0, 1e-3)
    return reweight(base, Z[fit.alpha != 0], fit.alpha[fit.alpha != 0])


def row(name, kernel):
    """Print one case."""
    d = kernel.dimension
    rng = np.random.default_rng(1)
    X, Y = rng.uniform(-1, 1, (2, POINTS, d))
    tensors = torch.tensor(X), torch.tensor(Y)
    start = time.perf_counter()
    kernel.evaluator.features()
    build = time.perf_counter() - start
    P, Q = kernel.evaluator.prepare(X, Y)
    form = P.form
    ours = [seconds(lambda a=a: gram(Normalised(), kernel.evaluator, *a)) for a in ((X, Y), tensors)]
    plain = seconds(lambda: baseline(kernel, tensors[0][:TIMED_ROWS], tensors[1])) * POINTS / TIMED_ROWS
    size, bare = "", ""
    if isinstance(form, FeatureSum):
        size = len(form.monomials)
        left, right = rng.normal(size=(2, size, POINTS))
        bare = f"{ours[0] / seconds(lambda: left.T @ right):.1f}"
    error = max(P.worst_error(), Q.worst_error())
    print(
        f"{name:22} {d:3} {len(kernel.tables[0].alpha):4} {form.name:18} {size!s:>7} {build:6.2f} {error:8.1e} "
        f"{plain:8.2f} {ours[0]:8.3f} {ours[1]:8.3f} {plain / ours[0]:8.1f} {plain / ours[1]:8.1f} {bare:>6}",
        flush=True,
    )


def growth():
    """Print how the time of a Gram matrix between new points grows with each of n, N, d and tolerance."""
    usual = {"n": 400, "N": 163, "d": 5, "tolerance": 1e-10}
    print(f"\nGrowth from {usual}, sigma = 2; X and Y new in each repeat; MiB besides the result")
    print(f"{'':>10} {'':>8} {'form':18} {'M':>7} {'seconds':>8} {'MiB':>6}")
    for name, values in GROWTH.items():
        for changed in values:
            case = {**usual, name: changed}
            trained_kernel = trained(case["d"], 2.0, case["N"])
            kernel = ReweightedKernel(trained_kernel.base, trained_kernel.tables, tolerance=case["tolerance"])
            measure_growth(name, changed, kernel, case["n"])


def measure_growth(name, changed, kernel, n):
    """Print one line of the growth table."""
    rng = np.random.default_rng(1)
    kernel.evaluator.features()
    draws = iter(rng.uniform(-1, 1, (8, n, kernel.dimension)))
    form = kernel.evaluator.prepare(next(draws), next(draws))[0].form
    took = seconds(lambda: gram(Normalised(), kernel.evaluator, next(draws), next(draws)))
    X, Y = rng.uniform(-1, 1, (2, n, kernel.dimension))
    tracemalloc.start()
    gram(Normalised(), kernel.evaluator, X, Y)
    extra = tracemalloc.get_traced_memory()[1] / 2**20 - n * n / 2**17
    tracemalloc.stop()
    size = len(form.monomials) if isinstance(form, FeatureSum) else ""
    print(f"{name:>10} {changed:>8g} {form.name:18} {size!s:>7} {took:8.3f} {extra:6.0f}", flush=True)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="*", help="saved covariances")
    parser.add_argument("--growth", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    print(
        f"{POINTS} x {POINTS} points; seconds of building features, the baseline, ours with NumPy and PyTorch; ratios"
    )
    print(
        f"{'case':22} {'d':>3} {'N':>4} {'form':18} {'M':>7} {'build':>6} {'error':>8} {'plain':>8} {'NumPy':>8} "
        f"{'PyTorch':>8} {'ratio':>8} {'ratio':>8} {'/bare':>6}"
    )
    for d, sigma, rows in SYNTHETIC:
        kernel = trained(d, sigma, rows)
        row(f"d={d} sigma={sigma:g}", ReweightedKernel(kernel.base, kernel.tables, tolerance=1e-9))
    for file in arguments.files:
        row(file.rsplit("/", 1)[-1].split(".")[0], PretrainedCovariance.load(file).fixed.kernel)
    if arguments.growth:
        growth()


if __name__ == "__main__":
    main()
