"""Pre-trained covariances: fitted, frozen, comparable, and saved as one small file."""

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.combined import CombinedCovariance
from mkbo_plugins.covariance.mixture import MixtureCovariance
from mkbo_plugins.covariance.pretrained import PretrainedCovariance

__all__ = ["CombinedCovariance", "Covariance", "MixtureCovariance", "PretrainedCovariance"]
