"""Earlier campaigns behind one covariance: what they were, their saved form, and which of them a target is like."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.components.campaigns import Campaigns
from mkbo_plugins.covariance.content import Reader, decode_kernel, encode_kernel
from mkbo_plugins.covariance.limits import (
    CAMPAIGNS,
    COORDINATE,
    ERROR,
    GRID,
    ROWS,
    SCALE,
    SHARE,
    SPREAD,
    SUPPORT,
    VALUE,
    WIDTH,
    Range,
)
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
    date
        Its day, ``"2026-11-03"``, or its first and last one, ``"2026-11-03/2026-11-20"``; None where nobody said.
    added
        Whether it came after coordinate weights and noise were learned, without a part in them.
    """

    name: str
    rows: int
    target_mean: float
    target_spread: float
    loo_mse: float
    date: str | None = None
    added: bool = False

    @property
    def explained(self) -> float:
        """Share of the variance of its outcomes that held-out predictions explain."""
        return 1 - self.loo_mse

    def to_content(self) -> dict[str, Any]:
        """Return the record's saved form."""
        encoded = asdict(self)
        # Only files with dates and with campaigns that were added know of these.
        return {key: value for key, value in encoded.items() if key not in ("date", "added") or value}

    @classmethod
    def from_content(cls, content: Reader) -> "CampaignRecord":
        """Return the record saved as `content`; raises `ArtefactError` where it is none."""
        day = content.text("date") if "date" in content.values else None
        if day is not None and not is_period(day):
            raise ArtefactError(f"{content.path}'date' must be a day or two, as 2026-11-03, got {day!r:.60}")
        return cls(
            name=content.text("name"),
            rows=content.whole("rows", ROWS),
            target_mean=content.number("target_mean", VALUE),
            target_spread=content.number("target_spread", SPREAD),
            loo_mse=content.number("loo_mse", ERROR),
            date=day,
            added="added" in content.values and content.flag("added"),
        )


def is_period(text: str) -> bool:
    """Return whether a text is a day as ISO 8601 writes it, or the first and the last of several."""
    days = text.split("/")
    try:
        read = [date.fromisoformat(day) for day in days]
    except ValueError:
        return False
    return [day.isoformat() for day in read] == days and (len(days) == 1 or (len(days) == 2 and read[0] < read[1]))


@dataclass(frozen=True)
class SharedFit:
    """How campaigns were learned from, by which a further one is; nothing here enters the covariance.

    Parameters
    ----------
    amplitude, noise
        Variance of their processes in units of K_2, and of their noise.
    ard
        Whether every coordinate has a weight of its own.
    max_rows
        Number of settings that span what is learned, if somebody said so.
    C, epsilon, sigma
        Values to try for the machine, None for the default ones.
    notes
        Remarks on the campaigns, beside those on the machine.
    """

    amplitude: float
    noise: float
    ard: bool
    max_rows: int | None
    C: tuple[float, ...] | None
    epsilon: tuple[float, ...] | None
    sigma: tuple[float, ...] | None
    notes: tuple[str, ...]

    def to_content(self) -> dict[str, Any]:
        """Return its saved form."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_content(cls, content: Reader) -> Self:
        """Return what was saved as `content`; raises `ArtefactError` where it is none."""
        grids = {key: content.numbers(key, WIDTH, GRID) for key in GRIDS if content.values.get(key) is not None}
        return cls(
            amplitude=content.number("amplitude", SCALE),
            noise=content.number("noise", SHARE),
            ard=content.flag("ard"),
            max_rows=None if content.values.get("max_rows") is None else content.whole("max_rows", Range(3, SUPPORT)),
            **{key: tuple(grids[key]) if key in grids else None for key in GRIDS},
            notes=content.texts("notes"),
        )


GRIDS = ("C", "epsilon", "sigma")


def encode_campaigns(
    campaigns: Campaigns, records: Sequence[CampaignRecord], shared: SharedFit | None
) -> dict[str, Any]:
    """Return the saved form of campaigns."""
    coefficients = zip(records, campaigns.alpha.tolist(), campaigns.bias.tolist(), strict=True)
    return ({} if shared is None else {"shared": shared.to_content()}) | {
        "kernel": encode_kernel(campaigns.kernel),
        "members": [record.to_content() | {"alpha": alpha, "bias": bias} for record, alpha, bias in coefficients],
        "points": campaigns.points.tolist(),
    }


def decode_campaigns(content: Reader) -> tuple[Campaigns, tuple[CampaignRecord, ...], SharedFit | None]:
    """Return campaigns with their records and how they were learned from; raises `MkboError` where there are none."""
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
    shared = SharedFit.from_content(content.below("shared")) if "shared" in content.values else None
    return campaigns, tuple(map(CampaignRecord.from_content, members)), shared


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
