"""The mathematics of pre-trained covariances; knows NumPy, SciPy and scikit-learn, and no optimiser."""

from mkbo_plugins.core.kernels import (
    Exponential,
    FreeKernel,
    Linear,
    Polynomial,
    SquaredExponential,
    TaylorSeries,
)
from mkbo_plugins.core.normalisation import NormalisedKernel, normalise
from mkbo_plugins.core.reweighting import ReweightedKernel, WeightedPoints, reweight
from mkbo_plugins.core.two_layer import TwoLayerKernel

__all__ = [
    "Exponential",
    "FreeKernel",
    "Linear",
    "NormalisedKernel",
    "Polynomial",
    "ReweightedKernel",
    "SquaredExponential",
    "TaylorSeries",
    "TwoLayerKernel",
    "WeightedPoints",
    "normalise",
    "reweight",
]
