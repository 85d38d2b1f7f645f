"""The model of a metric whose direction is known, as Ax builds it from stored options."""

from typing import Any

import torch
from botorch.utils.datasets import SupervisedDataset

from mkbo_plugins.ax.storage import recall
from mkbo_plugins.botorch import PretrainedMean
from mkbo_plugins.botorch.models import LogNoiseGP
from mkbo_plugins.covariance.directions import Directions


class DirectedGP(LogNoiseGP):
    """`LogNoiseGP` with the mean that tables of known direction give the metric; Ax's options have none for means."""

    @classmethod
    def construct_inputs(  # type: ignore[override]
        cls, training_data: SupervisedDataset, *, fingerprint: str, direction: Directions, **kwargs: Any
    ) -> dict[str, Any]:
        """Return arguments of the class.

        Parameters
        ----------
        training_data, **kwargs
            As for `SingleTaskGP.construct_inputs`.
        fingerprint
            Of the pre-trained covariance.
        direction
            As for `use_pretrained`: Ax's models are of metrics, whether they are to be large or small.
        """
        mean = PretrainedMean(recall(fingerprint), direction, batch_shape=outputs_shape(training_data))
        return {**super().construct_inputs(training_data, **kwargs), "mean_module": mean}


def outputs_shape(dataset: SupervisedDataset) -> torch.Size:
    """Return the batch shape of a model's modules: its number of metrics, where there are several."""
    outputs = dataset.Y.shape[-1]
    return torch.Size([outputs] if outputs > 1 else [])
