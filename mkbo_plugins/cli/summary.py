"""What a covariance has learned, for people and for scripts."""

from dataclasses import asdict
from typing import Any

from rich.table import Table

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.pretrained import PretrainedCovariance, trained
from mkbo_plugins.messages.commands import in_options
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.report.words import describe, describe_interactions, describe_parameters

PARAMETER_COLUMNS = ("parameter", "range", "length scale", "alone", "in all")
PARAMETER_TITLE = "What the table's prediction varies with: shares of its variance, alone and with interactions"
SHARE_COLUMNS = ("varies with", "share of prior variance")
SHARE_TITLE = "How the covariance spreads what it expects of a target"
NO_SHARES = "length scales are too small to say which parameters the covariance varies with"


def summary(cov: Covariance) -> dict[str, Any]:
    """Return what `print_summary` prints as values for JSON."""
    cov = trained(cov)
    if cov.tables == 1:
        return _summary_of_one(cov.members[0])
    return {
        "frame": cov.frame,
        "fingerprint": cov.fingerprint,
        "space": cov.space.to_dict(),
        "constraints": [constraint.to_spec() for constraint in cov.space.constraints],
        "members": [_summary_of_one(member) for member in cov.members],
    }


def _summary_of_one(cov: PretrainedCovariance) -> dict[str, Any]:
    shares, captured = describe_interactions(cov)
    record = cov.record
    return {
        "target": record.target,
        "rows": record.rows,
        "task": record.task,
        "trainer": record.trainer,
        "explained": record.explained,
        "loo_mse": record.loo_mse,
        "C": cov.C,
        "epsilon": cov.epsilon,
        "sigma": cov.sigma,
        "frame": cov.frame,
        "log_target": cov.log_target,
        "rank_target": cov.ranked is not None or bool(cov.campaigns),
        "fingerprint": cov.fingerprint,
        "space": cov.space.to_dict(),
        "constraints": [constraint.to_spec() for constraint in cov.space.constraints],
        "parameters": [
            {"name": name, "range": extent, "length_scale": length, **share._asdict()}
            for name, extent, length, share in describe_parameters(cov)
        ],
        "shares": dict(shares),
        "shares_captured": captured,
        "notes": list(record.notes),
        "earlier": [asdict(earlier) for earlier in cov.earlier],
        "campaigns": [asdict(campaign) | {"explained": campaign.explained} for campaign in cov.campaigns],
    }


def print_summary(console: Terminal, cov: Covariance) -> None:
    """Print what a covariance has learned, table by table."""
    cov = trained(cov)
    for number, member in enumerate(cov.members, 1):
        if cov.tables > 1:
            console.rule(f"table {number} of {cov.tables}: {member.record.target}", align="left", characters="-")
        _print_one(console, member)
    if cov.tables > 1:
        console.print(together(cov))


def together(cov: Covariance) -> str:
    """Return what several tables have in common, as a sentence."""
    members = trained(cov).members
    shared = [name for name in cov.space.names if all(name in member.space.names for member in members)]
    return (
        f"{cov.tables} tables over {len(cov.space.names)} parameters, in common: {', '.join(shared) or 'none'}; "
        f"fingerprint {cov.fingerprint[:16]}"
    )


def _print_one(console: Terminal, cov: PretrainedCovariance) -> None:
    facts = Table(box=None, show_header=False)
    for label, text in describe(cov):
        facts.add_row(label, in_options(text))
    console.print(facts)
    parameters = Table(*PARAMETER_COLUMNS, title=PARAMETER_TITLE)
    for row in parameter_rows(cov):
        parameters.add_row(*row)
    console.print(parameters)
    shares, captured = describe_interactions(cov)
    if not shares:
        console.print(f"({NO_SHARES})")
        return
    weights = Table(*SHARE_COLUMNS, title=SHARE_TITLE)
    for involved, part in shares:
        weights.add_row(involved, f"{part:.1%}")
    console.print(weights)
    console.print(f"({share_note(captured)})")


def parameter_rows(cov: PretrainedCovariance) -> list[list[str]]:
    """Return a row of `PARAMETER_COLUMNS` for each parameter."""
    return [
        [name, extent, length, f"{share.alone:.0%}", f"{share.total:.0%}"]
        for name, extent, length, share in describe_parameters(cov)
    ]


def share_note(captured: float) -> str:
    """Return how shares of prior variance are to be read, of which a part was looked at."""
    return (
        f"listed and smaller terms together: {captured:.1%} of the covariance; it leaves open in which direction each "
        "term goes, so terms that cancel in the prediction count here"
    )
