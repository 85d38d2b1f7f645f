"""Pre-trained covariance functions for Bayesian optimisation."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from mkbo_plugins.covariance.combined import CombinedCovariance
    from mkbo_plugins.covariance.mixture import MixtureCovariance
    from mkbo_plugins.covariance.pretrained import PretrainedCovariance
    from mkbo_plugins.pretraining.growing import add_campaign, drop_campaign
    from mkbo_plugins.pretraining.mixture import pretrain_mixture
    from mkbo_plugins.pretraining.training import pretrain
    from mkbo_plugins.space.space import ParameterSpace

__all__ = [
    "CombinedCovariance",
    "MixtureCovariance",
    "ParameterSpace",
    "PretrainedCovariance",
    "add_campaign",
    "drop_campaign",
    "pretrain",
    "pretrain_mixture",
]

# Imported when first used: loading a covariance needs no trainers, which take longest to import.
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "covariance.combined": ["CombinedCovariance"],
        "covariance.mixture": ["MixtureCovariance"],
        "covariance.pretrained": ["PretrainedCovariance"],
        "pretraining.growing": ["add_campaign", "drop_campaign"],
        "pretraining.mixture": ["pretrain_mixture"],
        "pretraining.training": ["pretrain"],
        "space.space": ["ParameterSpace"],
    },
)
