"""Advice: experiments to make next, and the state of the campaign it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mkbo_plugins.core.forms import of_table
from mkbo_plugins.core.gp.bayes_factor import Verdict
from mkbo_plugins.messages.counts import counted
from mkbo_plugins.space.parameters import Level

VERDICT_FROM = 10
"""Outcomes from which on it is said whether the table helps: fewer often point the wrong way."""

SHOWN_CAMPAIGNS = 5
"""Earlier campaigns that are named as most like the one going on."""

WEIGHS = {
    "output_scale": "the covariance without the table",
    "moment_scale": "what the table predicts",
    "similarity_scale": "what the table takes to be alike",
    "link_scale": "any smooth function of what it predicts",
}
"""What scales of forms weigh, as `mkbo_plugins.core.forms` describes them."""


class Reason(StrEnum):
    """Why an experiment was chosen."""

    START = "start"
    EXPLORE = "explore"
    EXPLOIT = "exploit"


@dataclass(frozen=True)
class Suggestion:
    """An experiment to make next.

    Parameters
    ----------
    point
        Values of the parameters, by name.
    candidate
        Number of the candidate, counting from 0, where candidates were given.
    reason
        What it is for: a first look, to learn, or to gain.
    why
        The same as a sentence.
    table_says
        What each table's own machine predicts there, in the table's units.
    predicted, uncertainty
        Mean and standard deviation of the outcome, measurement noise aside; None before there is a model.
    chance
        Probability of being better than the best outcome so far; None before there is a model, or an experiment that
        meets all requirements.
    meets
        Probability of meeting each requirement, in their order; none before there is a model.
    """

    point: Mapping[str, Level]
    candidate: int | None
    reason: Reason
    why: str
    table_says: tuple[float, ...]
    predicted: float | None = None
    uncertainty: float | None = None
    chance: float | None = None
    meets: tuple[float, ...] = ()

    def __str__(self) -> str:
        values = ", ".join(f"{name} {shown(value)}" for name, value in self.point.items())
        expected = "" if self.predicted is None else f", predicted {self.predicted:.4g} ± {self.uncertainty:.2g}"
        return f"{values}{expected}: {self.why}"


@dataclass(frozen=True)
class Advice:
    """Suggestions, and the state of the campaign they rest on.

    Parameters
    ----------
    suggestions
        The experiments, best first.
    measured, pending, failed
        Numbers of trials.
    best
        Best outcome so far, of experiments that meet all requirements; None without any.
    noise
        Standard deviation of measurement noise that the model found; None before there is a model.
    verdict
        Whether the table helps and the form suits, by the outcomes so far; None before there are `VERDICT_FROM` of
        them.
    most_like
        Earlier campaigns with the rank correlation of their predictions and the outcomes so far, best first; none where
        the table is of one campaign, and before there are `VERDICT_FROM` outcomes.
    scales
        Fitted scales of the form by name, as `mkbo_plugins.core.forms` describes them, of several tables numbered; none
        before there is a model.
    """

    suggestions: tuple[Suggestion, ...]
    measured: int
    pending: int
    failed: int
    best: float | None
    noise: float | None = None
    verdict: Verdict | None = None
    most_like: tuple[tuple[str, float], ...] = ()
    scales: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        numbered = [f"{i}: {suggestion}" for i, suggestion in enumerate(self.suggestions, 1)]
        return "\n".join([self.state("outcome"), *numbered, *self.findings])

    def state(self, outcome: str) -> str:
        """Return how far the campaign has come, as a sentence that calls the outcome by a name."""
        text = f"{counted(self.measured, 'experiment')} measured, {self.pending} pending"
        if self.failed:
            text += f", {self.failed} failed"
        if self.best is not None:
            text += f"; best {outcome} {self.best:.6g}"
        if self.noise is not None:
            text += f"; measurement noise about {self.noise:.2g}"
        return text

    @property
    def findings(self) -> list[str]:
        """Sentences on what the model found: its scales, whether the table helps, and similar campaigns."""
        sentences = []
        if self.scales:
            scales = ", ".join(f"{name} {value:.3g}" for name, value in self.scales.items())
            weighed = [
                f"{name} weighs {what}"
                for name, what in WEIGHS.items()
                if {name, of_table(name, 0, tables=2)} & self.scales.keys()
            ]
            sentences.append("; ".join([f"fitted scales: {scales}", *weighed]))
        if self.verdict is not None:
            sentences.append(f"Does the table help? {self.verdict}")
        if self.most_like:
            like = ", ".join(f"{name} ({value:.2f})" for name, value in self.most_like[:SHOWN_CAMPAIGNS])
            sentences.append(f"most like the earlier campaigns (rank correlation): {like}")
        return sentences


def shown(value: Level) -> str:
    """Return a value of a parameter as it is set: fewer digits could break a constraint."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)
