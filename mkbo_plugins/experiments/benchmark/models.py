"""The models compared: functions from what was seen to weighed Gaussian predictions for the whole pool.

Values are standardised (ddof=1) over what was seen, as the hosts do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mkbo_plugins.core.components.directed_mean import HALF
from mkbo_plugins.core.gp.exact_gp import held_out_log_density
from mkbo_plugins.core.gp.laplace import laplace_evidence
from mkbo_plugins.core.gp.moments import Moments
from mkbo_plugins.core.gp.pool import Fit
from mkbo_plugins.experiments.benchmark import baselines, paper_models
from mkbo_plugins.experiments.benchmark.lookup import Lookup


class Prediction(NamedTuple):
    """A member of a mixture: the logarithm of its weight up to a constant, and what it says of the candidates."""

    log_weight: float
    moments: Moments


Model = Callable[[Lookup, np.ndarray, np.ndarray], Sequence[Prediction]]
"""Function of the problem, the numbers of the candidates tried (n,) and their standardised values (n,)."""

Score = Callable[[Fit], float]


def integrated(fit: Fit) -> float:
    """Return the log evidence with the hyperparameters integrated out."""
    return laplace_evidence(fit.density).log


def leave_one_out(fit: Fit) -> float:
    """Return the summed log density of each value given the others, hyperparameters kept."""
    process = fit.posterior.process
    return held_out_log_density(process.inverse, process.dual)


class Member(NamedTuple):
    """A member of an average: a form, and how much of the standardised decision function its mean contains."""

    form: str
    slope: float = 0.0


def predict(member: Member, score: Score, lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> Prediction:
    """Return the prediction of a fitted form."""
    mean = member.slope * lookup.decision
    fit = lookup.candidates.fit(member.form, indices, z - mean[indices])
    return Prediction(score(fit), fit.moments.around(mean))


def single(member: Member, lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> list[Prediction]:
    """Return the prediction of one form."""
    return [predict(member, lambda fit: 0.0, lookup, indices, z)]


@dataclass(frozen=True)
class Average:
    """Several forms, weighed by how well each explains what was seen.

    Parameters
    ----------
    members
        The forms.
    score
        Log weight of a fit.
    """

    members: tuple[Member, ...]
    score: Score

    def __call__(self, lookup: Lookup, indices: np.ndarray, z: np.ndarray) -> list[Prediction]:
        """Return the prediction of each form."""
        return [predict(member, self.score, lookup, indices, z) for member in self.members]


def _baseline(function: Callable[[Lookup, np.ndarray, np.ndarray], Moments]) -> Model:
    return lambda lookup, indices, z: [Prediction(0.0, function(lookup, indices, z))]


STOCK, MOMENT, PRODUCT, TRANSFER = Member("stock"), Member("moment"), Member("product"), Member("transfer")
DIRECTED = Member("moment", slope=1.0)

MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "stock": partial(single, STOCK),
        "stock_se_mle": _baseline(paper_models.isotropic),
        "frozen_se": partial(single, Member("base")),
        "kernel_mixture": _baseline(paper_models.scaled_mixture),
        "kernel_mixture_mle": _baseline(paper_models.mixture),
        "normalised_mle": _baseline(paper_models.normalised),
        "two_layer_mle": _baseline(paper_models.two_layer),
        "stacked": _baseline(baselines.stacked),
        "multitask": _baseline(baselines.multitask),
        "rgpe": _baseline(baselines.rgpe),
        "moment": partial(single, MOMENT),
        "product": partial(single, PRODUCT),
        "transfer": partial(single, TRANSFER),
        "link": partial(single, Member("link")),
        "transfer_link": partial(single, Member("transfer_link")),
        "similarity_link": partial(single, Member("similarity_link")),
        "normalised": partial(single, Member("normalised")),
        "two_layer": partial(single, Member("two_layer")),
        "average": Average((STOCK, MOMENT, PRODUCT, TRANSFER), leave_one_out),
        "average_marginal": Average((STOCK, MOMENT, PRODUCT, TRANSFER), integrated),
        "moment_directed": partial(single, Member("moment", slope=HALF)),
        "link_directed": partial(single, Member("link", slope=HALF)),
        "similarity_link_directed": partial(single, Member("similarity_link", slope=HALF)),
        "average_directed": Average((STOCK, MOMENT, DIRECTED, PRODUCT, TRANSFER), leave_one_out),
    }
)
"""The models by name."""

WITHOUT_TABLE = ("random", "stock", "stock_se_mle")
"""Names of methods that see nothing of the table."""

WITHOUT_FRAME = (*WITHOUT_TABLE, "kernel_mixture", "kernel_mixture_mle")
"""Names of methods to which the frame of the covariance makes no difference."""
