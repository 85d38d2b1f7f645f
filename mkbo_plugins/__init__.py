"""Pre-trained covariance functions for Bayesian optimisation."""

from mkbo_plugins.combined import CombinedCovariance
from mkbo_plugins.mixture import MixtureCovariance, pretrain_mixture
from mkbo_plugins.pretrained import PretrainedCovariance
from mkbo_plugins.space import ParameterSpace
from mkbo_plugins.training import pretrain

__all__ = [
    "CombinedCovariance",
    "MixtureCovariance",
    "ParameterSpace",
    "PretrainedCovariance",
    "pretrain",
    "pretrain_mixture",
]
