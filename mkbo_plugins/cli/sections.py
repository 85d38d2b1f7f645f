"""What a page of `mkbo report` says: of each table, and of a campaign."""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from mkbo_plugins.cli.campaign import Campaign
from mkbo_plugins.cli.page import heading, listing, paragraph, picture, table
from mkbo_plugins.cli.suggesting import expected_rows, point_rows
from mkbo_plugins.cli.summary import (
    NO_SHARES,
    PARAMETER_COLUMNS,
    PARAMETER_TITLE,
    SHARE_COLUMNS,
    SHARE_TITLE,
    parameter_rows,
    share_note,
    together,
)
from mkbo_plugins.core.gp.bayes_factor import FEWEST
from mkbo_plugins.covariance.pretrained import PretrainedCovariance, TrainedCovariance, trained
from mkbo_plugins.covariance.target import for_levels
from mkbo_plugins.messages.commands import in_options
from mkbo_plugins.plots import (
    best_so_far,
    covariance_slice,
    outcomes_by_prediction,
    parameter_weights,
    prediction_slice,
    resemblance,
    svg_of,
    verdict_odds,
)
from mkbo_plugins.plots.campaign import SHOWN_CAMPAIGNS
from mkbo_plugins.report.sensitivity import prediction_sensitivity
from mkbo_plugins.report.words import describe, describe_interactions, describe_prediction
from mkbo_plugins.space.levels import levels_by_name
from mkbo_plugins.space.named import NamedColumns
from mkbo_plugins.suggestion.advice import VERDICT_FROM, Advice
from mkbo_plugins.suggestion.forecast import TableForecast
from mkbo_plugins.tables.requirements import all_met

SLICES = 6
"""Parameters along which slices are drawn, those that the prediction varies with most."""

SIDE_BY_SIDE = 3

VERDICTS = 12
"""Verdicts over the trials that are drawn; each takes as long as a suggestion."""


def table_sections(cov: TrainedCovariance) -> list[str]:
    """Return what each table of a covariance holds, how well it predicts itself and what matters in it."""
    if cov.tables == 1:
        return _table_section(cov.members[0], "The table")
    titles = [f"Table {i} of {cov.tables}: {name}" for i, name in enumerate(cov.targets, 1)]
    sections = zip(cov.members, titles, strict=True)
    return [paragraph(together(cov)), *(part for one, title in sections for part in _table_section(one, title))]


def _table_section(cov: PretrainedCovariance, title: str) -> list[str]:
    shares, captured = describe_interactions(cov)
    sensitivity = prediction_sensitivity(cov)
    names = sorted(cov.space.names, key=lambda name: -sensitivity[name].total)[:SLICES]
    parts = [
        heading(title),
        table([[label, in_options(text)] for label, text in describe(cov)]),
        heading("What matters", 3),
        table(parameter_rows(cov), PARAMETER_COLUMNS, PARAMETER_TITLE),
    ]
    if shares:
        weights = table([[involved, f"{part:.1%}"] for involved, part in shares], SHARE_COLUMNS, SHARE_TITLE)
        said = "Share of prior variance that involves each parameter, and of the prediction's variance (diamonds)"
        parts += [picture(svg_of(parameter_weights(cov).figure), said), weights, paragraph(share_note(captured))]
    else:
        parts.append(paragraph(NO_SHARES))
    lead = (
        "Along one parameter, through the point where the table predicts most (dotted line), the others unchanged: "
        "what the table predicts, and below it how alike outcomes there and at that point are expected to be."
    )
    rows = [names[i : i + SIDE_BY_SIDE] for i in range(0, len(names), SIDE_BY_SIDE)]
    drawn = [picture(svg_of(_slices(cov, some)), f"Prediction and covariance along {', '.join(some)}") for some in rows]
    return [*parts, heading("Slices", 3), paragraph(lead), *drawn]


def _slices(cov: PretrainedCovariance, names: list[str]) -> Figure:
    """Return slices of the prediction above those of the covariance, a column for each parameter."""
    figure = Figure(figsize=(3.3 * len(names), 4.6), layout="constrained")
    above, below = figure.subplots(2, len(names), squeeze=False, sharex="col")
    for name, upper, lower in zip(names, above, below, strict=True):
        prediction_slice(cov, name, ax=upper)
        covariance_slice(cov, name, ax=lower)
        upper.set_xlabel("")
    for axes in below[1:]:
        axes.get_legend().remove()
    return figure


def campaign_section(campaign: Campaign, advice: Advice) -> list[str]:
    """Return how a campaign went so far, what it says of the table, and what comes next."""
    trials, outcome = campaign.trials, campaign.outcome
    parts = [heading(f"The campaign: {outcome}"), paragraph(advice.state(outcome))]
    if len(trials.y):
        allowed = all_met(campaign.required, len(trials.y))
        aim = "smallest" if campaign.minimise else "largest"
        best = best_so_far(trials.y, outcome, minimise=campaign.minimise, allowed=allowed)
        parts += [picture(svg_of(best.figure), f"Outcomes in the order of the table, and the {aim} so far")]
        parts += _table_and_outcomes(campaign)
    if advice.most_like:
        drawn = resemblance(advice.most_like)
        said = (
            "How well the predictions of earlier campaigns rank the outcomes so far: 1 is the same order, -1 reversed"
        )
        said += f"; chance alone gives up to about {2 / np.sqrt(len(trials.y) - 1):.2f} with {len(trials.y)} outcomes"
        left = len(advice.most_like) - SHOWN_CAMPAIGNS
        said += f"; {left} more are less like it" if left > 0 else ""
        parts += [heading("Earlier campaigns most like this one", 3), picture(svg_of(drawn.figure), said)]
    numbers = [f"experiment {i}" for i, _ in enumerate(advice.suggestions, 1)]
    return [
        *parts,
        heading("Next experiments", 3),
        table([*point_rows(advice), *expected_rows(advice, outcome, campaign.requirements)], ["", *numbers]),
        listing(s.why for s in advice.suggestions),
        *map(paragraph, advice.findings),
        heading("All experiments", 3),
        _experiments(campaign),
    ]


def _table_and_outcomes(campaign: Campaign) -> list[str]:
    """Return the predictions of tables beside outcomes, and the odds for the tables over the trials."""
    trials, outcome = campaign.trials, campaign.outcome
    cov = for_levels(trained(campaign.cov), levels_by_name(campaign.given, campaign.fixed))
    columns = NamedColumns.of(cov.space, cov.frame, None, campaign.given, campaign.fixed)
    tables = TableForecast(cov, columns, trials.X, "trials")
    parts = [heading("The table and the outcomes", 3)]
    for member, predicted in zip(cov.members, tables.predictions(trials.X), strict=True):
        name = member.record.target
        said = f"Outcomes over what the table predicts of {name}"
        if len(trials.y) >= FEWEST and np.ptp(trials.y) > 0 and np.ptp(predicted) > 0:
            said += f"; rank correlation {spearmanr(predicted, trials.y).statistic:.2f}"
        drawn = outcomes_by_prediction(predicted, trials.y, describe_prediction(member), outcome)
        parts.append(picture(svg_of(drawn.figure), said))
    counts = [n for n in range(FEWEST, len(trials.y) + 1) if np.ptp(trials.y[:n]) > 0]
    if not counts:
        return parts
    shown = np.unique(np.linspace(0, len(counts) - 1, VERDICTS).round().astype(int))
    verdicts = [tables.judge(trials.X[: counts[i]], trials.y[: counts[i]], campaign.form) for i in shown]
    said = (
        "Odds that the outcomes up to each trial give models with the table over the model without it; of fewer than "
        f"{VERDICT_FROM} outcomes they often point the wrong way"
    )
    return [*parts, picture(svg_of(verdict_odds(verdicts).figure), said)]


def _experiments(campaign: Campaign) -> str:
    trials, space = campaign.trials, campaign.searched
    told = [
        *(f"{value:.6g}" for value in trials.y),
        *["pending"] * len(trials.pending),
        *["failed"] * len(trials.failed),
    ]
    points = space.from_raw(trials.tried)
    rows = [
        [str(i), *(f"{v:.6g}" if isinstance(v, float) else str(v) for v in point.values()), value]
        for i, (point, value) in enumerate(zip(points, told, strict=True), 1)
    ]
    return table(rows, ["", *space.names, campaign.outcome])
