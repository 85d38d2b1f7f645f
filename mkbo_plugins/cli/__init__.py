"""The command line ``mkbo``, for people who do not program."""

from importlib import metadata
from typing import Annotated

import typer

from mkbo_plugins.cli.benchmarking import benchmark
from mkbo_plugins.cli.checking import check
from mkbo_plugins.cli.demonstration import demo
from mkbo_plugins.cli.describing import describe
from mkbo_plugins.cli.growing import add, drop
from mkbo_plugins.cli.pretraining import pretrain
from mkbo_plugins.cli.reporting import report
from mkbo_plugins.cli.showing import show
from mkbo_plugins.cli.suggesting import suggest

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Pre-train a covariance function on a table of condensed knowledge, look at what it learned, and let it
    suggest the next experiments.

    Exit codes: 0 done; 1 mkbo check found an error; 2 the input cannot be used; 130 interrupted.""",
)
for command in (check, describe, pretrain, add, drop, show, suggest, report, demo, benchmark):
    app.command()(command)


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"mkbo_plugins {metadata.version('mkbo_plugins')}")
        raise typer.Exit
