"""The fitted models of an experiment, by metric, for analyses of them."""

from typing import Any

from ax.adapter.base import Adapter
from ax.adapter.torch import TorchAdapter
from ax.analysis.analysis import Analysis
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.models import ModelListGP

from mkbo_plugins.errors import MkboError


def fitted_adapter(
    experiment: Experiment | None, strategy: GenerationStrategy | None, adapter: Adapter | None = None
) -> TorchAdapter:
    """Return an adapter given, or that of the strategy's current node, fitted to all data of the experiment.

    Raises
    ------
    MkboError
        If there is no model yet.
    """
    where = "the adapter"
    if adapter is None:
        if experiment is None or strategy is None:
            raise MkboError("diagnostics need an experiment and its generation strategy")
        adapter, where = strategy.fit(experiment), f"node {strategy.current_node_name!r}"
    if not isinstance(adapter, TorchAdapter):
        raise MkboError(f"{where} has no model; complete the first trials, with their data, before")
    return adapter


def models_by_metric(adapter: Any) -> dict[str, tuple[str, Any]]:
    """Return the signature and the BoTorch model of each metric, by its name."""
    surrogate = adapter.generator.surrogate
    models = surrogate.model.models if isinstance(surrogate.model, ModelListGP) else [surrogate.model]
    names = {metric.signature: name for name, metric in adapter._experiment.metrics.items()}
    return {
        names.get(outcome, outcome): (outcome, model) for outcome, model in zip(surrogate.outcomes, models, strict=True)
    }


class ModelAnalysis(Analysis):
    """An analysis of fitted models, which says so where there are none yet."""

    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        """Return why there is nothing to analyse yet, or None."""
        try:
            fitted_adapter(experiment, generation_strategy, adapter)
        except MkboError as error:
            return str(error)
        return None
