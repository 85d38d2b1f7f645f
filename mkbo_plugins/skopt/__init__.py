"""scikit-optimize adapter: a regressor with a pre-trained covariance for all of its optimisers."""

try:
    import skopt as _skopt  # noqa: F401
except ImportError as error:
    raise ImportError(
        "mkbo_plugins.skopt needs scikit-optimize; install it with: pip install 'mkbo_plugins[skopt]'"
    ) from error

from mkbo_plugins.skopt.columns import parameter_space
from mkbo_plugins.skopt.constraints import space_constraint
from mkbo_plugins.skopt.kernel import PretrainedKernel
from mkbo_plugins.skopt.regressor import PretrainedRegressor, mixture_regressor, pretrained_regressor

__all__ = [
    "PretrainedKernel",
    "PretrainedRegressor",
    "mixture_regressor",
    "parameter_space",
    "pretrained_regressor",
    "space_constraint",
]
