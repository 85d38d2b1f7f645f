"""Sample paths of models with a pre-trained covariance."""

import copy
from typing import Any

from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, MatheronPath
from gpytorch.models import ExactGP

from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.botorch.models import LogNoiseGP


@DrawMatheronPaths.register(LogNoiseGP)
def draw_coarse_paths(model: LogNoiseGP, **kwargs: Any) -> MatheronPath:
    """Return the host's paths of a model whose fixed components are coarse, prior and update alike.

    Features of the prior leave out more than that, and paths are evaluated many times.

    Parameters
    ----------
    model
        The model.
    **kwargs
        As for `botorch.sampling.pathwise.draw_matheron_paths`.
    """
    if isinstance(model.covar_module, PretrainedKernel):
        kernel = model.covar_module.coarse()
        model = copy.copy(model)
        model._modules = {**model._modules, "covar_module": kernel}
    return DrawMatheronPaths.dispatch(ExactGP)(model, **kwargs)
