"""Measures of a campaign, and paired comparisons of models."""

import numpy as np
import pandas as pd

from mkbo_plugins.experiments.benchmark.campaign import STARTS, Record
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.experiments.regret import trials_to
from mkbo_plugins.report.bootstrap import bootstrap_interval, resampled_means

HARM = 0.01
"""Difference of the area under regret beyond which a model helps or harms."""


RESAMPLES = 2000
"""Draws of an interval over problems."""


def measure(problem: Problem, record: Record, uncounted: int = STARTS) -> dict[str, float]:
    """Return the measures of one campaign; trials count from the first after the uncounted ones."""
    regret = np.minimum.accumulate(problem.regret[list(record.indices)])[uncounted:]
    return {
        "area": float(regret.mean()),
        "trials": float(trials_to(regret[None], problem.goal)[0]),
        **{f"regret_{trial}": float(regret[min(trial, len(regret)) - 1]) for trial in (1, 5, 10, 30)},
        "log_density_10": record.log_density[min(10, len(record.log_density) - 1)] if record.log_density else np.nan,
        "seconds": float(np.median(record.seconds)) if record.seconds else 0.0,
    }


def ratio_interval(values: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
    """Return the ratio of means of paired values (n,) and a 95 % interval, by resampling pairs."""
    low, high = np.quantile(resampled_means(values) / resampled_means(reference), [0.025, 0.975])
    return float(values.mean() / reference.mean()), float(low), float(high)


def compare(runs: pd.DataFrame, reference: str = "stock") -> pd.DataFrame:
    """Return one row per problem and model: means, and paired comparisons with the reference model.

    Parameters
    ----------
    runs
        What `runner.run` returns.
    reference
        Name of the model compared with.
    """
    rows = []
    for problem, group in runs.groupby("problem", sort=False):
        wide = {name: group.pivot(index="seed", columns="model", values=name) for name in ("area", "trials")}
        ranks = wide["area"].rank(axis=1).mean()
        for model in wide["area"].columns:
            area, base = wide["area"][model].to_numpy(), wide["area"][reference].to_numpy()
            low, high = bootstrap_interval(area - base)
            area_low, area_high = bootstrap_interval(area)
            ratio, ratio_low, ratio_high = ratio_interval(
                wide["trials"][model].to_numpy(), wide["trials"][reference].to_numpy()
            )
            own = group[group["model"] == model]
            rows.append(
                {
                    "problem": problem,
                    "model": model,
                    "seeds": len(area),
                    "area": area.mean(),
                    "area_low": area_low,
                    "area_high": area_high,
                    "difference": (area - base).mean(),
                    "difference_low": low,
                    "difference_high": high,
                    "harmed": np.mean(area > base + HARM),
                    "trials": wide["trials"][model].mean(),
                    "ratio": ratio,
                    "ratio_low": ratio_low,
                    "ratio_high": ratio_high,
                    "rank": ranks[model],
                    **own[["regret_1", "regret_5", "regret_10", "regret_30", "log_density_10", "seconds"]].mean(),
                }
            )
    return pd.DataFrame(rows)


def over_problems(runs: pd.DataFrame, reference: str = "stock") -> pd.DataFrame:
    """Return one row per model: how the area under its regret differs from that of another model, over all problems.

    Columns are the mean difference with the ends of two 95 % intervals, ``seeds_low`` and ``seeds_high`` by resampling
    seeds within problems, ``problems_low`` and ``problems_high`` by resampling problems too; the shares of seeds harmed
    by more than `HARM`; and the numbers of problems whose own interval lies below or above 0.

    Parameters
    ----------
    runs
        What `runner.run` returns, with the same number of seeds for each problem.
    reference
        Name of the model compared with.
    """
    wide = runs.pivot(index=["problem", "seed"], columns="model", values="area")
    rng = np.random.default_rng(0)
    rows = []
    for model in wide.columns:
        difference = (wide[model] - wide[reference]).unstack("seed")
        values = np.array([row[np.isfinite(row)] for row in difference.to_numpy()])
        count, seeds = values.shape
        means = np.empty((RESAMPLES, count))
        for number, row in enumerate(values):
            means[:, number] = row[rng.integers(0, seeds, (RESAMPLES, seeds))].mean(axis=1)
        drawn = np.take_along_axis(means, rng.integers(0, count, (RESAMPLES, count)), axis=1)
        low, high = np.quantile(means, [0.025, 0.975], axis=0)
        rows.append(
            {
                "model": model,
                "difference": values.mean(),
                **_ends("seeds", means),
                **_ends("problems", drawn),
                "seeds_harmed": np.mean(values > HARM),
                "problems_helped": int((high < 0).sum()),
                "problems_harmed": int((low > 0).sum()),
            }
        )
    return pd.DataFrame(rows).set_index("model").sort_values("difference")


def _ends(name: str, means: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(means.mean(axis=1), [0.025, 0.975])
    return {f"{name}_low": float(low), f"{name}_high": float(high)}


def overall(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return means over problems by model, best mean rank first.

    Those of ratios are geometric. Of log densities it is the median, since on a few problems the density of every model
    with a small noise is tiny.
    """
    logarithms = comparison.assign(ratio=np.log(comparison["ratio"]))
    by_model = logarithms.groupby("model")
    means = by_model[["rank", "difference", "harmed", "ratio", "seconds"]].mean()
    densities = by_model["log_density_10"].median()
    return means.assign(ratio=np.exp(means["ratio"]), log_density_10=densities).sort_values("rank")
