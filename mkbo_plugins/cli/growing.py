"""The commands ``mkbo add`` and ``mkbo drop``."""

from pathlib import Path
from typing import Annotated

import typer

from mkbo_plugins.cli.messages import check_writable, print_json
from mkbo_plugins.cli.options import GROUPS, NOISE, TABLE
from mkbo_plugins.cli.summary import print_summary, summary
from mkbo_plugins.covariance.container import check_replaceable
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.messages.commands import plain_errors
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.pretraining.growing import add_campaign, drop_campaign
from mkbo_plugins.tables.inputfiles import read_trials_file

FILE = typer.Argument(help="A saved covariance of campaigns, of mkbo pretrain --by.")
OUT = typer.Option(help="File to write; FILE itself is replaced if left out.")
JOBS = typer.Option(help="Parallel workers; -1 for all cores.")
JSON = typer.Option("--json", help="Print what is known then as JSON.")


def add(
    file: Annotated[Path, FILE],
    table: Annotated[Path, TABLE],
    name: Annotated[str, typer.Option(help="What the new campaign is called.")],
    target: Annotated[str | None, typer.Option(help="Target column, if not called as that of the others.")] = None,
    date: Annotated[
        str | None, typer.Option(help="Its day, as 2026-11-03, or first and last one, as 2026-11-03/2026-11-20.")
    ] = None,
    out: Annotated[Path | None, OUT] = None,
    groups: Annotated[str | None, GROUPS] = None,
    noise: Annotated[str | None, NOISE] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows that lack a value.")] = False,
    jobs: Annotated[int, JOBS] = -1,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Add a campaign to a covariance of campaigns, without training on the others again.

    FILE is replaced as a whole or not at all. Exit codes: 0 saved; 2 an input cannot be used; 130 interrupted.

    Example: mkbo add runs.mkbo.json new_runs.csv --name 2026-11 --date 2026-11-03
    """
    with plain_errors():
        written = file if out is None else out
        check_writable(written, [table] if out is None else [file, table])
        cov = PretrainedCovariance.load(file)
        check_replaceable(written)
        grown = add_campaign(
            cov,
            read_trials_file(table, cov.space)[0],
            name,
            target,
            date=date,
            groups=groups,
            noise=noise,
            missing="drop" if drop_missing else "error",
            n_jobs=jobs,
        )
        _save(grown, written, as_json=as_json)


def drop(
    file: Annotated[Path, FILE],
    name: Annotated[str, typer.Option(help="What the campaign to leave out is called.")],
    out: Annotated[Path | None, OUT] = None,
    jobs: Annotated[int, JOBS] = -1,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Leave a campaign out of a covariance of campaigns, without training on the others again.

    Coordinate weights and noise stay those that it may have had a part in. FILE is replaced as a whole or not at all.
    Exit codes: 0 saved; 2 an input cannot be used; 130 interrupted.

    Example: mkbo drop runs.mkbo.json --name 2026-11
    """
    with plain_errors():
        written = file if out is None else out
        check_writable(written, [] if out is None else [file])
        cov = PretrainedCovariance.load(file)
        check_replaceable(written)
        _save(drop_campaign(cov, name, n_jobs=jobs), written, as_json=as_json)


def _save(cov: PretrainedCovariance, path: Path, *, as_json: bool) -> None:
    cov.save(path)
    if as_json:
        print_json({"file": str(path), **summary(cov)})
    else:
        console = Terminal()
        print_summary(console, cov)
        console.print(f"saved as {path}", soft_wrap=True)
