"""Ax adapter: pre-trained covariances for experiments of `Client` and `AxClient`, stored and resumed with them.

Import this module before loading an experiment that uses it: Ax finds classes of plug-ins only once they are imported,
and says until then that one, such as ``PretrainedNode``, "is not registered".
"""

try:
    import ax as _ax  # noqa: F401
except ImportError as error:
    raise ImportError("mkbo_plugins.ax needs Ax; install it with: pip install 'mkbo_plugins[ax]'") from error

from mkbo_plugins.ax import registration as _registration  # noqa: F401 - lets Ax store and build what follows
from mkbo_plugins.ax.diagnostics import PretrainedDiagnostics, diagnose
from mkbo_plugins.ax.plot import PretrainedPlot
from mkbo_plugins.ax.strategy import pretrained_generation_strategy, use_mixture, use_pretrained
from mkbo_plugins.ax.surrogate import pretrained_surrogate_spec

__all__ = [
    "PretrainedDiagnostics",
    "PretrainedPlot",
    "diagnose",
    "pretrained_generation_strategy",
    "pretrained_surrogate_spec",
    "use_mixture",
    "use_pretrained",
]
