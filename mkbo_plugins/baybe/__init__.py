"""BaYBE adapter: its Gaussian process with a pre-trained covariance, in the table's frame and stored with campaigns."""

try:
    import baybe as _baybe  # noqa: F401
except ImportError as error:
    raise ImportError("mkbo_plugins.baybe needs BaYBE; install it with: pip install 'mkbo_plugins[baybe]'") from error

from mkbo_plugins.baybe.factory import PretrainedKernelFactory, pretrained_surrogate
from mkbo_plugins.baybe.searchspace import parameter_space

__all__ = ["PretrainedKernelFactory", "parameter_space", "pretrained_surrogate"]
