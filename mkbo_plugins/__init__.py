"""Pre-trained covariance functions for Bayesian optimisation."""

from mkbo_plugins.pretrained import PretrainedCovariance
from mkbo_plugins.space import ParameterSpace
from mkbo_plugins.training import pretrain

__all__ = ["ParameterSpace", "PretrainedCovariance", "pretrain"]
