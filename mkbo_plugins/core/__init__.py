"""The mathematics of pre-trained covariances; knows NumPy, SciPy and scikit-learn, and no optimiser."""

from mkbo_plugins.core.kernels import (
    Exponential,
    FreeKernel,
    Linear,
    Polynomial,
    SquaredExponential,
    TaylorSeries,
)
from mkbo_plugins.core.listing import FeatureListing, feature_weights
from mkbo_plugins.core.mercer import MercerCheck, check_2q_mercer
from mkbo_plugins.core.mixture import KernelMixture, MixtureFit, fit_kernel_mixture
from mkbo_plugins.core.normalisation import NormalisedKernel, normalise
from mkbo_plugins.core.pnorm import PNormSVC, PNormSVR
from mkbo_plugins.core.reweighting import ReweightedKernel, WeightedPoints, reweight
from mkbo_plugins.core.symmetrised import SymmetrisedProduct
from mkbo_plugins.core.two_layer import TwoLayerKernel

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
