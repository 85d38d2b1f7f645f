"""Measures of a campaign, and paired comparisons of models."""

import numpy as np
import pandas as pd

from mkbo_plugins.experiments.benchmark.campaign import STARTS, Record
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.experiments.regret import trials_to
from mkbo_plugins.report.bootstrap import bootstrap_interval, resampled_means

HARM = 0.01
"""Difference of the area under regret beyond which a model helps or harms."""


def measure(problem: Problem, record: Record) -> dict[str, float]:
    """Return the measures of one campaign; trials count from the first after the starting points."""
    regret = np.minimum.accumulate(problem.regret[list(record.indices)])[STARTS:]
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
