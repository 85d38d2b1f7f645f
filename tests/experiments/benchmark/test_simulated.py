"""The simulated experiment is the one that the paper prints: every formula here is written from its text."""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import kstest

from mkbo_plugins.core.gp.moments import Moments
from mkbo_plugins.experiments.benchmark import paper_models
from mkbo_plugins.experiments.benchmark.lookup import Lookup, train
from mkbo_plugins.experiments.benchmark.models import WITHOUT_FRAME
from mkbo_plugins.experiments.benchmark.paper import EXPERIMENTS, SETTINGS, run_paper
from mkbo_plugins.experiments.benchmark.runner import Plan, make_problem
from mkbo_plugins.experiments.benchmark.simulated import SIMULATED, simulated, target
from mkbo_plugins.space.parameters import FRAMES, Frame

CANDIDATES = 25


def printed_target(x: np.ndarray) -> float:
    norm = math.sqrt(x[0] ** 2 + x[1] ** 2)
    return math.sin(5 * math.pi * norm) * math.exp(-5 * (norm - 1 / 2) ** 2)


def printed_k4(sigma: float, *points: np.ndarray) -> float:
    """Return K_4 of the squared exponential, with the norms squared, without which K_2(x, x) is not 1."""
    product = np.prod(np.stack(points), axis=0).sum()
    return math.exp((2 * product - sum(x @ x for x in points)) / (2 * sigma))


def printed_reweighted(sigma: float, support: np.ndarray, alpha: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return the sum over i, j of alpha_i alpha_j K_4(x_i, x_j, x, x') between points (n, 2)."""
    gram = np.zeros((len(X), len(X)))
    for a, b in np.ndindex(gram.shape):
        products = support * X[a] * X[b]
        norms = (support**2).sum(axis=1)
        exponents = 2 * products @ support.T - norms[:, None] - norms - X[a] @ X[a] - X[b] @ X[b]
        gram[a, b] = alpha @ np.exp(exponents / (2 * sigma)) @ alpha
    return gram


def scaled(X: np.ndarray, frame: Frame) -> np.ndarray:
    return X if frame == "centred" else (X + 1) / 2


@pytest.fixture(scope="module", params=FRAMES)
def lookup(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lookup:
    """Return the experiment with few rows and candidates, since the pair sum here is slow."""
    problem = simulated(3)
    few = replace(
        problem,
        source_points=problem.source_points[:30],
        source_y=problem.source_y[:30],
        pool_points=problem.pool_points[:CANDIDATES],
        outcome=problem.outcome[:CANDIDATES],
        merit=problem.merit[:CANDIDATES],
    )
    return Lookup(few, train(few, "svm_iso", request.param), tmp_path_factory.mktemp("simulated"))


def test_target_is_the_printed_function_to_be_minimised():
    problem = simulated(0)
    printed = np.array([printed_target(x) for x in problem.pool_points])
    np.testing.assert_allclose(target(problem.pool_points), printed, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(problem.outcome, -target(problem.pool_points))
    assert problem.regret[np.argmin(printed)] == 0


def test_candidates_come_near_the_least_value_of_the_square():
    radii = np.linspace(0, math.sqrt(2), 100_001)
    least = min(printed_target(np.array([r, 0.0])) for r in radii)
    assert all(least <= -simulated(member).outcome.max() < least + 1e-3 for member in range(5))


def test_table_is_the_norm_of_a_hundred_uniform_points_anew_in_each_repetition():
    problems = [simulated(member) for member in range(4)]
    for problem in problems:
        assert problem.source_points.shape == (100, 2)
        assert problem.source_y == pytest.approx([math.sqrt(x @ x) for x in problem.source_points], rel=1e-14)
    points = np.concatenate([problem.source_points for problem in problems])
    assert len(np.unique(points)) == points.size
    assert all(kstest(column, "uniform", args=(-1, 2)).pvalue > 0.01 for column in points.T)
    plan = Plan((SIMULATED,), ("stock",), seeds=50)
    assert len({plan.member(SIMULATED, seed) for seed in range(50)}) == 50
    np.testing.assert_array_equal(make_problem(SIMULATED, 2, None).source_points, problems[2].source_points)


def test_data_are_scaled_as_printed_and_left_in_the_other_variant(lookup: Lookup):
    points = lookup.problem.pool_points
    np.testing.assert_allclose(lookup.cov.to_coordinates(points), scaled(points, lookup.cov.frame), atol=1e-15)
    assert lookup.cov.to_coordinates([[-1.0, 1.0]])[0] == pytest.approx(
        [-1.0, 1.0] if lookup.cov.frame == "centred" else [0.0, 1.0]
    )


def test_k4_at_two_equal_pairs_is_the_kernel_of_the_printed_sum(lookup: Lookup):
    cov, x = lookup.cov, np.array([0.3, -0.4])
    alone = printed_reweighted(cov.sigma, cov.support[:1], np.ones(1), x[None])
    assert alone[0, 0] == pytest.approx(printed_k4(cov.sigma, cov.support[0], cov.support[0], x, x), rel=1e-12)


Covariance = Callable[[Lookup, float], np.ndarray]
"""Function of the problem and the logarithm of a squared length scale to the covariance between candidates."""


def _distances(X: np.ndarray) -> np.ndarray:
    return ((X[:, None] - X[None]) ** 2).sum(axis=2)


def _feature_distances(lookup: Lookup) -> np.ndarray:
    cov, X = lookup.cov, lookup.problem.pool_points
    K = printed_reweighted(cov.sigma, cov.support, cov.alpha, scaled(X, cov.frame))
    rows = scaled(lookup.problem.source_points, cov.frame)
    unit = np.mean([printed_reweighted(cov.sigma, cov.support, cov.alpha, x[None])[0, 0] for x in rows])
    return (np.diag(K)[:, None] + np.diag(K) - 2 * K) / unit


def _stock(lookup: Lookup) -> Callable[[float], np.ndarray]:
    squares = _distances(scaled(lookup.problem.pool_points, "unit"))
    return lambda log_sigma: np.exp(-squares / (2 * math.exp(log_sigma)))


def _two_layer(lookup: Lookup) -> Callable[[float], np.ndarray]:
    squares = _feature_distances(lookup)
    return lambda log_sigma: np.exp(-squares / (2 * math.exp(log_sigma)))


def _normalised(lookup: Lookup) -> Callable[[float], np.ndarray]:
    cov, X = lookup.cov, scaled(lookup.problem.pool_points, lookup.cov.frame)
    K = printed_reweighted(cov.sigma, cov.support, cov.alpha, X)
    return lambda log_sigma: K / np.sqrt(np.outer(np.diag(K), np.diag(K)))


def _mixture(lookup: Lookup) -> Callable[[float], np.ndarray]:
    return lambda log_sigma: lookup.mixture_gram


def _deviance(K: np.ndarray, z: np.ndarray, log_noise: float) -> float:
    factor = cho_factor(K + math.exp(log_noise) * np.eye(len(z)), lower=True)
    ones = np.ones(len(z))
    mean = ones @ cho_solve(factor, z) / (ones @ cho_solve(factor, ones))
    return float((z - mean) @ cho_solve(factor, z - mean) + 2 * np.log(np.diag(factor[0])).sum())


@pytest.mark.parametrize(
    ("model", "printed", "free"),
    [
        (paper_models.isotropic, _stock, True),
        (paper_models.two_layer, _two_layer, True),
        (paper_models.normalised, _normalised, False),
        (paper_models.mixture, _mixture, False),
    ],
)
def test_models_have_the_printed_kernel_and_the_most_likely_scale_and_noise(
    lookup: Lookup,
    model: Callable[[Lookup, np.ndarray, np.ndarray], Moments],
    printed: Callable[[Lookup], Callable[[float], np.ndarray]],
    free: bool,
):
    tried = np.random.default_rng(0).choice(CANDIDATES, 10, replace=False)
    z = lookup.problem.outcome[tried] + 0.1 * np.random.default_rng(1).standard_normal(10)
    z = (z - z.mean()) / z.std(ddof=1)
    kernel, blocks = printed(lookup), np.ix_(tried, tried)

    def loss(theta: np.ndarray) -> float:
        return _deviance(kernel(theta[0])[blocks], z, theta[1])

    lowest, noise = (2 * math.log(0.02), math.log(1e-4)), math.log(10)
    bounds = [(lowest[0], 2 * math.log(10)) if free else (0.0, 0.0), (lowest[1], noise)]
    starts = [np.array([s, v]) for s in np.linspace(*bounds[0], 12 if free else 1) for v in (-7.0, -3.0, 0.0)]
    best = min((minimize(loss, start, bounds=bounds, method="L-BFGS-B") for start in starts), key=lambda fit: fit.fun)
    moments = model(lookup, tried, z)

    sigma, noise = best.x[0], math.exp(best.x[1])
    assert moments.noise == pytest.approx(noise, rel=1e-2)
    K = kernel(sigma)
    solve = cho_factor(K[blocks] + noise * np.eye(10))
    ones = np.ones(10)
    mean = ones @ cho_solve(solve, z) / (ones @ cho_solve(solve, ones))
    np.testing.assert_allclose(moments.mean, mean + K[:, tried] @ cho_solve(solve, z - mean), atol=1e-3)
    variance = np.diag(K) - np.einsum("ij,ji->i", K[:, tried], cho_solve(solve, K[tried]))
    np.testing.assert_allclose(moments.variance, variance, atol=1e-3)


def test_a_killed_run_goes_on_and_frames_share_what_does_not_depend_on_them(tmp_path: Path):
    code = (
        "from pathlib import Path; from mkbo_plugins.experiments.benchmark.paper import run_paper\n"
        f"run_paper(Path({str(tmp_path / 'killed')!r}), None, seeds=1, trials=2, n_jobs=1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    campaigns = tmp_path / "killed" / "campaigns"
    while process.poll() is None and len(list(campaigns.glob("*.json"))) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL) if os.name == "posix" else process.kill()
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in campaigns.glob("*.json")}
    assert kept
    resumed = run_paper(tmp_path / "killed", None, seeds=1, trials=2, n_jobs=1)
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())
    shutil.copytree(tmp_path / "killed" / "knowledge", tmp_path / "whole" / "knowledge")
    whole = run_paper(tmp_path / "whole", None, seeds=1, trials=2, n_jobs=1)
    pd.testing.assert_frame_equal(resumed.runs.drop(columns="seconds"), whole.runs.drop(columns="seconds"))

    models = EXPERIMENTS[SIMULATED].models
    alike = [model for model in models if model in WITHOUT_FRAME]
    assert len(list(campaigns.glob("*.json"))) == len(models) * len(SETTINGS) - 2 * len(alike)
    runs = whole.runs.set_index(["acquisition", "model", "frame"])["area"].unstack("frame")
    assert (runs["centred"] == runs["unit"])[[index[1] in alike for index in runs.index]].all()
