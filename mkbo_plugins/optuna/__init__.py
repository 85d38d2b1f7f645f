"""Optuna adapter: a sampler with a pre-trained covariance, and studies as tables."""

try:
    import optuna as _optuna  # noqa: F401
except ImportError as error:
    raise ImportError(
        "mkbo_plugins.optuna needs Optuna; install it with: pip install 'mkbo_plugins[optuna]'"
    ) from error

from mkbo_plugins.optuna.distributions import parameter_space
from mkbo_plugins.optuna.sampler import PretrainedSampler

__all__ = ["PretrainedSampler", "parameter_space"]
