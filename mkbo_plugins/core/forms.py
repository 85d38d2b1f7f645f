"""The covariance models an optimiser can use, by name, with their hyperparameters and priors.

Each combines the fixed parts of a pre-trained covariance with the host's own stock covariance on ordinary inputs. The
same form means the same model in every host.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.two_layer import squared_exponential_profile
from mkbo_plugins.errors import KernelError


@dataclass(frozen=True)
class Hyperparameter:
    """A learned scale with its log-normal prior and bounds.

    Parameters
    ----------
    log_mean, log_spread
        Mean and standard deviation of the scale's logarithm under the prior.
    lower, upper
        Bounds of the scale.
    """

    log_mean: float
    log_spread: float
    lower: float
    upper: float


HYPERPARAMETERS: Mapping[str, Hyperparameter] = MappingProxyType(
    {
        "output_scale": Hyperparameter(0.0, 1.0, lower=1e-20, upper=1e4),
        "moment_scale": Hyperparameter(0.0, 1.5, lower=1e-20, upper=1e4),
        "feature_scale": Hyperparameter(0.0, 1.5, lower=1e-20, upper=1e20),
    }
)
"""The learned scales: a and b of the forms, in units of the standardised target's variance, and s, in units of the mean
diagonal of K^E. The priors are weak enough for b -> 0 and s -> infinity, where a form becomes the stock model, and the
bounds include these limits. Variances end at 1e4, so that an optimiser's first long step cannot reach a covariance
that is numerically singular beside the least noise."""


@dataclass(frozen=True)
class Form:
    """A covariance model.

    Parameters
    ----------
    parts
        Names of the fixed parts it uses.
    hyperparameters
        Names of the learned scales it has, of those in `HYPERPARAMETERS`.
    uses_stock
        Whether the host's stock covariance is a part of it.
    combine
        Function of the parts, the stock covariance (None where unused) and the scales, elementwise.
    """

    parts: tuple[str, ...]
    hyperparameters: tuple[str, ...]
    uses_stock: bool
    combine: Callable[[Mapping[str, Array], Array, Mapping[str, Array]], Array]


def _transfer(parts: Mapping[str, Array], stock: Array, scales: Mapping[str, Array]) -> Array:
    similarity = squared_exponential_profile(parts["feature_distance"], scales["feature_scale"])
    return scales["output_scale"] * stock * similarity + scales["moment_scale"] * parts["moment"]


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "stock": Form((), (), True, lambda parts, stock, scales: stock),
        "base": Form(("base",), ("output_scale",), False, lambda p, k, h: h["output_scale"] * p["base"]),
        "reweighted": Form(
            ("reweighted",), ("output_scale",), False, lambda p, k, h: h["output_scale"] * p["reweighted"]
        ),
        "normalised": Form(
            ("normalised",), ("output_scale",), False, lambda p, k, h: h["output_scale"] * p["normalised"]
        ),
        "two_layer": Form(
            ("feature_distance",),
            ("output_scale", "feature_scale"),
            False,
            lambda p, k, h: h["output_scale"] * squared_exponential_profile(p["feature_distance"], h["feature_scale"]),
        ),
        "moment": Form(
            ("moment",),
            ("output_scale", "moment_scale"),
            True,
            lambda p, k, h: h["output_scale"] * k + h["moment_scale"] * p["moment"],
        ),
        "transfer": Form(
            ("feature_distance", "moment"), ("output_scale", "moment_scale", "feature_scale"), True, _transfer
        ),
    }
)
"""Covariance models by name. With k the stock covariance, d the feature distance and g the standardised decision
function: ``stock``, k; ``base``, a K_2; ``reweighted``, a K^E; ``normalised``, a K^E normalised; ``two_layer``,
a exp(-d^2 / (2 s)); ``moment``, a k + b g g'; ``transfer``, a k exp(-d^2 / (2 s)) + b g g'."""


def get_form(name: str) -> Form:
    """Return the form called `name`.

    Raises
    ------
    KernelError
        If there is none of this name.
    """
    if name not in FORMS:
        raise KernelError(f"form must be one of {list(FORMS)}, got {name!r}")
    return FORMS[name]
