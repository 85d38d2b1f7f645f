"""Plots of what the model in use has made of a pre-trained covariance."""

import math
from typing import Any

import pandas as pd
from ax.adapter.base import Adapter
from ax.adapter.cross_validation import CVResult, cross_validate
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.analysis.plotly.utils import Z_SCORE_95_CI
from ax.core.analysis_card import AnalysisCardGroup
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from plotly import graph_objects as go

from mkbo_plugins.ax.diagnostics import kernel_in_words, prior_variances
from mkbo_plugins.ax.fitted import ModelAnalysis, fitted_adapter, models_by_metric

BLACK, BLUE = "#000000", "#0072B2"
"""Colours told apart in grey and by colour-blind people."""


class PretrainedPlot(ModelAnalysis):
    """Plots of the models in use, two for each metric: ``client.compute_analyses([PretrainedPlot()])``.

    One shows predictions of each trial from all others, at the fitted scales, against what was observed, with 95 %
    intervals of observations. The other shows what the prior of the fitted model consists of: the standard deviations,
    in root mean square over the trials, of the stock part and of what each table predicts. Both are in units of the
    metric.
    """

    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> AnalysisCardGroup:
        """Return the cards."""
        fitted = fitted_adapter(experiment, generation_strategy, adapter)
        results = cross_validate(fitted, use_posterior_predictive=True)
        cards = []
        for metric, (outcome, model) in models_by_metric(fitted).items():
            held_out = _held_out(results, outcome)
            unit = float(held_out["observed"].std() / model.train_targets.std())
            cards += [self._predictions(metric, held_out, model), self._amplitudes(metric, model, unit)]
        return self._create_analysis_card_group(
            title="Pre-trained covariance: fit", subtitle="Of the models in use, by metric.", children=cards
        )

    def _predictions(self, metric: str, held_out: pd.DataFrame, model: Any) -> PlotlyAnalysisCard:
        inside = held_out["observed"].between(held_out["lower"], held_out["upper"]).sum()
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=f"{metric}: each trial predicted from the others",
            subtitle=f"{kernel_in_words(model)} {inside} of {len(held_out)} observations lie in their 95 % interval.",
            df=held_out,
            fig=_against_observed(held_out, metric),
        )

    def _amplitudes(self, metric: str, model: Any, unit: float) -> PlotlyAnalysisCard:
        variances = prior_variances(model)
        parts = pd.DataFrame(
            {
                "part": list(variances),
                "standard_deviation": [unit * math.sqrt(max(variance, 0.0)) for variance in variances.values()],
            }
        )
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=f"{metric}: parts of the fitted prior",
            subtitle="Standard deviation of each part, in root mean square over the trials and units of the metric.",
            df=parts,
            fig=_bars(parts, metric),
        )


def _held_out(results: list[CVResult], outcome: str) -> pd.DataFrame:
    """Return a row per trial with its observed value and what the others predict, in units of the metric."""
    rows = []
    for observed, predicted in results:
        if outcome not in observed.data.metric_signatures:
            continue
        i, j = observed.data.metric_signatures.index(outcome), predicted.metric_signatures.index(outcome)
        mean, half = float(predicted.means[j]), Z_SCORE_95_CI * math.sqrt(predicted.covariance[j, j])
        rows.append(
            {
                "arm": observed.arm_name,
                "observed": float(observed.data.means[i]),
                "predicted": mean,
                "lower": mean - half,
                "upper": mean + half,
                "parameters": "<br>".join(f"{name}: {value}" for name, value in observed.features.parameters.items()),
            }
        )
    return pd.DataFrame(rows)


def _against_observed(held_out: pd.DataFrame, metric: str) -> go.Figure:
    ends = [held_out[["observed", "lower"]].min().min(), held_out[["observed", "upper"]].max().max()]
    points = go.Scatter(
        x=held_out["observed"].tolist(),
        y=held_out["predicted"].tolist(),
        error_y={"array": (held_out["upper"] - held_out["predicted"]).tolist(), "color": BLUE, "thickness": 1},
        mode="markers",
        marker={"color": BLUE, "size": 8, "line": {"color": BLACK, "width": 1}},
        text=[f"<b>{arm}</b><br>{values}" for arm, values in zip(held_out["arm"], held_out["parameters"], strict=True)],
        hovertemplate="%{text}<br>observed: %{x}<br>predicted: %{y}<extra></extra>",
    )
    equal = go.Scatter(x=ends, y=ends, mode="lines", line={"color": BLACK, "dash": "dot"}, hoverinfo="skip")
    figure = go.Figure([equal, points])
    figure.update_layout(template="plotly_white", showlegend=False)
    figure.update_xaxes(title=f"observed {metric}")
    figure.update_yaxes(title=f"predicted {metric}, with 95 % interval")
    return figure


def _bars(parts: pd.DataFrame, metric: str) -> go.Figure:
    own = parts["part"] == "stock part"
    bars = go.Bar(
        x=parts["standard_deviation"].tolist(),
        y=parts["part"].tolist(),
        orientation="h",
        text=[f"{value:.3g}" for value in parts["standard_deviation"]],
        textposition="outside",
        cliponaxis=False,
        marker={
            "color": ["white" if stock else BLUE for stock in own],
            "line": {"color": BLACK, "width": 1},
            "pattern": {"shape": ["/" if stock else "" for stock in own], "fgcolor": BLACK},
        },
        hovertemplate="%{y}: %{x}<extra></extra>",
    )
    figure = go.Figure(bars)
    figure.update_layout(template="plotly_white", showlegend=False)
    figure.update_xaxes(title=f"prior standard deviation of {metric}", rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    return figure
