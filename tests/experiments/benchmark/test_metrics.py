"""Measures and comparisons, against cases whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins.experiments.benchmark.campaign import Record
from mkbo_plugins.experiments.benchmark.metrics import compare, measure, over_problems, overall, ratio_interval
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.space.space import ParameterSpace


def pool(merit: np.ndarray) -> Problem:
    space = ParameterSpace.from_dict({"x": (0.0, 1.0)})
    points = np.linspace(0, 1, len(merit))[:, None]
    return Problem("p", space, points, merit, points, merit, merit)


def test_regret_is_zero_at_the_best_and_one_at_the_worst():
    assert pool(np.array([3.0, 1.0, 5.0])).regret.tolist() == [0.5, 1.0, 0.0]


def test_a_goal_that_random_search_reaches_at_once_is_made_harder():
    easy = np.linspace(0, 1, 100) ** 0.01  # most candidates are within 2 % of the best
    problem = pool(easy)
    assert (problem.regret <= 0.02).sum() > 50
    assert (problem.regret <= problem.goal).sum() == 1


def test_starting_points_do_not_count():
    problem = pool(np.arange(100.0))
    indices = (0, 1, 2, 50, 99)
    found = measure(problem, Record(indices, tuple(problem.outcome[list(indices)])))
    assert found["trials"] == 2
    assert found["area"] == pytest.approx(np.mean([49 / 99, 0.0]))
    assert found["regret_1"] == pytest.approx(49 / 99)


def runs(areas: dict[str, list[float]]) -> pd.DataFrame:
    common = {"problem": "p", "log_density_10": 0.0, "seconds": 0.0} | dict.fromkeys(
        [f"regret_{t}" for t in (1, 5, 10, 30)], 0.0
    )
    return pd.DataFrame(
        [
            {"model": model, "seed": seed, "area": area, "trials": 10 * area, **common}
            for model, values in areas.items()
            for seed, area in enumerate(values)
        ]
    )


def test_starting_points_that_a_method_chose_count():
    problem = pool(np.arange(100.0))
    indices = (50, 99)
    found = measure(problem, Record(indices, tuple(problem.outcome[list(indices)])), 0)
    assert found["trials"] == 2
    assert found["area"] == pytest.approx(49 / 99 / 2)


def test_intervals_over_problems_are_wider_where_problems_differ():
    rng = np.random.default_rng(0)
    effects = {f"p{number}": effect for number, effect in enumerate([-0.2, -0.1, 0.0, 0.0, 0.1])}
    both = []
    for problem, effect in effects.items():
        stock = rng.uniform(size=12)
        areas = {"stock": stock, "model": stock + effect + rng.normal(0, 0.01, 12)}
        both.append(runs({name: list(values) for name, values in areas.items()}).assign(problem=problem))
    found = over_problems(pd.concat(both)).loc["model"]
    assert found["difference"] == pytest.approx(-0.04, abs=0.01)
    assert found["seeds_high"] - found["seeds_low"] < 0.01
    assert found["problems_low"] < -0.09 < 0.02 < found["problems_high"]
    assert found["problems_helped"] >= 2
    assert found["problems_harmed"] >= 1
    assert found["seeds_harmed"] == pytest.approx(0.2 + 2 / 5 * 0.16, abs=0.1)


def test_comparison_is_paired():
    stock = [0.1, 0.5, 0.9]
    found = compare(runs({"stock": stock, "better": [a - 0.05 for a in stock], "worse": [a + 0.02 for a in stock]}))
    found = found.set_index("model")
    assert found.loc["better", "difference_high"] == pytest.approx(-0.05)
    assert found.loc["worse", "harmed"] == 1
    assert found.loc["better", "harmed"] == 0
    assert list(overall(found.reset_index()).index) == ["better", "stock", "worse"]


def test_ratio_of_equal_values_is_one_without_doubt():
    values = np.array([3.0, 8.0, 30.0])
    assert ratio_interval(values, values) == (1.0, 1.0, 1.0)


def test_ratios_have_a_geometric_mean_and_log_densities_a_median():
    shared = {"model": "moment", "rank": 1.0, "difference": 0.0, "harmed": 0.0, "seconds": 0.1}
    values = [(0.5, -1.0), (1.0, -60.0), (2.0, -2.0)]
    found = overall(
        pd.DataFrame([{"problem": i, "ratio": r, "log_density_10": d} | shared for i, (r, d) in enumerate(values)])
    )
    assert found.loc["moment", "ratio"] == pytest.approx(1.0)
    assert found.loc["moment", "log_density_10"] == -2.0
