"""The command ``mkbo show``."""

from pathlib import Path
from typing import Annotated

import typer

from mkbo_plugins.cli.messages import check_writable, print_json
from mkbo_plugins.cli.summary import print_summary, summary
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.messages.commands import plain_errors
from mkbo_plugins.messages.terminal import Terminal


def show(
    file: Annotated[Path, typer.Argument(help="A saved covariance, *.mkbo.json.")],
    plot: Annotated[
        Path | None, typer.Option(help="Picture to write: weights, and covariance around the middle of the space.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was learned as JSON.")] = False,
) -> None:
    """Show what a saved covariance has learned.

    Exit codes: 0 shown; 2 the file is no saved covariance.

    Example: mkbo show alloy.mkbo.json

    Example: mkbo show alloy.mkbo.json --plot alloy.png
    """
    with plain_errors():
        cov = PretrainedCovariance.load(file)
        if plot is not None:
            check_writable(plot, [file])
            from mkbo_plugins.plots import overview, save_figure

            save_figure(overview(cov), plot)
        if as_json:
            print_json(summary(cov))
        else:
            print_summary(Terminal(), cov)
