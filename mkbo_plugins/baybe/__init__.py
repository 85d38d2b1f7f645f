"""BaYBE adapter: a kernel factory for its Gaussian process, in the table's frame and stored with the campaign."""

try:
    import baybe as _baybe  # noqa: F401
except ImportError as error:
    raise ImportError("mkbo_plugins.baybe needs BaYBE; install it with: pip install 'mkbo_plugins[baybe]'") from error

from mkbo_plugins.baybe.factory import PretrainedKernelFactory
from mkbo_plugins.baybe.searchspace import parameter_space

__all__ = ["PretrainedKernelFactory", "parameter_space"]
