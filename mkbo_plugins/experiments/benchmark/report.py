"""What a benchmark found: tidy tables for programs, a Markdown table and plots for people."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from mkbo_plugins.experiments.benchmark.metrics import overall
from mkbo_plugins.files import write_atomically
from mkbo_plugins.plots.style import save_figure
from mkbo_plugins.report.bootstrap import bootstrap_interval

COLOURS = ("black", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "0.6")
LINES = ("--", "-", "-.", ":")
DPI = 130
COLUMNS = 4

REFERENCES = ("stock", "random")
"""Models that others are compared with."""


def write_report(
    comparison: pd.DataFrame,
    differences: pd.DataFrame,
    curves: Mapping[str, Mapping[str, np.ndarray]],
    out: Path,
    heading: str,
) -> str:
    """Write the comparison and its plots to a folder, and return the means over problems as Markdown text.

    Parameters
    ----------
    comparison
        What `metrics.compare` returns.
    differences
        What `metrics.over_problems` returns.
    curves
        Regret (seeds, trials) by problem and model.
    out
        Folder.
    heading
        What was run, in one sentence.
    """
    write_atomically(out / "comparison.csv", comparison.to_csv(index=False).encode())
    write_atomically(out / "differences.csv", differences.to_csv().encode())
    write_atomically(out / "report.md", markdown(comparison, differences, heading).encode())
    save_figure(regret_figure(curves), out / "regret.png", DPI)
    save_figure(rank_figure(comparison), out / "rank.png", DPI)
    if set(comparison["model"]) - {*REFERENCES}:
        save_figure(forest_figure(comparison), out / "ratio.png", DPI)
    return summary(comparison, differences, heading)


def summary(comparison: pd.DataFrame, differences: pd.DataFrame, heading: str) -> str:
    """Return the means over problems as text."""
    table = overall(comparison)
    rows = [
        [str(model), *(f"{v:.3f}" for v in values)] for model, values in zip(table.index, table.values, strict=True)
    ]
    means = markdown_table(["model", *table.columns], rows)
    return (
        f"# Benchmark\n\n{heading}\n\n## Mean over problems\n\n{means}\n\n"
        "## Area under normalised regret minus that of the stock model, over all problems\n\n"
        "With 95 % intervals by resampling paired seeds, and problems too; the share of seeds worse by more than 0.01; "
        "and the problems whose own interval lies below or above 0.\n\n"
        f"{_over_problems(differences)}\n"
    )


def _over_problems(differences: pd.DataFrame) -> str:
    header = ["model", "difference", "seeds", "problems too", "seeds harmed", "problems helped", "problems harmed"]
    rows = [
        [
            str(row.Index),
            f"{row.difference:+.3f}",
            f"{row.seeds_low:+.3f}, {row.seeds_high:+.3f}",
            f"{row.problems_low:+.3f}, {row.problems_high:+.3f}",
            f"{row.seeds_harmed:.2f}",
            str(row.problems_helped),
            str(row.problems_harmed),
        ]
        for row in differences.itertuples()
        if row.Index != "stock"
    ]
    return markdown_table(header, rows)


def markdown(comparison: pd.DataFrame, differences: pd.DataFrame, heading: str) -> str:
    """Return the report as text: a table of means, one of area differences to the stock model, one of ratios."""
    difference = _table(
        comparison,
        lambda row: f"{row.difference:+.3f} ({row.difference_low:+.3f}, {row.difference_high:+.3f}) [{row.harmed:.2f}]",
    )
    ratio = _table(comparison, lambda row: f"{row.ratio:.2f} ({row.ratio_low:.2f}, {row.ratio_high:.2f})")
    return (
        f"{summary(comparison, differences, heading)}\n"
        "## Area under normalised regret minus that of the stock model\n\n"
        "With a 95 % interval by resampling paired seeds, and the share of seeds worse by more than 0.01.\n\n"
        f"{difference}\n\n## Trials to target over those of the stock model\n\n{ratio}\n"
    )


def _table(comparison: pd.DataFrame, cell: Callable[[pd.Series], str]) -> str:
    models = [name for name in dict.fromkeys(comparison["model"]) if name != "stock"]
    rows = []
    for problem, group in comparison.groupby("problem", sort=False):
        by_model = group.set_index("model")
        rows.append([str(problem), f"{float(by_model['area']['stock']):.3f}", *(cell(by_model.loc[m]) for m in models)])
    return markdown_table(["problem", "area of stock", *models], rows)


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table of texts in Markdown."""
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [header, ["---"] * len(header), *rows])


def regret_figure(curves: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Return mean normalised regret over trials with 95 % intervals, a panel for each problem."""
    rows = -(-len(curves) // COLUMNS)
    figure = Figure(figsize=(3.2 * COLUMNS, 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for panel, (problem, by_model) in zip(panels, curves.items(), strict=False):
        for number, (model, values) in enumerate(by_model.items()):
            colour, line = COLOURS[number % len(COLOURS)], LINES[number % len(LINES)]
            trials = np.arange(values.shape[1])
            panel.fill_between(trials, *bootstrap_interval(values), color=colour, alpha=0.12, linewidth=0)
            panel.plot(trials, values.mean(axis=0), color=colour, linestyle=line, label=model)
        panel.set_title(problem, fontsize=9)
        panel.set_ylim(bottom=0)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(curves) :]:
        panel.set_visible(False)
    figure.supxlabel("trials after the starting points")
    figure.supylabel("normalised regret")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)
    return figure


def rank_figure(comparison: pd.DataFrame) -> Figure:
    """Return the rank by area under regret of each model: every problem a dot, the mean a bar."""
    order = list(overall(comparison).index)[::-1]
    figure = Figure(figsize=(5.5, 0.35 * len(order) + 1), layout="constrained")
    axes = figure.subplots()
    for height, model in enumerate(order):
        ranks = comparison.loc[comparison["model"] == model, "rank"]
        axes.plot(ranks, np.full(len(ranks), height), "o", color="#0072B2", alpha=0.35, markersize=4)
        axes.plot(ranks.mean(), height, "|", color="black", markersize=16, markeredgewidth=2)
    axes.set_yticks(range(len(order)), order)
    axes.set_xlabel("mean rank over seeds (1 is best)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def forest_figure(comparison: pd.DataFrame) -> Figure:
    """Return trials to target over those of the stock model with intervals, a panel for each model."""
    models = [name for name in overall(comparison).index if name not in REFERENCES]
    problems = list(dict.fromkeys(comparison["problem"]))[::-1]
    figure = Figure(figsize=(2 + 1.7 * len(models), 0.28 * len(problems) + 1.2), layout="constrained")
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for panel, model in zip(panels, models, strict=True):
        rows = comparison[comparison["model"] == model].set_index("problem").loc[problems]
        ends = np.abs(rows[["ratio_low", "ratio_high"]].to_numpy().T - rows["ratio"].to_numpy())
        panel.errorbar(rows["ratio"], range(len(problems)), xerr=ends, fmt="s", color="#0072B2", markersize=4)
        panel.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
        panel.set_xscale("log")
        panel.set_title(model, fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(problems)), problems)
    figure.supxlabel("trials to target over those of the stock model (below 1 is better)")
    return figure
