"""What a covariance has learned, for people and for scripts."""

from typing import Any

from rich.console import Console
from rich.table import Table

from mkbo_plugins.pretrained import PretrainedCovariance
from mkbo_plugins.report import describe, describe_interactions, describe_parameters


def summary(cov: PretrainedCovariance) -> dict[str, Any]:
    """Return what `print_summary` prints as values for JSON."""
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
        "fingerprint": cov.fingerprint,
        "space": cov.space.to_dict(),
        "parameters": [
            {"name": name, "range": extent, "length_scale": length} for name, extent, length in describe_parameters(cov)
        ],
        "shares": dict(shares),
        "shares_captured": captured,
        "notes": list(record.notes),
    }


def print_summary(console: Console, cov: PretrainedCovariance) -> None:
    """Print what a covariance has learned."""
    facts = Table(box=None, show_header=False)
    for label, text in describe(cov):
        facts.add_row(label, text)
    console.print(facts)
    parameters = Table(
        "parameter",
        "range",
        "length scale",
        title="How fast the table's target changes with each parameter: the shorter, the faster",
    )
    for row in describe_parameters(cov):
        parameters.add_row(*row)
    console.print(parameters)
    shares, captured = describe_interactions(cov)
    if not shares:
        console.print(
            "(length scales are too small to say which parameters the covariance varies with)", highlight=False
        )
        return
    weights = Table("varies with", "share of prior variance", title="How the covariance spreads its expected variation")
    for name, share in shares:
        weights.add_row(name, f"{share:.1%}")
    console.print(weights)
    console.print(f"(listed and smaller terms together: {captured:.1%} of the covariance)", highlight=False)
