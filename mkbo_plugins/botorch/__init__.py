"""BoTorch adapter: a GPyTorch kernel, an input transform from raw named columns, and ready models."""

try:
    import botorch as _botorch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "mkbo_plugins.botorch needs BoTorch; install it with: pip install 'mkbo_plugins[botorch]'"
    ) from error

from mkbo_plugins.botorch import features as _features  # noqa: F401 - registers the feature map for path sampling
from mkbo_plugins.botorch import paths as _paths  # noqa: F401 - registers how paths are drawn
from mkbo_plugins.botorch.average import AverageGP, pretrained_average
from mkbo_plugins.botorch.constraints import linear_constraints
from mkbo_plugins.botorch.evidence import table_verdict
from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.botorch.mean import PretrainedMean
from mkbo_plugins.botorch.models import PretrainedGP, pretrained_gp
from mkbo_plugins.botorch.searching import for_search
from mkbo_plugins.botorch.suggest import suggest

__all__ = [
    "AverageGP",
    "NamedFrame",
    "PretrainedGP",
    "PretrainedKernel",
    "PretrainedMean",
    "for_search",
    "linear_constraints",
    "pretrained_average",
    "pretrained_gp",
    "suggest",
    "table_verdict",
]
