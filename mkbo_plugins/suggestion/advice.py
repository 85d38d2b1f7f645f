"""Advice: experiments to make next, and the state of the campaign it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mkbo_plugins.core.gp.bayes_factor import Verdict
from mkbo_plugins.space.parameters import Level

VERDICT_FROM = 10
"""Outcomes from which on it is said whether the table helps: fewer often point the wrong way."""


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
