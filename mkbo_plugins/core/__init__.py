"""The mathematics of pre-trained covariances; knows NumPy, SciPy and scikit-learn, and no optimiser.

What is here by name is imported when it is first used, so that a suggestion waits for no theory.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from mkbo_plugins.core.kernels import (
        Exponential,
        FreeKernel,
        Linear,
        Polynomial,
        SquaredExponential,
        TaylorSeries,
    )
    from mkbo_plugins.core.mixture.kernel_mixture import KernelMixture, MixtureFit, fit_kernel_mixture
    from mkbo_plugins.core.points import WeightedPoints
    from mkbo_plugins.core.reweighted.normalisation import NormalisedKernel, normalise
    from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel, reweight
    from mkbo_plugins.core.reweighted.two_layer import TwoLayerKernel
    from mkbo_plugins.core.theory.listing import FeatureListing, feature_weights
    from mkbo_plugins.core.theory.mercer import MercerCheck, check_2q_mercer
    from mkbo_plugins.core.theory.pnorm import PNormSVC, PNormSVR
    from mkbo_plugins.core.theory.symmetrised import SymmetrisedProduct

__all__ = [
    "Exponential",
    "FeatureListing",
    "FreeKernel",
    "KernelMixture",
    "Linear",
    "MercerCheck",
    "MixtureFit",
    "NormalisedKernel",
    "PNormSVC",
    "PNormSVR",
    "Polynomial",
    "ReweightedKernel",
    "SquaredExponential",
    "SymmetrisedProduct",
    "TaylorSeries",
    "TwoLayerKernel",
    "WeightedPoints",
    "check_2q_mercer",
    "feature_weights",
    "fit_kernel_mixture",
    "normalise",
    "reweight",
]

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "kernels": ["Exponential", "FreeKernel", "Linear", "Polynomial", "SquaredExponential", "TaylorSeries"],
        "mixture.kernel_mixture": ["KernelMixture", "MixtureFit", "fit_kernel_mixture"],
        "points": ["WeightedPoints"],
        "reweighted.normalisation": ["NormalisedKernel", "normalise"],
        "reweighted.reweighting": ["ReweightedKernel", "reweight"],
        "reweighted.two_layer": ["TwoLayerKernel"],
        "theory.listing": ["FeatureListing", "feature_weights"],
        "theory.mercer": ["MercerCheck", "check_2q_mercer"],
        "theory.pnorm": ["PNormSVC", "PNormSVR"],
        "theory.symmetrised": ["SymmetrisedProduct"],
    },
)
