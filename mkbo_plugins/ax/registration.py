"""What Ax must be told at import to build these models from stored options, and to store and load them."""

from collections.abc import Sequence
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.input_constructors.covar_modules import covar_module_argparse
from ax.generators.torch.botorch_modular.input_constructors.input_transforms import input_transform_argparse
from ax.storage.botorch_modular_registry import (
    CLASS_TO_REGISTRY,
    CLASS_TO_REVERSE_REGISTRY,
    register_kernel,
    register_model,
)
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY
from botorch.models.transforms.input import InputTransform
from botorch.utils.datasets import SupervisedDataset

from mkbo_plugins.ax.directed import DirectedGP, outputs_shape
from mkbo_plugins.ax.first_trials import SobolNode, TableDesignNode
from mkbo_plugins.ax.inputs import PretrainedInputs
from mkbo_plugins.ax.nodes import PretrainedNode
from mkbo_plugins.ax.storage import recall
from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.botorch.models import LogNoiseGP


@covar_module_argparse.register(PretrainedKernel)
def _kernel_arguments(
    covar_module_class: type[PretrainedKernel],
    dataset: SupervisedDataset,
    fingerprint: str,
    form: str,
    covered: Sequence[str],
    described: Sequence[str] = (),
    **kwargs: Any,
) -> dict[str, Any]:
    cov = recall(fingerprint)
    descriptors = sum(len(cov.space[name].coordinate_names) for name in described)
    return {
        "cov": cov,
        "form": form,
        "stock_dims": descriptors + len(_stock_columns(dataset.feature_names, covered)),
        "batch_shape": outputs_shape(dataset),
    }


@input_transform_argparse.register(PretrainedInputs)
def _inputs_arguments(
    input_transform_class: type[PretrainedInputs],
    dataset: SupervisedDataset,
    search_space_digest: SearchSpaceDigest,
    input_transform_options: dict[str, Any],
) -> dict[str, Any]:
    names, options = dataset.feature_names, input_transform_options
    return {
        "cov": recall(options["fingerprint"]),
        "encodings": options["encodings"],
        "names": names,
        "bounds": torch.tensor(search_space_digest.bounds, dtype=dataset.X.dtype, device=dataset.X.device).mT,
        "stock_columns": _stock_columns(names, options["covered"]),
        "described": options.get("described", ()),
    }


def _stock_columns(names: Sequence[str], covered: Sequence[str]) -> list[str]:
    return [name for name in names if name not in covered]


register_kernel(PretrainedKernel)
register_model(LogNoiseGP)
register_model(DirectedGP)
CLASS_TO_REGISTRY[InputTransform][PretrainedInputs] = PretrainedInputs.__name__
CLASS_TO_REVERSE_REGISTRY[InputTransform][PretrainedInputs.__name__] = PretrainedInputs
for _node in (PretrainedNode, SobolNode, TableDesignNode):
    CORE_DECODER_REGISTRY[_node.__name__] = _node
