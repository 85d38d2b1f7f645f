"""What the model in use has made of a pre-trained covariance."""

import copy
from typing import Any

import pandas as pd
import torch
from ax.adapter.base import Adapter
from ax.adapter.cross_validation import compute_diagnostics, cross_validate
from ax.adapter.torch import TorchAdapter
from ax.analysis.analysis import Analysis
from ax.api.client import Client
from ax.core.analysis_card import AnalysisCard
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient
from ax.utils.stats.model_fit_stats import CORRELATION_COEFFICIENT, LOG_LIKELIHOOD
from botorch.models import ModelListGP
from torch import Tensor

from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.errors import MkboError

_LEAVE_ONE_OUT = {"loo_correlation": CORRELATION_COEFFICIENT, "loo_log_likelihood": LOG_LIKELIHOOD}


def diagnose(client: Client | AxClient) -> pd.DataFrame:
    """Return one row per metric on the model of the client's current strategy, fitted to all data so far.

    Columns are: ``kernel``, the class of the covariance function really in use; ``form`` and ``table``, of the
    pre-trained covariance; ``output_scale``, ``moment_scale`` and ``feature_scale``, its fitted scales a, b and s in
    units of the standardised metric; ``moment_share``, the share of the prior variance at the trials that b g g' has;
    ``feature_effect``, by how much the feature distance lowers correlations between trials, 0 for the stock model and
    at most 1; ``noise``, the noise variance; ``loo_correlation`` and ``loo_log_likelihood``, how leave-one-out
    predictions at the fitted scales agree with the metric.

    Raises
    ------
    MkboError
        If no model can be fitted yet.
    """
    strategy = client._maybe_generation_strategy if isinstance(client, Client) else client._generation_strategy
    if strategy is None:
        raise MkboError("the client has no generation strategy yet; call use_pretrained first")
    return _table(_adapter(client._experiment, strategy))


class PretrainedDiagnostics(Analysis):
    """The card of `diagnose`, for ``client.compute_analyses([PretrainedDiagnostics()])``."""

    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> AnalysisCard:
        """Return the card."""
        table = _table(adapter if adapter is not None else _adapter(experiment, generation_strategy))
        used = [f"{row.metric} ({row.form}, {row.table})" for row in table.itertuples() if row.form != "stock"]
        return self._create_analysis_card(
            title="Pre-trained covariance",
            subtitle=f"In use for {', '.join(used)}." if used else "Not in use: the models are Ax's own.",
            df=table,
        )


def _adapter(experiment: Experiment | None, strategy: GenerationStrategy | None) -> Adapter:
    if experiment is None or strategy is None:
        raise MkboError("diagnostics need an experiment and its generation strategy")
    adapter = strategy.fit(experiment)
    if not isinstance(adapter, TorchAdapter):
        raise MkboError(
            f"node {strategy.current_node_name!r} has no model; complete the first trials, with their data, before"
        )
    return adapter


def _table(adapter: Any) -> pd.DataFrame:
    surrogate = adapter.generator.surrogate
    models = surrogate.model.models if isinstance(surrogate.model, ModelListGP) else [surrogate.model]
    fit = compute_diagnostics(cross_validate(adapter))
    names = {metric.signature: name for name, metric in adapter._experiment.metrics.items()}
    rows = []
    for outcome, model in zip(surrogate.outcomes, models, strict=True):
        row: dict[str, Any] = {"metric": names.get(outcome, outcome), "kernel": type(model.covar_module).__name__}
        row |= {**_of_kernel(model), "noise": float(model.likelihood.noise.detach().mean())}
        row |= {column: fit[name].get(outcome) for column, name in _LEAVE_ONE_OUT.items()}
        rows.append(row)
    return pd.DataFrame(rows)


@torch.no_grad()
def _of_kernel(model: Any) -> dict[str, Any]:
    kernel = model.covar_module
    if not isinstance(kernel, PretrainedKernel):
        return {"form": "stock", "table": None}
    X = model.train_inputs[0] if model.training else model.transform_inputs(model.train_inputs[0])
    scales = kernel.form.hyperparameters
    row: dict[str, Any] = {
        "form": kernel.form_name,
        "table": f"{kernel.cov.record.target}, {kernel.cov.fingerprint[:12]}",
        **{name: float(kernel.scale(name)) for name in scales},
    }
    if "moment_scale" in scales:
        without = _with_scale(kernel, "moment_scale", 1e-20)(X, diag=True)
        row["moment_share"] = float(1 - without.mean() / kernel(X, diag=True).mean())
    if "feature_scale" in scales and len(X) > 1:
        row["feature_effect"] = float(
            1 - _likeness(kernel, X) / _likeness(_with_scale(kernel, "feature_scale", 1e20), X)
        )
    return row


def _with_scale(kernel: PretrainedKernel, name: str, value: float) -> PretrainedKernel:
    other = copy.deepcopy(kernel)
    other.set_scale(name, value)
    return other


def _likeness(kernel: PretrainedKernel, X: Tensor) -> Tensor:
    """Return the sum of covariances between different rows without the moment part."""
    if "moment_scale" in kernel.form.hyperparameters:
        kernel = _with_scale(kernel, "moment_scale", 1e-20)
    covariance = kernel(X).to_dense()
    return covariance.sum() - covariance.diagonal().sum()
