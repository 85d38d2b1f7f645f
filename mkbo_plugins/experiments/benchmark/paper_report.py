"""What the paper's experiments gave: tidy tables, a Markdown report, and figures laid out as the paper's."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mkbo_plugins.experiments.benchmark.models import WITHOUT_FRAME
from mkbo_plugins.experiments.benchmark.paper import (
    DEFAULT,
    DEFAULT_STOCK,
    EXPERIMENTS,
    MIXTURE,
    NORMALISED,
    SETTINGS,
    STOCK,
    TWO_LAYER,
    PaperResults,
    Setting,
    reference,
)
from mkbo_plugins.experiments.benchmark.phases import LEAST_FRACTION, PhaseRegression
from mkbo_plugins.experiments.benchmark.report import markdown_table
from mkbo_plugins.experiments.benchmark.simulated import simulated, target
from mkbo_plugins.files import write_atomically
from mkbo_plugins.plots.style import STYLES, finish, save_figure
from mkbo_plugins.report.bootstrap import bootstrap_interval

MODEL_NAMES = {
    STOCK: "standard SE",
    MIXTURE: "kernel mixture",
    TWO_LAYER: "two-layer re-weighted SE",
    NORMALISED: "normalised re-weighted SE",
    DEFAULT: "default form",
    DEFAULT_STOCK: "default form's stock",
}
MODEL_STYLES = dict(zip(MODEL_NAMES, (*STYLES, ("#CC79A7", "-", "P"), ("0.6", "--", "v")), strict=True))
ACQUISITION_NAMES = {"ei": "EI", "ucb": "GP-UCB"}
FRAME_NAMES = {"centred": "inputs in [-1, 1]", "unit": "inputs in [0, 1]"}
POSITIVE, NEGATIVE = "#0072B2", "#D55E00"


def write_paper(results: PaperResults, phases: PhaseRegression | None, out: Path, heading: str) -> str:
    """Write tables and figures to a folder, and return the Markdown text.

    Parameters
    ----------
    results
        What `run_paper` returned.
    phases
        The regression behind the alloys' utility; None where they were left out.
    out
        Folder.
    heading
        What was run, in one sentence.
    """
    write_atomically(out / "paper_runs.csv", results.runs.to_csv(index=False).encode())
    write_atomically(out / "paper_comparison.csv", results.comparison.to_csv(index=False).encode())
    save_figure(target_figure(), out / "paper_target.png")
    save_figure(convergence_figure(results.curves), out / "paper_convergence.png")
    text = markdown(results.comparison, heading)
    if phases is not None:
        write_atomically(out / "paper_phases.csv", _phase_table(phases).to_csv().encode())
        save_figure(phase_figure(phases), out / "paper_phases.png")
        text += _phase_text(phases)
    write_atomically(out / "paper.md", text.encode())
    return text


def markdown(comparison: pd.DataFrame, heading: str) -> str:
    """Return the report on the campaigns as text, a table for each experiment."""
    parts = [f"# The paper's three experiments\n\n{heading}\n"]
    for name, experiment in EXPERIMENTS.items():
        chosen = comparison[comparison["experiment"] == name]
        rows = [_row(row) for row in chosen.to_dict("records") if not _repeated(row)]
        if rows:
            header = ["setting", "model", "area", "minus its stock", "trials", "at the end"]
            parts.append(
                f"\n## {name.capitalize()}\n\n{experiment.setup}\n\nThe paper reports: {experiment.reported}\n\n"
                f"Here, with {chosen['seeds'].max()} repetitions:\n\n{markdown_table(header, rows)}\n"
            )
    parts.append(
        "\nArea: mean normalised regret over the trials; minus that of the standard SE, for the default form that of "
        "its own stock, with the share of repetitions worse by more than 0.01 in brackets. Trials: to the target, over "
        "those of the same model. At the end: normalised regret after the last trial. 95 % intervals are from "
        "resampling repetitions, which are paired. Noise and scales are refitted before each trial. A setting that "
        "names no frame is of a model to which frames make no difference.\n"
    )
    return "".join(parts)


def _repeated(row: Mapping[Hashable, Any]) -> bool:
    """Return whether a row is one of another frame again."""
    return row["model"] in WITHOUT_FRAME and row["frame"] != SETTINGS[0].frame


def _row(row: Mapping[Hashable, Any]) -> list[str]:
    frame = "" if row["model"] in WITHOUT_FRAME else f", {FRAME_NAMES[row['frame']]}"
    own = reference(row["model"]) == row["model"]
    difference = (
        f"{row['difference']:+.3f} ({row['difference_low']:+.3f}, {row['difference_high']:+.3f}) [{row['harmed']:.2f}]"
    )
    return [
        f"{ACQUISITION_NAMES[row['acquisition']]}{frame}",
        MODEL_NAMES[row["model"]],
        f"{row['area']:.3f} ({row['area_low']:.3f}, {row['area_high']:.3f})",
        "" if own else difference,
        "" if own else f"{row['ratio']:.2f} ({row['ratio_low']:.2f}, {row['ratio_high']:.2f})",
        f"{row['regret_30']:.3f}",
    ]


def target_figure() -> Figure:
    """Return the function that the simulated experiment minimises, with the table's points of its first repetition."""
    axis = np.linspace(-1.0, 1.0, 201)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    figure = Figure(figsize=(5.0, 4.2), layout="constrained")
    panel = figure.subplots()
    surface = panel.pcolormesh(
        axis, axis, target(grid.reshape(-1, 2)).reshape(201, 201), cmap="viridis", shading="nearest"
    )
    figure.colorbar(surface, label="f(x)")
    panel.plot(*simulated(0).source_points.T, "o", color="white", markeredgecolor="black", markersize=3, label="table")
    panel.set_aspect("equal")
    finish(panel, "x₁", "x₂")
    figure.legend(loc="outside upper center", frameon=False)
    return figure


def convergence_figure(curves: Mapping[tuple[str, Setting], Mapping[str, np.ndarray]]) -> Figure:
    """Return the mean loss over trials with 95 % intervals: a row for each experiment, a column for each setting."""
    names = list(dict.fromkeys(name for name, _ in curves))
    figure = Figure(figsize=(11.5, 0.9 + 2.4 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), len(SETTINGS), sharex=True, sharey="row", squeeze=False)
    for row, name in zip(panels, names, strict=True):
        experiment = EXPERIMENTS[name]
        for panel, setting in zip(row, SETTINGS, strict=True):
            for model, values in curves[name, setting].items():
                colour, line, marker = MODEL_STYLES[model]
                trials = np.arange(values.shape[1])
                panel.fill_between(trials, *bootstrap_interval(values), color=colour, alpha=0.15, linewidth=0)
                panel.plot(
                    trials,
                    values.mean(axis=0),
                    color=colour,
                    linestyle=line,
                    marker=marker,
                    markevery=5,
                    markersize=4,
                    label=MODEL_NAMES[model],
                )
            panel.set_yscale(experiment.scale)
            panel.yaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
            finish(panel, "", "")
        row[0].set_ylabel(f"{name}\n{experiment.label}")
    for panel, setting in zip(panels[0], SETTINGS, strict=True):
        panel.set_title(f"{ACQUISITION_NAMES[setting.acquisition]}, {FRAME_NAMES[setting.frame]}", fontsize=9)
    figure.supxlabel("trials after the starting points", fontsize=10)
    entries = {
        label: handle for row in panels for handle, label in zip(*row[0].get_legend_handles_labels(), strict=True)
    }
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def phase_figure(phases: PhaseRegression) -> Figure:
    """Return bars of the coefficients of the phases, and of their weights by unit of phase fraction."""
    names = [f"{name} ({count})" for name, count in phases.alloys[::-1].items()]
    figure = Figure(figsize=(8, 0.24 * len(names) + 1.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for panel, values, label in (
        (left, phases.coefficients, "coefficient of the fraction over\nits largest in the table, MPa"),
        (right, phases.weights / 1000, "weight, GPa by unit of fraction\n(logarithmic beyond 1)"),
    ):
        turned = values[::-1]
        panel.barh(names, turned, color=np.where(turned > 0, POSITIVE, NEGATIVE))
        panel.axvline(0, color="black", linewidth=0.8)
        panel.margins(y=0.02)
        finish(panel, label, "")
    right.set_xscale("symlog", linthresh=1.0)
    right.xaxis.set_major_formatter("{x:g}")
    left.set_ylabel("phase (number of alloys that have it)")
    return figure


def _phase_table(phases: PhaseRegression) -> pd.DataFrame:
    return pd.DataFrame(
        {"coefficient_MPa": phases.coefficients, "weight_MPa": phases.weights, "alloys": phases.alloys}
    ).rename_axis("phase")


def _phase_text(phases: PhaseRegression) -> str:
    rows = [
        [row["phase"], f"{row['coefficient_MPa']:+.0f}", f"{row['weight_MPa']:+.0f}", str(row["alloys"])]
        for row in _phase_table(phases).reset_index().to_dict("records")
    ]
    table = markdown_table(["phase", "coefficient, MPa", "weight, MPa by unit of fraction", "alloys"], rows)
    return (
        "\n### Weights of the phases in the utility\n\nRidge regression of yield strength on phase fractions over "
        f"their maxima. Rank correlation with held-out strengths, five-fold: {phases.rank_correlation:.2f}; of a "
        f"regression on compositions: {phases.by_composition:.2f}. Alloys: those that have at least "
        f"{LEAST_FRACTION:g} of the phase."
        f"\n\n{table}\n"
    )
