"""The command ``mkbo report``."""

from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from mkbo_plugins.cli.campaign import read_campaign
from mkbo_plugins.cli.messages import check_writable
from mkbo_plugins.cli.options import (
    CandidatesOption,
    CountOption,
    DirectionOption,
    DoneOption,
    FixOption,
    FormOption,
    MinimiseOption,
    NoiseOption,
    RequireOption,
    SeedOption,
    SpaceOption,
    TargetOption,
)
from mkbo_plugins.cli.page import check_replaceable, page
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.pretrained import PretrainedCovariance, trained
from mkbo_plugins.errors import TableError
from mkbo_plugins.files import write_atomically
from mkbo_plugins.messages.commands import plain_errors
from mkbo_plugins.messages.terminal import Terminal

SUGGESTED = 3
"""Number of experiments that a page suggests unless told otherwise."""


def report(
    file: Annotated[Path, typer.Argument(help="A saved covariance, *.mkbo.json.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")],
    done: DoneOption = None,
    space: SpaceOption = None,
    n: CountOption = SUGGESTED,
    target: TargetOption = None,
    noise: NoiseOption = None,
    require: RequireOption = None,
    minimise: MinimiseOption = False,
    candidates: CandidatesOption = None,
    fix: FixOption = None,
    direction: DirectionOption = None,
    form: FormOption = DEFAULT_FORM,
    seed: SeedOption = 0,
) -> None:
    """Write a page to pass on: what the table holds and what matters in it, and how a campaign goes on.

    It is one HTML file with its pictures inside, for any browser, without a network, and for printing. With --done it
    has the campaign so far and the experiments that mkbo suggest gives with the same options. Exit codes: 0 written; 2
    an input cannot be used; 130 interrupted.

    Example: mkbo report alloy.mkbo.json --out alloy.html

    Example: mkbo report alloy.mkbo.json --done done.csv --space space.toml --direction same --out campaign.html
    """
    with plain_errors():
        check_writable(out, [file, done, space, candidates])
        check_replaceable(out)
        if done is None:
            chosen = {"-n": n != SUGGESTED, "--form": form != DEFAULT_FORM, "--seed": seed, "--minimise": minimise}
            texts = {"--space": space, "--target": target, "--noise": noise, "--candidates": candidates}
            lists = {"--require": require, "--fix": fix, "--direction": direction}
            idle = [option for option, value in (texts | lists | chosen).items() if value]
            if idle:
                raise TableError(f"{idle[0]} is about a campaign; give its experiments with --done, or leave it out")
        from mkbo_plugins.cli.sections import campaign_section, table_sections

        cov = trained(PretrainedCovariance.load(file))
        parts = table_sections(cov)
        if done is not None:
            campaign = read_campaign(
                cov,
                done,
                space,
                candidates,
                target=target,
                noise=noise,
                require=require,
                fix=fix,
                minimise=minimise,
                direction=direction,
                form=form,
            )
            parts += campaign_section(campaign, campaign.advise(n, seed))
        written_by = f"mkbo_plugins {metadata.version('mkbo_plugins')}, covariance {cov.fingerprint[:16]}"
        write_atomically(out, page(f"What is known of {' and '.join(cov.targets)}", parts, f"Written by {written_by}"))
        Terminal().print(f"written to {out}", soft_wrap=True)
