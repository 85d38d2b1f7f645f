"""What the model in use has made of a pre-trained covariance."""

import copy
from typing import Any

import pandas as pd
import torch
from ax.adapter.base import Adapter
from ax.adapter.cross_validation import compute_diagnostics, cross_validate
from ax.api.client import Client
from ax.core.analysis_card import AnalysisCard
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient
from ax.utils.stats.model_fit_stats import CORRELATION_COEFFICIENT, LOG_LIKELIHOOD
from torch import Tensor

from mkbo_plugins.ax.fitted import ModelAnalysis, fitted_adapter, models_by_metric
from mkbo_plugins.botorch import PretrainedKernel, table_verdict
from mkbo_plugins.botorch.evidence import covariance_inputs
from mkbo_plugins.core.gp.bayes_factor import Answer
from mkbo_plugins.covariance.pretrained import TrainedCovariance
from mkbo_plugins.errors import MkboError, TableError

ADDED = ("moment_scale", "link_scale")
"""Variances of the terms that are functions of the decision function alone."""

_LEAVE_ONE_OUT = {"loo_correlation": CORRELATION_COEFFICIENT, "loo_log_likelihood": LOG_LIKELIHOOD}


def diagnose(client: Client | AxClient) -> pd.DataFrame:
    """Return one row per metric on the model of the client's current strategy, fitted to all data so far.

    Columns are: ``kernel``, the class of the covariance function really in use; ``form`` and ``table``, of the
    pre-trained covariance; ``output_scale``, ``moment_scale`` and ``feature_scale``, its fitted scales a, b and s in
    units of the standardised metric, ``similarity_scale``, ``link_scale`` and ``link_width``, e, c and t of forms that
    have them; ``moment_share`` and ``link_share``, the shares of the prior variance at the trials that b g g' and the
    link have; ``feature_effect``, by how much the feature distance lowers correlations between trials, 0 for the stock
    model and at most 1; ``noise``, the noise variance; ``loo_correlation`` and ``loo_log_likelihood``, how
    leave-one-out predictions at the fitted scales agree with the metric; ``table_helps``, ``log_evidence_ratio``,
    ``form_log_evidence_ratio`` and ``verdict``, whether the table helps this metric and the form in use suits it, by
    the evidence of models with the table and of that form against the stock model, as `PretrainedCovariance.verdict`
    judges it. Of several tables, each has its own scales, share and effect, as in ``moment_scale_2``.

    Raises
    ------
    MkboError
        If no model can be fitted yet.
    """
    strategy = client._maybe_generation_strategy if isinstance(client, Client) else client._generation_strategy
    if strategy is None:
        raise MkboError("the client has no generation strategy yet; call use_pretrained first")
    return _table(fitted_adapter(client._experiment, strategy))


class PretrainedDiagnostics(ModelAnalysis):
    """The card of `diagnose`, for ``client.compute_analyses([PretrainedDiagnostics()])``."""

    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> AnalysisCard:
        """Return the card."""
        table = _table(fitted_adapter(experiment, generation_strategy, adapter))
        covered = [row for row in table.itertuples() if row.form != "stock"]
        used = ", ".join(f"{row.metric} ({row.form}, {row.table})" for row in covered)
        said = table.dropna(subset="verdict") if "verdict" in table else table.iloc[:0]
        helps = [f"Does the table help {row.metric}? {row.verdict}." for row in said.itertuples()]
        return self._create_analysis_card(
            title="Pre-trained covariance",
            subtitle=" ".join([f"In use for {used}.", *helps]) if used else "Not in use: the models are Ax's own.",
            df=table,
        )


def _table(adapter: Any) -> pd.DataFrame:
    fit = compute_diagnostics(cross_validate(adapter))
    rows = []
    for name, (outcome, model) in models_by_metric(adapter).items():
        row: dict[str, Any] = {"metric": name, "kernel": type(model.covar_module).__name__}
        row |= {**_of_kernel(model), "noise": float(model.likelihood.noise.detach().mean())}
        row |= {column: fit[measure].get(outcome) for column, measure in _LEAVE_ONE_OUT.items()}
        rows.append(row | _of_verdict(model))
    return pd.DataFrame(rows)


@torch.no_grad()
def _of_kernel(model: Any) -> dict[str, Any]:
    kernel = model.covar_module
    if not isinstance(kernel, PretrainedKernel):
        return {"form": "stock", "table": None}
    X = covariance_inputs(model)
    scales = kernel.form.hyperparameters
    row: dict[str, Any] = {
        "form": kernel.form_name,
        "table": f"{' + '.join(kernel.cov.targets)}, {kernel.cov.fingerprint[:12]}",
        **{name: float(kernel.scale(name)) for name in scales},
    }
    added, total = _added_variances(kernel, X)
    row |= {name.replace("scale", "share"): variance / total for name, variance in added.items()}
    distances = _scales_of_tables(kernel, "feature_scale") if len(X) > 1 else []
    if distances:
        correlation = _mean_correlation(kernel, X)
        without = {name: _mean_correlation(_with_scale(kernel, name, 1e20), X) for name in distances}
        row |= {name.replace("scale", "effect"): float(1 - correlation / other) for name, other in without.items()}
    return row


def _of_verdict(model: Any) -> dict[str, Any]:
    kernel = model.covar_module
    if not isinstance(kernel, PretrainedKernel) or not isinstance(kernel.cov, TrainedCovariance):
        return {}
    try:
        verdict = table_verdict(model)
    except TableError as error:
        return {"table_helps": str(Answer.UNSURE), "verdict": f"{Answer.UNSURE}: {error}"}
    return {
        "table_helps": str(verdict.answer),
        "log_evidence_ratio": verdict.log_ratio,
        "form_log_evidence_ratio": verdict.form_log_ratio,
        "verdict": str(verdict),
    }


def kernel_in_words(model: Any) -> str:
    """Return a sentence on the covariance function that a model really uses."""
    row = _of_kernel(model)
    if row["form"] == "stock":
        return f"The covariance is Ax's own, {type(model.covar_module).__name__}."
    effects = [value for name, value in row.items() if name.startswith("feature_effect")]
    lowered = [f"{value:.0%}" for value in effects]
    near = f" Its feature distance lowers correlations between trials by {' and '.join(lowered)}." if lowered else ""
    return f"The covariance is pre-trained ({row['form']}, {row['table']}).{near}"


@torch.no_grad()
def prior_variances(model: Any) -> dict[str, float]:
    """Return the mean prior variance at the trials by part of the covariance, of the standardised metric."""
    kernel, X = model.covar_module, covariance_inputs(model)
    if not isinstance(kernel, PretrainedKernel):
        return {"stock part": float(kernel(X, diag=True).mean())}
    added, total = _added_variances(kernel, X)
    rest = "stock part" if kernel.form.uses_stock else "pre-trained part"
    found = {rest: total - sum(added.values())}
    for name, variance in added.items():
        index = kernel.form.scales[name].table
        table = f"table{'' if index is None else f' {index + 1}'}: {kernel.cov.targets[index or 0]}"
        found[table] = found.get(table, 0.0) + variance
    return found


def _added_variances(kernel: PretrainedKernel, X: Tensor) -> tuple[dict[str, float], float]:
    """Return the mean prior variance of each term that decision functions add, by its scale, and of everything."""
    total = kernel(X, diag=True).mean()
    names = _scales_of_tables(kernel, *ADDED)
    return {name: float(total - _with_scale(kernel, name, 1e-20)(X, diag=True).mean()) for name in names}, float(total)


def _scales_of_tables(kernel: PretrainedKernel, *plain: str) -> list[str]:
    """Return names of the scales of each table that the form has."""
    return [name for name, key in kernel.form.scales.items() if key.name in plain]


def _with_scale(kernel: PretrainedKernel, name: str, value: float) -> PretrainedKernel:
    other = copy.deepcopy(kernel)
    other.set_scale(name, value)
    return other


def _mean_correlation(kernel: PretrainedKernel, X: Tensor) -> Tensor:
    """Return the sum of covariances between different rows without what decision functions add."""
    for name in _scales_of_tables(kernel, *ADDED):
        kernel = _with_scale(kernel, name, 1e-20)
    covariance = kernel(X).to_dense()
    return covariance.sum() - covariance.diagonal().sum()
