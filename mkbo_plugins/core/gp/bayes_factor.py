"""Whether a table helps a target: the Bayes factor of models with it against the stock model."""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.components.protocols import ModelComponents
from mkbo_plugins.core.forms import DEFAULT_FORM, get_form
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.laplace import Evidence, laplace_evidence
from mkbo_plugins.core.gp.posterior import PosteriorDensity
from mkbo_plugins.core.priors import NOISE
from mkbo_plugins.core.spread import check_spread
from mkbo_plugins.errors import TableError

STOCK = "stock"

FEWEST = 3
"""Values of a target below which nothing can be judged."""

FOR_TABLE = math.log(10.0)
"""Log Bayes factor above which a table helps: 10 to 1, where Jeffreys' scale turns strong."""

AGAINST_TABLE = -math.log(30.0)
"""Log Bayes factor below which it does not: 30 to 1, where Jeffreys' scale turns very strong. Models with a table can
turn it down, so that to do without one that would have helped costs more trials than to keep one that does not."""

AGAINST_FORM = -math.log(30.0)
"""Log Bayes factor below which the form in use does not suit the target: the odds of `AGAINST_TABLE`, for its reason.
On 36 other pairs, 10 to 1 warned of ``transfer_link`` in 3 of 8 harmed campaigns instead of 2, and wrongly in 1 of 48
helped ones instead of none."""

FORMS = ("moment", "link")
"""Models with the table whose evidence counts. Other forms with a stock covariance multiply it by the profile of a
distance, which explains noise better than the stock covariance alone does: they speak for a table even where outcomes
are shuffled."""


class Answer(StrEnum):
    """Whether the table helps."""

    YES = "yes"
    UNSURE = "can't tell yet"
    NO = "no"


@dataclass(frozen=True)
class Verdict:
    """What the target's data says about the table.

    Parameters
    ----------
    answer
        Whether the table helps.
    log_ratio
        Log Bayes factor: logarithm of the mean evidence of the models with the table over that of the stock model;
        positive speaks for the table.
    values
        Number of values of the target.
    form
        The form in use.
    form_log_ratio
        Logarithm of its evidence over that of the stock model; 0 where it is the stock model.
    instead
        The form to use instead, of those judged the one with the greatest evidence; None where the form in use suits.
    """

    answer: Answer
    log_ratio: float
    values: int
    form: str = STOCK
    form_log_ratio: float = 0.0
    instead: str | None = None

    @property
    def warns(self) -> bool:
        """Whether it speaks against the table, or against the form in use."""
        return self.answer is Answer.NO or self.instead is not None

    def __str__(self) -> str:
        """Return a sentence for people."""
        side = "with the table" if self.log_ratio >= 0 else "without it"
        ratio = f"the {self.values} values of the target are {_odds(self.log_ratio)} more likely {side}"
        said = {
            Answer.YES: f"yes, the target's values speak for the table: {ratio}",
            Answer.UNSURE: f"can't tell yet: {ratio}",
            Answer.NO: f"no, the target's values speak against the table, which need not cost trials: {ratio}",
        }[self.answer]
        # Against forms that the answer rests on, a no has said it.
        if self.instead is None or (self.answer is Answer.NO and self.form in FORMS):
            return said
        return (
            f"{said}; under form={self.form!r} they are {_odds(self.form_log_ratio)} less likely than under the stock "
            f"model: this form does not suit this target; use form={self.instead!r}"
        )


def _odds(log_ratio: float) -> str:
    return f"{math.exp(min(abs(log_ratio), 50.0)):.3g} to 1"


def form_evidence(
    fixed: ModelComponents,
    form: str,
    points: Points,
    z: Float[np.ndarray, " n"],
    noise: float | Float[np.ndarray, " n"] | None = None,
    stock: Evidence | None = None,
) -> Evidence:
    """Return the evidence of a form for standardised values z (n,) at points; noise as for `PosteriorDensity`.

    Pass the evidence of the stock model for another form: a form that can become that model, and whose maximum is
    searched elsewhere alone, seems worse than it is where the values are noise.
    """
    density = PosteriorDensity(FormModel(fixed, form, points.stock.shape[1]), points, z, noise)
    if stock is None:
        return laplace_evidence(density, [density.noisy_start])
    return laplace_evidence(density, [density.near_stock(stock.mode)] if get_form(form).uses_stock else [])


def judge(
    fixed: ModelComponents,
    points: Points,
    y: Float[np.ndarray, " n"],
    noise: float | Float[np.ndarray, " n"] | None = None,
    form: str = DEFAULT_FORM,
    as_used: Points | None = None,
) -> Verdict:
    """Return whether the table helps a target with values y (n,) at points, and whether the form in use suits it.

    Parameters
    ----------
    fixed
        The fixed parts of the covariance.
    points
        The target's points.
    y
        Its values, (n,).
    noise
        Known variance of their noise, in squared units of the values, one for all or one for each; None if unknown.
    form
        Name of the form in use.
    as_used
        The points as that form sees them, if its stock inputs are others: parameters that the table lacks alone, for a
        form without a stock covariance.

    Returns
    -------
    Verdict
        The answer with the log Bayes factors it rests on.

    Raises
    ------
    MkboError
        If there are fewer than `FEWEST` values, all are equal, or there is no such form.

    Notes
    -----
    The factor tells how likely the values are, not how many trials the table saves, so that a yes can be trusted more
    than a no: a function moved by a fifth of its range speaks against its own table, which still leads to its optimum.
    After 15 trials of 1,200 campaigns with the default form on 100 drawn pairs that nothing was chosen on
    (``tools/count_verdicts.py``), the answers were 372 times yes and once no in the 492 on problems that the form
    certainly helped, 40 times yes and 11 times no in the 120 on those that it certainly harmed, and 304 times yes and 3
    times no in the other 588. A no or a form that does not suit warned in 31 of the 120, in 12 of the 492 and in 46 of
    the 588: harm mostly comes without a warning.
    """
    if len(y) < FEWEST or np.ptp(y) == 0:
        raise TableError(f"a verdict needs at least {FEWEST} values that are not all equal, got {len(y)}")
    check_spread(y, "y")
    z = (y - y.mean()) / y.std(ddof=1)
    scaled = None if noise is None else np.maximum(noise / y.var(ddof=1), NOISE.lower)
    stock = form_evidence(fixed, STOCK, points, z, scaled)

    def ratio(name: str, seen: Points) -> float:
        return form_evidence(fixed, name, seen, z, scaled, stock).log - stock.log

    ratios = {name: ratio(name, points) for name in FORMS}
    log_ratio = float(np.logaddexp.reduce([*ratios.values()])) - math.log(len(FORMS))
    answer = Answer.YES if log_ratio > FOR_TABLE else Answer.NO if log_ratio < AGAINST_TABLE else Answer.UNSURE
    ratios[STOCK] = 0.0
    if form not in ratios:
        ratios[form] = ratio(form, points if as_used is None else as_used)
    instead = max(ratios, key=ratios.__getitem__) if ratios[form] < AGAINST_FORM else None
    return Verdict(answer, log_ratio, len(y), form, ratios[form], instead)
