"""What the tables say of points of a target, as numbers and in words."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.gp.bayes_factor import Verdict, judge
from mkbo_plugins.core.gp.feasibility import log_success
from mkbo_plugins.core.gp.form_model import Points
from mkbo_plugins.core.gp.spacing import least_distance
from mkbo_plugins.covariance.campaigns import resembling
from mkbo_plugins.covariance.pretrained import TrainedCovariance
from mkbo_plugins.space.named import NamedColumns
from mkbo_plugins.suggestion.advice import VERDICT_FROM, Reason, Suggestion
from mkbo_plugins.suggestion.candidates import FiniteCandidates, SpaceCandidates
from mkbo_plugins.tables.trials import Trials


class TableForecast:
    """What the tables say of points in the target's raw units.

    Parameters
    ----------
    cov
        The covariance.
    columns
        Map from raw points to its frame.
    reference
        Points that others are compared with, (M, d) in raw units.
    called
        What messages call these.
    """

    def __init__(
        self, cov: TrainedCovariance, columns: NamedColumns, reference: Float[np.ndarray, "N d"], called: str
    ) -> None:
        self.cov, self.columns, self.called = cov, columns, called
        self.reference = [np.sort(values) for values in self.standardised(reference)]

    def standardised(self, raw: Float[np.ndarray, "n d"]) -> list[Float[np.ndarray, " n"]]:
        """Return the standardised decision function of each table, (n,)."""
        views = self.cov.fixed.views(self.columns(raw))
        return [np.asarray(fixed.standardised_decision(Z)) for fixed, Z in views]

    def predictions(self, raw: Float[np.ndarray, "n d"]) -> list[Float[np.ndarray, " n"]]:
        """Return the predictions of each table in its units, (n,)."""
        views = self.cov.fixed.views(self.columns(raw))
        return [member.predict_at_coordinates(Z) for member, (_, Z) in zip(self.cov.members, views, strict=True)]

    def sentence(self, raw: Float[np.ndarray, "1 d"], predictions: tuple[float, ...]) -> str:
        """Return the predictions at one point (1, d) in words."""
        parts = []
        for predicted, member, (value,), reference in zip(
            predictions, self.cov.members, self.standardised(raw), self.reference, strict=True
        ):
            below = np.searchsorted(reference, value, side="left") / len(reference)
            target = member.record.target
            prediction = f"the table predicts {predicted:.4g} {target}"
            if member.campaigns:
                prediction = (
                    f"by rank, the campaigns predict {target} {predicted:.2g} standard deviations above their means"
                )
            if member.record.task == "classification":
                label = int(predicted > 0)
                name = repr(member.record.classes[label]) if member.record.classes else f"label {2 * label - 1}"
                prediction = f"the table's decision value for {target} is {predicted:.2g}, which speaks for {name}"
            share = f"{math.floor(100 * below)}%" if below < 1 else "all"
            parts.append(f"{prediction}, more than for {share} of the {self.called}")
        return "; ".join(parts)

    def suggestion(
        self,
        pool: FiniteCandidates | SpaceCandidates,
        index: int,
        point: Float[np.ndarray, "1 d"],
        reason: Reason,
        why: str,
    ) -> Suggestion:
        """Return the suggestion of a candidate, a point (1, d), with what the tables say of it."""
        predictions = tuple(float(values[0]) for values in self.predictions(point))
        return Suggestion(
            pool.space.from_raw(point)[0],
            pool.number(index),
            reason,
            f"{why}; {self.sentence(point, predictions)}",
            predictions,
        )

    def unit(self, raw: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Return the unit-scaled inputs of the target, (n, k), at points in its raw units."""
        return np.asarray(self.columns.target.to_coordinates(raw, "unit"))

    @property
    def least_distance(self) -> float:
        """The distance in unit-scaled inputs from which on one experiment says little of another."""
        return least_distance(len(self.columns.target.names))

    def log_success(self, trials: Trials) -> Callable[[Float[np.ndarray, "M d"]], Float[np.ndarray, " M"]]:
        """Return a function from raw points (M, d) to the logarithms of the chances that they do not fail, (M,)."""
        succeeded, failed = self.unit(trials.X), self.unit(trials.failed)
        return lambda raw: log_success(self.unit(raw), succeeded, failed, 2 * self.least_distance)

    def most_like(self, trials: Trials) -> tuple[tuple[str, float], ...]:
        """Return which earlier campaigns the outcomes of trials are like; none where there are too few of either."""
        campaigns = [member.fixed.campaigns for member in self.cov.members]
        if len(trials.y) < VERDICT_FROM or all(of_table is None for of_table in campaigns):
            return ()
        Z = [z for _, z in self.cov.fixed.views(self.columns(trials.X))]
        predictions = [of_table(z) for of_table, z in zip(campaigns, Z, strict=True) if of_table is not None]
        several = sum(of_table is not None for of_table in campaigns) > 1
        names = [
            f"table {number}: {campaign.name}" if several else campaign.name
            for number, member in enumerate(self.cov.members, 1)
            for campaign in member.campaigns
        ]
        return resembling(np.column_stack(predictions), trials.y, names)

    def verdict(self, trials: Trials, form: str) -> Verdict | None:
        """Return whether the tables help and a form suits, by the outcomes of trials; None if there are too few."""
        return self.judge(trials.X, trials.y, form) if len(trials.y) >= VERDICT_FROM else None

    def judge(self, raw: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], form: str) -> Verdict:
        """Return the same of outcomes (n,) at raw points (n, d), however few they are."""
        unit = self.unit(raw)
        frame, target = np.asarray(self.columns(raw)), self.columns.target
        all_inputs = self.cov.form(form).uses_stock
        own = [all_inputs or name not in self.cov.space.names for name in target.coordinate_owners]
        return judge(self.cov.fixed, Points(frame, unit), y, form=form, as_used=Points(frame, unit[:, own]))
