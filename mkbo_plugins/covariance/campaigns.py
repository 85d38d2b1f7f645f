"""Earlier campaigns behind one covariance: what they were, their saved form, and which of them a target is like."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.components.campaigns import Campaigns
from mkbo_plugins.covariance.content import Reader, decode_kernel, encode_kernel
from mkbo_plugins.covariance.limits import CAMPAIGNS, COORDINATE, ERROR, ROWS, SPREAD, SUPPORT, VALUE
from mkbo_plugins.errors import ArtefactError


@dataclass(frozen=True)
class CampaignRecord:
    """What one of several campaigns was; nothing here enters the covariance.

    Parameters
    ----------
    name
        What it is called.
    rows
        Number of its rows.
    target_mean, target_spread
        Mean and standard deviation of its outcomes.
    loo_mse
        Leave-one-out mean squared error of its prediction, in units of the variance of what was predicted: the normal
        scores of its outcomes' ranks, by which campaigns are comparable.
    """

    name: str
    rows: int
    target_mean: float
    target_spread: float
    loo_mse: float

    @property
    def explained(self) -> float:
        """Share of the variance of its outcomes that held-out predictions explain."""
        return 1 - self.loo_mse

    def to_content(self) -> dict[str, Any]:
        """Return the record's saved form."""
        return asdict(self)

    @classmethod
    def from_content(cls, content: Reader) -> "CampaignRecord":
        """Return the record saved as `content`; raises `ArtefactError` where it is none."""
        return cls(
            name=content.text("name"),
            rows=content.whole("rows", ROWS),
            target_mean=content.number("target_mean", VALUE),
            target_spread=content.number("target_spread", SPREAD),
            loo_mse=content.number("loo_mse", ERROR),
        )


def encode_campaigns(campaigns: Campaigns, records: Sequence[CampaignRecord]) -> dict[str, Any]:
    """Return the saved form of campaigns."""
    coefficients = zip(records, campaigns.alpha.tolist(), campaigns.bias.tolist(), strict=True)
    return {
        "kernel": encode_kernel(campaigns.kernel),
        "members": [record.to_content() | {"alpha": alpha, "bias": bias} for record, alpha, bias in coefficients],
        "points": campaigns.points.tolist(),
    }


def decode_campaigns(content: Reader) -> tuple[Campaigns, tuple[CampaignRecord, ...]]:
    """Return campaigns with their records; raises `MkboError` where there are none."""
    members = content.each_below("members", CAMPAIGNS)
    alpha = [member.numbers("alpha", VALUE, SUPPORT) for member in members]
    bias = [member.number("bias", VALUE) for member in members]
    points = content.matrix("points", COORDINATE, SUPPORT)
    if len(members) < 2 or any(len(row) != len(points) for row in alpha):
        raise ArtefactError(f"{content.path}'members' must be two or more with {len(points)} numbers in 'alpha' each")
    names = [member.text("name") for member in members]
    if not all(name.strip() for name in names) or len(set(names)) < len(names):
        raise ArtefactError(f"{content.path}'members' must have a name each, of its own")
    campaigns = Campaigns(decode_kernel(content.below("kernel")), points, np.array(alpha), np.array(bias))
    return campaigns, tuple(map(CampaignRecord.from_content, members))


def resembling(
    predictions: Float[np.ndarray, "n M"], outcomes: Float[np.ndarray, " n"], names: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """Return names of campaigns with the rank correlation of their predictions and a target's outcomes, best first.

    Parameters
    ----------
    predictions
        What each campaign predicts at the target's points, (n, M).
    outcomes
        The outcomes there, (n,).
    names
        The campaigns' names.
    """
    from scipy.stats import spearmanr

    varying = np.ptp(predictions, axis=0) > 0
    found = [
        float(spearmanr(column, outcomes).statistic) if varies else 0.0
        for column, varies in zip(predictions.T, varying, strict=True)
    ]
    return tuple(sorted(zip(names, found, strict=True), key=lambda pair: -pair[1]))
