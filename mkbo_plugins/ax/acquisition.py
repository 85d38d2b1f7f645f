"""The search of Ax's acquisition functions, over models made for it."""

from typing import Any

from ax.adapter.base import Adapter
from ax.adapter.torch import TorchAdapter
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from botorch.models.model import Model
from torch import Tensor

from mkbo_plugins.botorch.searching import for_search


class SearchAcquisition(Acquisition):
    """Ax's acquisition, whose models with a pre-trained covariance are `for_search`; predictions are Ax's as ever."""

    def _subset_model(
        self,
        model: Model,
        objective_weights: Tensor,
        outcome_constraints: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Model, Tensor, tuple[Tensor, Tensor] | None]:
        chosen, weights, constraints = super()._subset_model(model, objective_weights, outcome_constraints)
        return for_search(chosen), weights, constraints


def search_faster(adapter: Adapter | Any) -> None:
    """Make a fitted adapter search with `SearchAcquisition`, where it would with Ax's own class."""
    generator = adapter.generator if isinstance(adapter, TorchAdapter) else None
    if isinstance(generator, BoTorchGenerator) and generator.acquisition_class is Acquisition:
        generator.acquisition_class = SearchAcquisition
